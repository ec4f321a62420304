"""The commands speak English, whatever language the process is in, and what they store is the same, too."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import translation

from durable.models import Event, StaffAction
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

ASKED = (
    ("health",), ("health", "--json"), ("list",), ("list", "--json"), ("deadletters",), ("deadletters", "--json"),
    ("redrive", "--all", "--dry-run"), ("show", "nobody"), ("redrive",), ("--help",), ("frobnicate",),
)  # fmt: skip


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """What a run says on stdout, and what it was refused with."""
    refused = ""
    try:
        call_command("durable", *arguments)
    except CommandError as error:
        refused = str(error)
    except SystemExit as end:
        refused = str(end.code)
    said = capsys.readouterr()
    return said.out, refused + said.err


@pytest.mark.parametrize("arguments", ASKED, ids=" ".join)
@pytest.mark.parametrize("language", ["de", "fr"])
def test_a_command_says_the_same_in_every_language(
    language: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], frozen_clock: object
) -> None:
    workflow = factories.WorkflowFactory(status="failed", failure={"type": "OSError", "message": "closed"})
    factories.DeadLetterFactory(workflow=workflow)
    factories.WorkerFactory(name="worker-1")
    wanted = printed(capsys, *arguments)
    assert any(wanted)
    with translation.override(language):
        assert printed(capsys, *arguments) == wanted


@pytest.mark.parametrize("language", ["en", "de"])
def test_what_a_command_stores_has_one_language(language: str, capsys: pytest.CaptureFixture[str]) -> None:
    workflow = factories.WorkflowFactory()
    factories.history_of(workflow, length=1)
    with translation.override(language):
        call_command("durable", "pause", str(workflow.pk), "--reason", "the bank is closed")
    assert StaffAction.objects.values_list("verb", "through", "reason").get() == (
        "pause",
        "command",
        "the bank is closed",
    )
    assert Event.objects.order_by("-seq")[0].data["reason"] == "the bank is closed"

"""What the command says of signals and requests to cancel that their workflow can not take now."""

from __future__ import annotations

from typing import Any

import pytest

from durable.models import Workflow
from tests.management.ran import Ran, started

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("verb", ["signal", "cancel"])
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"status": "paused"}, " It is paused, so this takes effect after `durable resume`."),
        ({"blocked_reason": "other code"}, " It is blocked, so this takes effect when it is unblocked."),
        ({}, ""),
    ],
    ids=["paused", "blocked", "running"],
)
def test_what_is_sent_to_a_workflow_that_does_not_turn_is_said_to_come_later(
    shop: dict[str, Any], verb: str, changed: dict[str, str], told: str
) -> None:
    workflow = started()
    Workflow.objects.filter(pk=workflow.pk).update(**changed)
    arguments = [verb, str(workflow.pk), *(["approval"] if verb == "signal" else [])]
    ran = Ran(*arguments)
    assert ran.code == 0
    first = "Requested: the workflow sees it at its next turn, and may clean up first."
    if verb == "signal":
        first = "The signal approval was accepted; the workflow takes it at its next turn."
    assert ran.out.strip() == first + told
    assert Ran(*arguments, "--json").data["status"] == changed.get("status", "running")

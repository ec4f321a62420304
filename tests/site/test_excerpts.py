"""The short pieces of code on the other pages run, too, each in surroundings that its page describes."""

from __future__ import annotations

import ast
import asyncio
import base64
import os
import re
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from django.core.management import call_command
from django.db.utils import ConnectionHandler
from django.test import TestCase, override_settings

import durable
from durable import operations, testing
from durable.kernel.definitions.registry import registry
from durable.models import DeadLetter, Workflow
from tests import factories
from tests.architecture.source import ROOT
from tests.transports.in_process import receiver

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {"testing.md", "django-tasks.md", "tutorial.md"}
"""Pages whose code other tests run, as those of `how-to/` (`test_guides`)."""


@dataclass
class Receipt:
    number: str
    items: list[int]


class OutOfStock(Exception):
    pass


class Surroundings(dict[str, Any]):
    """The names that pages use without defining them."""

    def __init__(self, **names: Any) -> None:
        super().__init__(
            durable=durable, activity=durable.activity, workflow=durable.workflow, Retry=durable.Retry, asyncio=asyncio,
            timedelta=timedelta, Decimal=Decimal, Annotated=Annotated, os=os, Receipt=Receipt, OutOfStock=OutOfStock,
            __name__="shop.activities", **names,
        )  # fmt: skip

    def run(self, text: str) -> Surroundings:
        exec(text, self)
        return self

    def statements(self, text: str, before: Callable[[str], None]) -> None:
        """One statement after the other; `before` is told each."""
        for statement in ast.parse(text).body:
            before(ast.unparse(statement))
            exec(ast.unparse(statement), self)


def pieces(page: str) -> list[str]:
    """The blocks of a page."""
    return [textwrap.dedent(text) for _, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))]


@pytest.fixture(autouse=True)
def own_registry() -> Iterator[None]:
    with registry.isolated():
        yield


def shop(**names: Any) -> Surroundings:
    """Two activities and a workflow, as the pages call them."""
    return Surroundings(**names).run(
        textwrap.dedent(
            """
            @activity(name="shop.charge")
            def charge(order_id: int, amount: Decimal) -> Receipt:
                return Receipt(f"R-{order_id}", [1, 2])

            @activity(name="shop.ship")
            def ship(item: int) -> None: ...

            @workflow(name="shop.parcel")
            async def parcel(number: int) -> int:
                return number

            @workflow(name="shop.waits")
            async def waits() -> str:
                return await durable.wait_for_signal("approval")

            @workflow(name="shop.checkout")
            async def checkout(order_id: int) -> str:
                return (await charge.execute(order_id, Decimal(1))).number

            @workflow(name="shop.parcel")
            async def parcel(number: int) -> int:
                return number
            """
        )
    )


@pytest.mark.django_db
def test_the_workflow_of_the_first_page() -> None:
    (text,) = pieces("index.md")
    made = shop()
    made["workflow"] = durable.workflow(name="shop.first_page")
    approved = [(timedelta(hours=1), "approval", {"by": "Ada"})]
    assert testing.run(made.run(text)["checkout"], 42, signals=approved) == "R-42 approved by Ada"


def test_an_activity_with_all_options() -> None:
    made = Surroundings().run(pieces("activities.md")[0])
    assert made["charge"].name.endswith("charge")


@pytest.mark.parametrize(("status", "error"), [(429, durable.RetryAfter), (410, durable.NoRetry), (200, None)])
def test_an_activity_that_says_when(status: int, error: type[Exception] | None) -> None:
    made = Surroundings().run("def handler(response):\n" + textwrap.indent(pieces("activities.md")[1], "    "))
    response = SimpleNamespace(status_code=status, headers={"Retry-After": "30"})
    if error is None:
        made["handler"](response)
        return
    with pytest.raises(error):
        made["handler"](response)


@pytest.mark.django_db
def test_who_sees_which_rows() -> None:
    (text,) = pieces("admin.md")
    narrow = Surroundings().run(text)["of_their_team"]
    factories.WorkflowFactory(queue="mails"), factories.WorkflowFactory(queue="imports")
    member = SimpleNamespace(is_superuser=False, profile=SimpleNamespace(queues=["mails"]))
    assert [row.queue for row in narrow(member, Workflow.objects.all())] == ["mails"]
    assert narrow(SimpleNamespace(is_superuser=True), Workflow.objects.all()).count() == 2


@pytest.mark.django_db
def test_the_verbs_for_dead_letters(admin_user: Any) -> None:
    (text,) = pieces("dead-letters.md")
    made = Surroundings(request=SimpleNamespace(user=admin_user))

    def fresh(statement: str) -> None:
        workflow = factories.WorkflowFactory()
        factories.history_of(workflow, length=1)
        row = factories.DeadLetterFactory(workflow=workflow, ordinal=1)
        made.update(workflow_id=workflow.pk, ordinal=row.ordinal)

    made.statements(text, fresh)
    left = DeadLetter.objects.filter(status="dead")
    assert operations.preview_redrive(operations.DeadLetterFilter(activity="shop.charge")).redrivable == left.count()
    assert made["workflow_id"] not in left.values_list("workflow_id", flat=True)


def test_the_settings_of_the_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURABLE_KEY_2026_11", base64.b64encode(b"k" * 32).decode())
    with override_settings(DURABLE=Surroundings().run(pieces("encryption.md")[0])["DURABLE"]):
        call_command("check", "--fail-level", "WARNING", "--tag", "durable")


def test_secret_fields() -> None:
    made = Surroundings().run(pieces("encryption.md")[1])
    assert made["charge"].name.endswith("charge")
    with override_settings(DURABLE=made["DURABLE"]):
        call_command("check", "--fail-level", "WARNING", "--tag", "durable")


def test_sentry() -> None:
    text = pieces("logs-and-signals.md")[0].replace("dsn=...", "dsn=None")
    imports = (
        "import logging, sentry_sdk\nfrom sentry_sdk.integrations.django import DjangoIntegration\n"
        "from sentry_sdk.integrations.logging import LoggingIntegration\n"
    )
    subprocess.run([sys.executable, "-c", imports + text], check=True, timeout=60, capture_output=True)


@pytest.mark.django_db
def test_signals_in_a_test_case() -> None:
    made = shop()
    made["self"] = TestCase
    made.run(pieces("logs-and-signals.md")[1])
    assert Workflow.objects.get().status == "completed"


@pytest.mark.django_db
def test_the_options_of_sqlite(tmp_path: Path) -> None:
    (text,) = pieces("operations.md")
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "db.sqlite3", **eval(f"{{{text}}}")}
    connections = ConnectionHandler({"default": database})
    with connections["default"].cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)
    connections.close_all()


def test_the_settings_of_a_cluster(settings: Any) -> None:
    made = Surroundings().run(pieces("transports.md")[0])
    settings.INSTALLED_APPS = list(dict.fromkeys([*settings.INSTALLED_APPS, "django_q"]))
    settings.Q_CLUSTER, settings.DURABLE = made["Q_CLUSTER"], made["DURABLE"]
    call_command("check", "--fail-level", "WARNING", "--tag", "durable")


def test_a_transport_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "receive.py").write_text("import pathlib, sys; pathlib.Path('got').write_text(' '.join(sys.argv[1:]))")
    started = []
    made = Surroundings().run(pieces("transports.md")[1])
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **more: started.append(popen(*args, **more)))
    transport, token = made["Subprocess"]("any"), uuid.uuid4()
    transport.ping()
    transport.send(7, token)
    started[0].wait(30)
    assert (tmp_path / "got").read_text() == f"7 {token.hex}"


@pytest.mark.django_db(transaction=True)
def test_the_other_side_of_a_transport() -> None:
    with receiver():
        made = Surroundings(row_id=7, token=uuid.uuid4()).run(pieces("transports.md")[2])
    assert made["received"] is not made["Received"].LEAVE


def test_a_workflow_with_options_and_one_that_blocks_on_more() -> None:
    texts = pieces("writing-workflows.md")
    for text in (texts[0], texts[3]):
        with registry.isolated():
            assert Surroundings().run(text)["checkout"].name.endswith("checkout")


@pytest.mark.django_db(transaction=True)
def test_what_a_handle_can_do() -> None:
    made = shop()

    def before(statement: str) -> None:
        made["workflow_id"] = getattr(made.get("handle"), "id", None)
        if "start(" in statement and isinstance(made.get("handle"), durable.Handle):
            made["handle"].cancel(reason="the key is needed again")
            testing.drain()
        if "result(" in statement:
            testing.drain()
        if "signal(" in statement or "cancel(" in statement:
            made["handle"] = made["checkout"].start(7)

    made.statements(pieces("writing-workflows.md")[1], before)
    assert Workflow.objects.filter(type="shop.checkout").count() == 6


def within(text: str, returned: str) -> str:
    """A piece of workflow code as a workflow."""
    return (
        "@workflow(name='shop.piece')\n"
        "async def piece(workflow_id: str = '', order_id: int = 42, amount: Decimal = Decimal(1)) -> str:\n"
        "    items = [1, 2]\n" + textwrap.indent(text, "    ") + f"    return str({returned})\n"
    )


@pytest.mark.django_db
def test_what_a_parent_does_with_its_children() -> None:
    text = pieces("children.md")[0].replace("range(1000)", "range(20)")
    assert testing.run(shop().run(within(text, "result"))["piece"]) == "42"
    assert Workflow.objects.filter(type="shop.parcel").count() == 22


@pytest.mark.django_db
def test_what_a_workflow_says_to_others() -> None:
    made = shop()
    other, keyed = made["waits"].start(), made["waits"].start(key="order-42")
    made["checkout"] = made["waits"]
    testing.drain()
    made.run(within(pieces("children.md")[1], "'said'"))
    assert testing.run(made["piece"], str(other.id)) == "said"
    testing.drain()
    assert {other.status(), keyed.status()} == {durable.WorkflowStatus.CANCELLED}


@pytest.mark.django_db
def test_what_workflow_code_may_do() -> None:
    text = pieces("writing-workflows.md")[2]
    piece = shop().run(within(text, "f'{receipt.number} {verdict} {result}'"))["piece"]
    assert testing.run(piece, signals=[(timedelta(hours=1), "approval", "fine")]) == "R-42 fine 42"


@pytest.mark.django_db
def test_old_and_new_code_side_by_side() -> None:
    made = Surroundings()
    for name in ("charge", "launch", "ship"):
        made.run(f"@activity(name='shop.{name}')\ndef {name}(order_id: int) -> None: ...")
    made.run(pieces("writing-workflows.md")[4])
    with testing.replaced({made["launch"]: lambda order_id: None}) as calls:
        assert testing.run(made["fulfil"], 42) == "delivered"
    assert len(calls.of(made["launch"])) == 1


def test_the_code_of_every_page_is_run() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    pages = {path.name for path in DOCS.glob("*.md") if BLOCK.search(path.read_text(encoding="utf-8"))}
    assert {page for page in pages - ELSEWHERE if f'pieces("{page}")' not in source} == set()
    for page in pages - ELSEWHERE:
        taken = re.findall(rf'pieces\("{page}"\)(?:\[(\d)\])?', source)
        assert len(pieces(page)) == 1 or "" in taken or len(set(taken)) == len(pieces(page)), page

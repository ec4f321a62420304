"""What is hidden by its name is quoted by no error, whoever made it, and wherever it goes."""

from __future__ import annotations

import io
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

import durable
from durable import Retry, activity, testing, workflow
from durable.client import hidden
from durable.kernel.definitions.registry import registry
from durable.models import Workflow

pytestmark = pytest.mark.django_db
CANARY = "canary-4711"


class Odd:
    """No JSON, and tells what it holds."""

    def __repr__(self) -> str:
        return f"<Odd {CANARY}>"


@dataclass
class Account:
    owner: str
    iban: str


class Options(TypedDict):
    fast: bool


@pytest.fixture
def bank(settings: Any) -> Iterator[SimpleNamespace]:
    settings.DURABLE = {"HIDDEN_FIELDS": ["IBAN", "card-number"]}
    with registry.isolated():

        @activity(name="bank.pay", retry=Retry(max_attempts=1))
        def pay(
            iban: str = "", account: Account | None = None, amount: float = 0, *more: int, **named: int
        ) -> None: ...

        @activity(name="bank.choose")
        def choose(options: Options, ibans: dict[str, int] | None = None) -> None: ...

        @activity(name="bank.returns", retry=Retry(max_attempts=1))
        def returns(how: str) -> Account | dict[str, Any]:
            if how == "heartbeat":
                durable.activity_info().heartbeat({"iban": Odd()})
            odd: Any = {"iban": Odd()}
            return Account("anna", Odd()) if how == "record" else odd  # type: ignore[arg-type]

        @workflow(name="bank.waits")
        async def waits(iban: str = "") -> Any:
            return await durable.wait_for_signal("go")

        yield SimpleNamespace(pay=pay, choose=choose, returns=returns, waits=waits)


Call = Callable[[Any], Any]
CALLS: dict[str, Call] = {
    "a parameter": lambda bank: bank.pay.enqueue(iban=Odd()),
    "one by position": lambda bank: bank.pay.enqueue(Odd()),
    "one of many": lambda bank: bank.pay.enqueue_many([("x",), (Odd(),)]),
    "a field": lambda bank: bank.pay.enqueue(account=Account("anna", Odd())),  # type: ignore[arg-type]
    "a record in the place of another": lambda bank: bank.pay.enqueue(amount=Account("anna", CANARY)),
    "a mapping in the place of a record": lambda bank: bank.pay.enqueue(account={"iban": CANARY}),
    "a name that is no identifier": lambda bank: bank.pay.enqueue("x", None, {"card-number": CANARY}),
    "what a name that is no identifier holds": lambda bank: bank.waits.start().signal("go", {"card-number": Odd()}),
    "a key under such a name": lambda bank: bank.waits.start({"card-number": {CANARY: "\0"}}),
    "what args take": lambda bank: bank.pay.enqueue("x", None, 0, {"iban": CANARY}),
    "what kwargs take": lambda bank: bank.pay.enqueue(**{"card-number": CANARY}),
    "a key that is too much": lambda bank: bank.choose.enqueue({"fast": True, f"iban {CANARY}": 1}),
    "a key under it": lambda bank: bank.choose.enqueue({"fast": True}, {"iban": {CANARY: 1}}),
    "a text that no database takes": lambda bank: bank.waits.start({"iban": {CANARY: "\0"}}),
    "a signal": lambda bank: bank.waits.start().signal("go", {"iban": Odd()}),
    "a signal's keys": lambda bank: bank.waits.start().signal("go", {"a": [{"iban": {CANARY: "\0"}}]}),
    "a signal under a key that is no text": lambda bank: bank.waits.start().signal("go", {"iban": {(CANARY,): 1}}),
    "an option": lambda bank: bank.pay.enqueue(priority={"iban": CANARY}),
    "a reserved one": lambda bank: bank.waits.start(signal=("go", {"iban": CANARY})),
    "a key": lambda bank: bank.pay.enqueue(key={"iban": CANARY}),
    "a start by the command": lambda bank: call_command(
        "durable", "start", "bank.pay", "--kwargs", json.dumps({"account": {"owner": 1, "iban": [CANARY]}})
    ),
    "one of more arguments than there are": lambda bank: call_command(
        "durable", "start", "bank.waits", "--kwargs", json.dumps({"iban": "x", "other": {"iban": CANARY}})
    ),
    "JSON of the command that is broken": lambda bank: call_command(
        "durable", "start", "bank.waits", "--kwargs", f'{{"iban": {CANARY}}}'
    ),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_a_refusal_names_the_place_and_not_the_value(bank: SimpleNamespace, name: str) -> None:
    with pytest.raises((durable.DurableError, CommandError)) as raised:
        CALLS[name](bank)
    told = [str(raised.value), repr(raised.value), "".join(traceback.format_exception(raised.value))]
    assert [CANARY in text for text in told] == [False] * len(told), told


def test_the_place_is_still_named(bank: SimpleNamespace) -> None:
    with pytest.raises(durable.PayloadError, match=r"^account\.iban: .*hidden.* is an Odd, not text"):
        bank.pay.enqueue(account=Account("anna", Odd()))  # type: ignore[arg-type]
    with pytest.raises(durable.PayloadError, match=r"^account\.owner: 4711 is an int"):
        bank.pay.enqueue(account=Account(4711, "x"))  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["record", "mapping", "heartbeat"])
def test_what_an_activity_gives_is_quoted_in_no_row_and_no_log_line(
    bank: SimpleNamespace, how: str, caplog: pytest.LogCaptureFixture, admin_client: Client
) -> None:
    caplog.set_level(logging.DEBUG)
    handle = bank.returns.enqueue(how)
    testing.drain()
    assert CANARY not in caplog.text
    texts = [everything_written()]
    out = io.StringIO()
    call_command("durable", "show", str(handle.id), stdout=out)
    texts += [out.getvalue(), admin_client.get(reverse("admin:durable_workflow_change", args=[handle.id])).text]
    assert [CANARY in text for text in texts] == [False] * len(texts)
    assert Workflow.objects.get(pk=handle.id).status == "failed"
    assert "PayloadError" in out.getvalue()


def test_a_signal_by_the_admin_is_refused_without_the_value(bank: SimpleNamespace, admin_client: Client) -> None:
    handle = bank.waits.start()
    page = admin_client.post(
        reverse("admin:durable_workflow_signal", args=[handle.id]),
        {"confirmed": "yes", "signal": "go", "payload": f'{{"iban": {CANARY}'},
    )
    assert page.text.count(CANARY) == page.text.count(f"{{&quot;iban&quot;: {CANARY}") == 1  # the form, as it was sent


def everything_written() -> str:
    """All that stands in the engine's tables."""
    texts = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table.startswith("durable_"):
                cursor.execute(f'SELECT * FROM "{table}"')
                texts += [str(row) for row in cursor.fetchall()]
    return "\n".join(texts)


def test_what_the_settings_name_is_hidden_although_a_function_cannot_be_read(
    bank: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable() -> frozenset[str]:
        raise durable.ConfigurationError("the annotations of bank.broken cannot be read")

    monkeypatch.setattr(hidden, "names", unreadable)
    with pytest.raises(durable.DurableError) as raised:
        bank.pay.enqueue(iban=Odd())
    assert CANARY not in str(raised.value)

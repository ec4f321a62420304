"""Secret fields are shown to nobody: neither to superusers, nor by commands, in errors or reprs."""

from __future__ import annotations

import inspect
import io
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

import durable
from durable import PayloadError, activity, testing, workflow
from durable.client import hidden
from durable.kernel.codec import JsonCodec, encode_call
from durable.kernel.definitions.registry import registry
from durable.kernel.payloads import secrets
from durable.kernel.payloads.arguments import ArgumentPlan
from durable.kernel.payloads.birthplace import NOWHERE
from durable.kernel.payloads.hints import resolved
from durable.models import Event, Message, OutboxRow, Workflow
from durable.worker.handlers import execute
from tests.admin.conftest import event_of, page_of

CANARY = "canary-4711"
ONLY = inspect.Parameter.POSITIONAL_ONLY


@dataclass
class Door:
    number: int
    code: Annotated[str, durable.Secret]


class Pair(NamedTuple):
    left: int
    token: Annotated[str, durable.Secret] | None


class Entry(TypedDict):
    doors: list[Door]


@dataclass
class Node:
    """Leads to itself."""

    more: list[Node]
    seed: Annotated[bytes, durable.Secret()]


@pytest.fixture
def vault() -> Iterator[SimpleNamespace]:
    with registry.isolated():

        @activity(name="vault.unlock")
        def unlock(pin: Annotated[str, durable.Secret], door: Door) -> Door:
            durable.activity_info().heartbeat({"pin": pin})
            return door

        @workflow(name="vault.enter")
        async def enter(pin: Annotated[str, durable.Secret], door: Door) -> dict[str, Door]:
            await durable.wait_for_signal("go")
            return {"opened": await unlock.execute(pin, door)}

        yield SimpleNamespace(unlock=unlock, enter=enter)


@pytest.mark.parametrize(
    ("hints", "found"),
    [
        ({"pin": Annotated[str, durable.Secret]}, {"pin"}),
        ({"door": Door}, {"code"}),
        ({"doors": dict[str, list[Door]] | None}, {"code"}),
        ({"pair": Pair, "entry": Entry}, {"token", "code"}),
        ({"node": Node}, {"seed"}),
        ({"pins": list[Annotated[str, durable.Secret]]}, {"pins"}),
        ({"return": Annotated[str, durable.Secret]}, {secrets.WHOLE_RESULT}),
        ({"plain": Annotated[str, "a note"], "n": int, "any": Any}, set()),
    ],
    ids=range(8),
)
def test_marks_are_found_wherever_they_stand(hints: dict[str, Any], found: set[str]) -> None:
    assert secrets.names_of(hints) == found


def test_marks_of_annotations_that_are_texts_are_found_in_all_records_and_not_only_in_the_first() -> None:
    """Such annotations become new objects whenever they are looked at, which may stand where others stood before."""
    holder = types.ModuleType("many_records")
    records = [f"@dataclass\nclass L{n}:\n    pin{n}: Annotated[str, Secret]\n" for n in range(20)]
    records += [f"@dataclass\nclass M{n}:\n    doors: list[L{n}]\n" for n in range(20)]
    source = "from __future__ import annotations\n" + "".join(records)
    names = {"dataclass": dataclass, "Annotated": Annotated, "Secret": durable.Secret}
    vars(holder).update(names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, holder.__name__, holder)
        exec(source, vars(holder))
        hints = {f"argument{n}": getattr(holder, f"M{n}") for n in range(20)}
        assert secrets.names_of(hints) == {f"pin{n}" for n in range(20)}


def test_hiding_keeps_all_else_as_it_is() -> None:
    names = frozenset({"pin"})
    data = {"a": [{"PIN": 1, "b": None}], "*pin": [1, 2], "n": 1}
    assert secrets.hidden(data, names) == {"a": [{"PIN": "hidden", "b": None}], "*pin": "hidden", "n": 1}
    same = {"n": [1, {"b": 2}]}
    assert secrets.hidden(same, names) is same
    assert secrets.hidden_text("{broken: pin", names) == "hidden"
    assert secrets.hidden_text("{broken: pin", frozenset()) == "{broken: pin"


@pytest.mark.django_db
def test_nobody_sees_them_in_the_admin_or_by_the_command(
    vault: SimpleNamespace, admin_client: Client, settings: Any
) -> None:
    settings.DURABLE = {"HIDDEN_FIELDS": ("Passphrase",)}
    handle = vault.enter.start(CANARY, Door(7, CANARY))
    handle.signal("go", {"passphrase": CANARY, "open": True})
    waiting = vault.enter.start(CANARY, Door(7, CANARY))
    waiting.signal("go", {"passphrase": CANARY})
    message = Message.objects.get(workflow=waiting.id, kind="signal")
    addresses = [page_of(message), page_of(Workflow.objects.get(pk=waiting.id))]
    shown = [admin_client.get(address).text for address in addresses]
    assert testing.run(handle) == {"opened": Door(7, CANARY)}
    done = Workflow.objects.get(pk=handle.id)
    addresses = [page_of(done), *(event_of(done, seq) for seq in range(1, done.last_seq + 1))]
    addresses += [page_of(row) for row in OutboxRow.objects.filter(workflow=done)]
    shown += [admin_client.get(address).text for address in addresses]
    for arguments in ((), ("--json",)):
        out = io.StringIO()
        call_command("durable", "show", str(handle.id), *arguments, stdout=out)
        shown.append(out.getvalue())
    assert [CANARY in text for text in shown] == [False] * len(shown)
    assert sum("hidden" in text for text in shown) > 6
    stored = Event.objects.get(workflow=done, type="signal_received").data
    assert CANARY in stored["payload"]  # it is hidden, not taken away


def test_errors_and_reprs_do_not_quote_them(vault: SimpleNamespace) -> None:
    codec = JsonCodec()
    with pytest.raises(PayloadError, match="which is hidden") as raised:
        codec.encode(4711, Annotated[str, durable.Secret], path="pin")
    assert "4711" not in str(raised.value)
    with pytest.raises(PayloadError) as nested:
        codec.encode(Door(1, [CANARY]), Door, path="door")  # type: ignore[arg-type]
    assert "door.code" in str(nested.value)
    assert CANARY not in str(nested.value)
    text = codec.encode("x", Annotated[str, durable.Secret], path="pin")
    assert codec.decode(text, Annotated[str, durable.Secret], path="pin") == "x"
    call = execute.Call(None, vault.unlock, (CANARY,), {"pin": CANARY}, None, None, None, codec, None)  # type: ignore[arg-type]
    assert CANARY not in repr(call)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Annotated[str, durable.Secret] | None, [CANARY]),
        (list[Annotated[str, durable.Secret]], CANARY),
        (set[Annotated[int, durable.Secret]], {CANARY}),
        (tuple[Annotated[str, durable.Secret], int], CANARY),
        (dict[str, Annotated[str, durable.Secret]], [CANARY]),
        (dict[Annotated[str, durable.Secret], int], {CANARY: object()}),
        (Door, {"number": 7, "code": CANARY}),
        (Door | None, {"number": 7, "code": CANARY}),
        (list[Door], {"code": CANARY}),
        (Entry, [Door(7, CANARY)]),
    ],
    ids=range(10),
)
def test_what_does_not_fit_around_a_secret_is_not_quoted(hint: Any, value: Any) -> None:
    plan = ArgumentPlan("vault.keep", inspect.signature(lambda kept: None), {"kept": hint})
    for write in (lambda: JsonCodec().encode(value, hint, path="kept"), lambda: plan.encode((value,), {})):
        with pytest.raises(PayloadError, match=r"kept.*is hidden") as raised:
            write()
        assert CANARY not in str(raised.value)


def test_keys_of_a_secret_mapping_are_not_quoted_on_the_way_to_what_cannot_be_stored() -> None:
    secret: Any = Annotated[dict[str, Any], durable.Secret]
    plan = ArgumentPlan("act", inspect.signature(lambda kept, *more: None), {"kept": secret, "more": secret})
    act = SimpleNamespace(name="act", plan=plan)
    for value in ({CANARY: "\0"}, {CANARY: {"a": 10**5000}}, {"\ud800" + CANARY: 1}):
        for write in (
            lambda value=value: JsonCodec().encode(value, secret, path="kept"),
            lambda value=value: encode_call(act, (value,), {}, codec=JsonCodec(), workflow_id=NOWHERE.workflow_id),
            lambda value=value: encode_call(act, ({}, value), {}, codec=JsonCodec(), workflow_id=NOWHERE.workflow_id),
        ):
            with pytest.raises(PayloadError) as raised:
                write()
            assert CANARY not in str(raised.value)


def test_signatures_show_that_there_is_a_default_and_never_which(settings: Any) -> None:
    """Whoever calls it wrongly is shown the signature: at the call, by `start_many`, and by `durable start`."""
    settings.DURABLE = {"HIDDEN_FIELDS": ["token"]}
    with registry.isolated():

        @activity(name="vault.open_by_default")
        def unlock(door: int, pin: Annotated[str, durable.Secret] = CANARY, token: str = CANARY) -> None: ...

        for call in (
            unlock.enqueue,
            lambda: unlock.enqueue_many([()]),
            lambda: unlock.enqueue_many([7]),  # type: ignore[list-item]
            lambda: call_command("durable", "start", "vault.open_by_default"),
        ):
            with pytest.raises((durable.ArgumentsMismatch, CommandError), match=r"unlock|open_by_default") as raised:
                call()
            assert CANARY not in str(raised.value)
            assert "token: 'str' = ..." in str(raised.value)
        with pytest.raises(PayloadError, match=r"= \.\.\.") as stray:
            unlock.plan.decode({"colour": 1})
        assert CANARY not in str(stray.value)
    marked = Annotated[str, durable.Secret, CANARY]
    plan = ArgumentPlan("f", inspect.Signature([inspect.Parameter("pin", ONLY, annotation=marked)]), {"pin": marked})
    assert CANARY not in plan.shown_signature


def test_what_the_code_of_a_value_said_is_not_quoted_beside_a_secret() -> None:
    class Shy(list[Door]):
        def __iter__(self) -> Iterator[Door]:
            raise ValueError(CANARY)

    with pytest.raises(PayloadError, match="reading it raised ValueError") as raised:
        JsonCodec().encode(Shy(), list[Door], path="doors")
    assert CANARY not in str(raised.value)
    assert CANARY not in str(raised.value.__cause__)


def test_a_mark_that_only_type_checkers_can_resolve_hides_all_the_same() -> None:
    def unlock(pin: Annotated[str, only_for_type_checkers.Secret], secretary: Elsewhere) -> None: ...  # type: ignore[name-defined] # noqa: F821

    hints = resolved(unlock)
    assert secrets.names_of(hints) == {"pin"}
    with pytest.raises(PayloadError, match="is hidden") as raised:
        JsonCodec().encode(Door(7, CANARY), hints["pin"], path="pin")
    assert CANARY not in str(raised.value)


def test_other_values_are_quoted_as_before() -> None:
    with pytest.raises(PayloadError, match="4711 is an int"):
        JsonCodec().encode(4711, str | None, path="door")


def test_what_is_hidden_is_what_is_registered_now(vault: SimpleNamespace, settings: Any) -> None:
    assert hidden.names() == {"pin", "code"}
    settings.DURABLE = {"HIDDEN_FIELDS": ["Token"]}
    assert hidden.names() == {"pin", "code", "token"}

"""Calls of definitions: their arguments as bytes, their options, and where they work."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from durable.decorators.activities import activity
from durable.errors import (
    ArgumentsMismatch,
    InsideWorkflow,
    KeyInvalid,
    OptionInvalid,
    OutsideWorkflow,
    PayloadError,
    PayloadTooLarge,
)
from durable.kernel.codec import JsonCodec, decode_arguments, encode_arguments, encode_call
from durable.kernel.context import workflow_context
from durable.kernel.definitions.options import ActivityOptions
from durable.kernel.definitions.retry import Retry
from durable.kernel.payloads.birthplace import NOWHERE

pytestmark = pytest.mark.usefixtures("isolated_registry")
CODEC = JsonCodec()


def encoded(definition, *args, **kwargs):
    return encode_arguments(definition, args, kwargs, codec=CODEC, workflow_id=NOWHERE.workflow_id)


def decoded(definition, text):
    return decode_arguments(definition, text, codec=CODEC, workflow_id=NOWHERE.workflow_id)


@pytest.fixture
def charge() -> Any:
    def charge(order_id: int, amount: Decimal = Decimal(1), *, note: str = "") -> str:
        return f"{order_id} {amount} {note}"

    return activity(name="charge")(charge)


def test_calls_by_position_and_by_keyword_give_the_same_bytes(charge):
    texts = {
        encoded(charge, 42, Decimal("9.90"), note="x"),
        encoded(charge, order_id=42, amount=Decimal("9.90"), note="x"),
        encoded(charge, note="x", amount=Decimal("9.90"), order_id=42),
    }
    assert texts == {'{"order_id":42,"amount":"9.90","note":"x"}'}


def test_defaults_are_not_stored(charge):
    assert encoded(charge, 42) == '{"order_id":42}'


@pytest.mark.parametrize(
    ("signature", "args", "kwargs", "text"),
    [
        ("()", (), {}, "{}"),
        ("(a, b=2)", (1,), {}, '{"a":1}'),
        ("(a, /, b)", (1, 2), {}, '{"a":1,"b":2}'),
        ("(a, b=0, /)", (1,), {}, '{"a":1}'),
        ("(*rest)", (1, 2), {}, '{"*rest":[1,2]}'),
        ("(a, *rest, c)", (1, 2, 3), {"c": 4}, '{"a":1,"*rest":[2,3],"c":4}'),
        ("(a, **more)", (1,), {"x": 2, "a_": 3}, '{"a":1,"**more":{"x":2,"a_":3}}'),
        ("(a, /, **more)", (1,), {"a": 2}, '{"a":1,"**more":{"a":2}}'),
    ],
)
def test_every_kind_of_parameter_comes_back_as_the_same_call(signature, args, kwargs, text):
    space: dict[str, Any] = {"__name__": __name__}
    exec(f"def handler{signature}: return locals()", space)
    handler = activity(name="handler")(space["handler"])
    assert encoded(handler, *args, **kwargs) == text
    args_back, kwargs_back = decoded(handler, text)
    assert handler.fn(*args_back, **kwargs_back) == handler.fn(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "order_id"),
        ((1, Decimal(1), 3), {}, "too many"),
        ((1,), {"colour": "red"}, "colour"),
        ((1,), {"order_id": 2}, "order_id"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_signature(charge, args, kwargs, words):
    with pytest.raises(ArgumentsMismatch) as caught:
        encoded(charge, *args, **kwargs)
    assert "charge(order_id: " in str(caught.value)
    assert words in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_a_value_that_can_not_be_carried_is_refused_with_the_path_from_its_parameter(charge):
    @activity
    def pack(items: list[Decimal], *rest: str, **more: int) -> None: ...

    for call, path in [
        (lambda: encoded(charge, "x"), "order_id"),
        (lambda: encoded(charge, 1, note="a\0"), "note"),
        (lambda: encoded(pack, [Decimal(1), 2]), "items[1]"),
        (lambda: encoded(pack, [], "a", 3), "rest[1]"),
        (lambda: encoded(pack, [], x="y"), "more.x"),
    ]:
        with pytest.raises(PayloadError) as caught:
            call()
        assert caught.value.path == path


def test_too_large_arguments_are_refused_with_the_largest_named():
    """Faults P6."""

    @activity(name="store")
    def store(number: int, text: str) -> None: ...

    with pytest.raises(PayloadTooLarge, match=r"the arguments of store, mostly text: \d+ bytes") as caught:
        encode_arguments(store, (1, "x" * 200), {}, codec=JsonCodec(max_bytes=100), workflow_id=NOWHERE.workflow_id)
    assert caught.value.limit == 100


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ('{"order_id":1,"gone":2}', "gone", "no such parameter"),
        ("{}", "order_id", "called without it"),
        ("[1]", "charge", "not an object"),
        ("{", "charge", "not JSON"),
        ('{"order_id":"x"}', "order_id", "whole number"),
    ],
)
def test_stored_arguments_that_todays_handler_does_not_take_are_refused_by_name(charge, text, path, words):
    """Faults P9, O5."""
    with pytest.raises(PayloadError) as caught:
        decoded(charge, text)
    assert caught.value.path == path
    assert words in str(caught.value)


def test_the_digest_is_that_of_the_plain_text_whatever_the_codec_makes_of_it(charge):
    class Salted(JsonCodec):
        count = 0

        def wrap(self, text, birthplace):
            self.count += 1
            return f"{self.count}{text}"

    salted = Salted()
    one, two = (encode_call(charge, (1,), {}, codec=salted, workflow_id=NOWHERE.workflow_id) for _ in range(2))
    assert one.payload != two.payload
    assert (
        one.digest == two.digest == encode_call(charge, (1,), {}, codec=CODEC, workflow_id=NOWHERE.workflow_id).digest
    )


# --- where calls work ----------------------------------------------------------------------------------------------


def test_execute_outside_a_workflow_is_refused_with_what_to_call_instead(charge):
    with pytest.raises(OutsideWorkflow, match=r"charge\.execute\(\.\.\.\).*charge\.enqueue"):
        charge.execute(1)
    with pytest.raises(OutsideWorkflow):
        charge.options(priority=3).execute(1)

    async def elsewhere():
        charge.execute(1)

    with pytest.raises(OutsideWorkflow):
        asyncio.run(elsewhere())


def test_a_plain_call_inside_a_workflow_is_refused_with_the_advice_to_execute(charge, monkeypatch):
    monkeypatch.setattr(workflow_context, "in_turn", lambda: True)
    with pytest.raises(InsideWorkflow, match=r"Use `await charge\.execute\(\.\.\.\)`"):
        charge(1)


def test_a_plain_call_of_an_async_handler_gives_its_coroutine():
    @activity
    async def charge(order_id: int) -> int:
        return order_id

    assert asyncio.run(charge(3)) == 3


def scheduled(monkeypatch, bound: Any, *args: Any) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(workflow_context, "in_turn", lambda: True)
    told = {"codec": CODEC, "workflow_id": NOWHERE.workflow_id, "calls": type("Calls", (), {"digest_key": b""})}
    monkeypatch.setattr(workflow_context, "current", lambda: type("Execution", (), told))
    monkeypatch.setattr(
        workflow_context, "schedule", lambda definition, **call: seen.update(call, definition=definition)
    )
    bound.execute(*args)
    return seen


def test_execute_schedules_the_payload_and_only_the_options_that_were_chosen(charge, monkeypatch):
    call = scheduled(monkeypatch, charge, 7)
    assert call["definition"] is charge
    assert call["payload"] == '{"order_id":7}'
    assert call["options"] == {}
    policy = Retry(max_attempts=9)
    bound = charge.options(queue="slow", priority=-3, retry=policy, start_to_close=timedelta(minutes=2))
    options = scheduled(monkeypatch, bound, 7)["options"]
    assert options == {"queue": "slow", "priority": -3, "retry": policy.as_data(), "start_to_close": 120.0}


def test_options_of_enqueue_alone_are_refused_by_execute(charge, monkeypatch):
    with pytest.raises(OptionInvalid, match=r"key='a' is not allowed: key is for enqueue"):
        scheduled(monkeypatch, charge.options(key="a"), 1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"priority": 40_000}, OptionInvalid, "-32,768 to 32,767"),
        ({"priority": True}, OptionInvalid, "whole number"),
        ({"queue": ""}, KeyInvalid, "empty"),
        ({"queue": 3}, KeyInvalid, "text"),
        ({"queue": "a\0"}, KeyInvalid, "NUL"),
        ({"retry": 3}, OptionInvalid, "durable.Retry"),
        ({"start_to_close": 3}, OptionInvalid, "timedelta"),
        ({"start_at": datetime(2026, 1, 1)}, OptionInvalid, "aware"),  # noqa: DTZ001
        ({"start_at": "now"}, OptionInvalid, "aware"),
        ({"on_conflict": "replace"}, OptionInvalid, "'refuse' or 'existing'"),
        ({"on_dead_letter": "x"}, OptionInvalid, "'hold' or 'deliver'"),
        ({"key": 5}, KeyInvalid, "text"),
    ],
)
def test_options_that_can_not_be_meant_are_refused_at_the_call(charge, options, error, words):
    with pytest.raises(error, match=words):
        charge.options(**options)


def test_options_that_can_be_meant_are_kept():
    options = ActivityOptions(start_at=datetime(2026, 1, 1, tzinfo=UTC), on_conflict="existing", priority=1)
    assert options.with_(priority=2, queue=None).priority == 2
    assert options.with_(priority=None).priority == 1

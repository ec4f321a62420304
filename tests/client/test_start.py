"""Starting and enqueueing: what is written, and what is refused before anything is."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction

from durable import Retry
from durable.client.handle import Handle
from durable.errors import (
    ArgumentsMismatch,
    InsideWorkflow,
    KeyInvalid,
    KeyTaken,
    OptionInvalid,
    PayloadError,
    PayloadTooLarge,
)
from durable.kernel.context import workflow_context
from durable.models import Event, Message, OutboxRow, Workflow
from tests.client.shop import careful, charge, checkout, greet, keyed

pytestmark = pytest.mark.django_db
LATER = datetime(2040, 1, 1, tzinfo=UTC)
WEST = timezone(timedelta(hours=-5))


def row(handle: Handle[Any]) -> Workflow:
    return Workflow.objects.get(pk=handle.id)


# --- what is written -----------------------------------------------------------------------------------------------


def test_a_start_writes_the_workflow_its_first_event_and_its_message():
    handle = checkout.start(42, note="x")
    written = row(handle)
    assert (written.type, written.status, written.input) == ("client.checkout", "running", '{"order_id":42,"note":"x"}')
    assert (written.queue, written.priority, written.key) == ("orders", 0, None)
    assert written.deadline_at == written.created_at + timedelta(days=2)
    assert [event.type for event in Event.objects.filter(workflow_id=handle.id)] == ["workflow_started"]
    assert Message.objects.filter(workflow_id=handle.id).count() == 1
    assert handle.id.version == 7


def test_options_by_keyword_and_by_options_are_the_same():
    chosen: dict[str, Any] = {
        "key": "order-1",
        "timeout": timedelta(hours=1),
        "start_at": LATER,
        "queue": "slow",
        "priority": 7,
    }
    one = row(checkout.start(1, **chosen))
    Workflow.objects.filter(pk=one.pk).update(key="other")
    two = row(checkout.options(**chosen).start(1))
    for written in (one, two):
        assert (written.queue, written.priority) == ("slow", 7)
        assert written.deadline_at == LATER + timedelta(hours=1)
        assert Message.objects.get(workflow_id=written.pk).visible_at == LATER
    assert two.key == "order-1"


def test_a_keyword_of_the_engine_is_the_engines_and_the_handlers_goes_by_position():
    written = row(keyed.start("mine", 3, key="engine's", priority=5))
    assert (written.input, written.key, written.priority) == ('{"key":"mine","priority":3}', "engine's", 5)
    with pytest.raises(ArgumentsMismatch, match="'key' belongs to the engine here, so pass that one by position"):
        keyed.start(key="mine")


def test_an_enqueued_activity_is_a_workflow_with_its_row_and_budgets():
    handle = charge.enqueue(42, Decimal("9.90"))
    written, staged = row(handle), OutboxRow.objects.get(workflow_id=handle.id)
    assert (written.type, written.single) == ("client.charge", True)
    assert (staged.activity, staged.input, staged.queue) == (
        "client.charge",
        '{"order_id":42,"amount":"9.90"}',
        "money",
    )
    assert (staged.attempt_budget, staged.delivery_budget, staged.options) == (3, 8, {})


def test_options_of_enqueue_reach_the_row():
    policy = Retry(max_attempts=9)
    handle = charge.enqueue(
        1, retry=policy, start_to_close=timedelta(seconds=90), on_dead_letter="deliver", priority=2, start_at=LATER
    )
    staged = OutboxRow.objects.get(workflow_id=handle.id)
    assert staged.options == {"retry": policy.as_data(), "start_to_close": 90.0, "on_dead_letter": "deliver"}
    assert (staged.attempt_budget, staged.priority, staged.visible_after) == (9, 2, LATER)


def test_what_the_definition_says_of_spent_retries_reaches_the_row_and_the_call_overrules_it():
    assert OutboxRow.objects.get(workflow_id=careful.enqueue().id).options == {"on_exhausted": "hold"}
    assert OutboxRow.objects.get(workflow_id=careful.enqueue(on_exhausted="fail").id).options == {}


def test_many_are_started_in_the_order_of_the_calls():
    handles = checkout.start_many([(1,), (2, "x"), (3,)])
    assert [row(handle).input for handle in handles] == [
        '{"order_id":1}',
        '{"order_id":2,"note":"x"}',
        '{"order_id":3}',
    ]
    assert [handle.id for handle in handles] == sorted(handle.id for handle in handles)
    many = charge.options(priority=4).enqueue_many([(1,), (2, Decimal(2))])
    assert [OutboxRow.objects.get(workflow_id=handle.id).priority for handle in many] == [4, 4]
    assert checkout.start_many([]) == charge.enqueue_many([]) == []


# --- business keys -------------------------------------------------------------------------------------------------


def test_a_taken_key_is_refused_with_the_holders_id_and_the_way_out():
    """Faults S11."""
    holder = checkout.start(1, key="order-1")
    with pytest.raises(KeyTaken, match='on_conflict="existing"') as caught:
        checkout.start(2, key="order-1")
    assert (caught.value.holder, caught.value.key) == (holder.id, "order-1")
    assert Workflow.objects.count() == 1


def test_a_taken_key_answers_the_holder_when_asked_to():
    holder = checkout.start(1, key="order-1")
    assert checkout.start(2, key="order-1", on_conflict="existing") == holder
    assert checkout.options(key="order-1", on_conflict="existing").start(2) == holder
    assert Workflow.objects.count() == 1


def test_a_key_belongs_to_one_type_and_is_free_again_after_the_end():
    holder = checkout.start(1, key="k")
    keyed.start("a", key="k")
    charge.enqueue(1, key="k")
    Workflow.objects.filter(pk=holder.id).update(status="completed", closed_at=LATER)
    assert checkout.start(2, key="k") != holder


def test_a_taken_key_leaves_the_callers_transaction_usable():
    checkout.start(1, key="k")
    with transaction.atomic():
        with pytest.raises(KeyTaken):
            checkout.start(2, key="k")
        checkout.start(3)
    assert Workflow.objects.count() == 2


def test_in_bulk_a_taken_key_is_an_outcome_that_stops_no_other():
    holder = checkout.start(1, key="b")
    one, two, three = checkout.start_many([(1,), (2,), (3,)], keys=["a", "b", None])
    assert isinstance(one, Handle)
    assert isinstance(two, KeyTaken)
    assert two.holder == holder.id
    assert isinstance(three, Handle)
    assert [row(one).key, row(three).key] == ["a", None]
    assert charge.enqueue_many([(1,)], keys=["a"])[0] != one


# --- what is refused -----------------------------------------------------------------------------------------------

REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: checkout.start(), ArgumentsMismatch, "order_id"),
    (lambda: checkout.start(1, colour="red"), ArgumentsMismatch, "colour"),
    (lambda: checkout.start("x"), PayloadError, "order_id: 'x' is a str, not a whole number"),
    (lambda: checkout.start(1, "a\0"), PayloadError, "note: text with a NUL"),
    (lambda: checkout.start(1, "x" * 2**20), PayloadTooLarge, "limit of 1,048,576"),
    (lambda: charge.enqueue(1, Decimal("NaN")), PayloadError, "amount"),
    (lambda: checkout.start(1, key="k" * 201), KeyInvalid, "201 characters are more than the limit of 200"),
    (lambda: checkout.start(1, key="k" * 10_000), KeyInvalid, "10,000 characters"),
    (lambda: checkout.start(1, key=""), KeyInvalid, "empty"),
    (lambda: checkout.start(1, key=5), KeyInvalid, "text"),
    (lambda: checkout.start(1, key="a\0"), KeyInvalid, "NUL"),
    (lambda: charge.enqueue(1, key="\ud800"), KeyInvalid, "surrogate"),
    (lambda: checkout.start(1, queue="q" * 101), KeyInvalid, "limit of 100"),
    (lambda: checkout.start(1, priority=10**6), OptionInvalid, "priority=1000000"),
    (lambda: checkout.start(1, timeout=5), OptionInvalid, "timeout=5"),
    (lambda: checkout.start(1, start_at=datetime(2040, 1, 1)), OptionInvalid, "aware"),  # noqa: DTZ001
    (lambda: checkout.start(1, timeout=timedelta.max), OptionInvalid, "365,000 days at most"),
    (lambda: checkout.start(1, start_at=datetime.max.replace(tzinfo=UTC)), OptionInvalid, "before the year 9000"),
    (lambda: charge.enqueue(1, start_at=datetime.max.replace(tzinfo=WEST)), OptionInvalid, "before the year"),
    (lambda: charge.enqueue(1, start_to_close=timedelta.max), OptionInvalid, "365,000 days at most"),
    (lambda: checkout.start(1, on_conflict="replace"), OptionInvalid, "'refuse' or 'existing'"),
    (lambda: checkout.start(1, signal=("go", 1)), OptionInvalid, "in a later release"),
    (lambda: checkout.options(key="a").start(1, once=True), OptionInvalid, "in a later release"),  # type: ignore[call-arg]
    (lambda: charge.enqueue(1, retry=5), OptionInvalid, "durable.Retry"),
    (
        lambda: checkout.start_many([(1,), 2]),  # type: ignore[list-item]
        ArgumentsMismatch,
        "call 1 is of int, not a tuple",
    ),
    (lambda: checkout.start_many([(1,), ()]), ArgumentsMismatch, "call 1: "),
    (lambda: checkout.start_many([(1,), ("x",)]), PayloadError, "call 1: order_id"),
    (lambda: checkout.start_many([(1, "x" * 2**20)]), PayloadTooLarge, "call 0: the arguments of client.checkout"),
    (lambda: checkout.start_many([(1,), (2,)], keys=["a"]), OptionInvalid, "2 calls"),
    (lambda: checkout.start_many([(1,), (2,)], keys=["a", ""]), KeyInvalid, "empty"),
    (lambda: checkout.options(key="a").start_many([(1,)]), OptionInvalid, "keys="),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED, ids=range(len(REFUSED)))
def test_bad_input_is_refused_at_the_call_and_nothing_is_written(call, error, words, django_assert_num_queries):
    """Faults P2, P3, P6, P7, P10."""
    with django_assert_num_queries(0), pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
    assert type(caught.value) is error


def test_a_longer_key_is_taken_where_the_setting_allows_it(settings):
    settings.DURABLE = {"MAX_KEY_LENGTH": 300}
    assert row(checkout.start(1, key="k" * 300)).key == "k" * 300


# --- where it works ------------------------------------------------------------------------------------------------


def test_a_start_goes_with_the_transaction_that_it_is_in():
    """Faults J3, J4, J13."""
    ids: list[uuid.UUID] = []
    with transaction.atomic():
        kept = checkout.start(1)
        with transaction.atomic():
            ids += [checkout.start(2).id, charge.enqueue(2).id]
            transaction.set_rollback(True)
    assert list(Workflow.objects.values_list("id", flat=True)) == [kept.id]
    assert not Message.objects.filter(workflow_id__in=ids).exists()
    assert not OutboxRow.objects.filter(workflow_id__in=ids).exists()


@pytest.mark.parametrize(
    ("call", "twin"),
    [
        (lambda: checkout.start(1), "checkout.astart"),
        (lambda: charge.enqueue(1), "charge.aenqueue"),
        (lambda: checkout.start_many([(1,)]), "sync_to_async(checkout.start_many)"),
        (lambda: charge.enqueue_many([(1,)]), "sync_to_async(charge.enqueue_many)"),
        (lambda: checkout.get("k"), "checkout.aget"),
    ],
    ids=range(5),
)
def test_in_async_code_the_sync_call_names_its_twin(call, twin):
    """Faults J9."""

    async def caller() -> None:
        call()

    with pytest.raises(SynchronousOnlyOperation) as caught:
        asyncio.run(caller())
    assert f"Use `await {twin}" in str(caught.value)


def test_in_workflow_code_activities_and_many_at_once_are_refused(monkeypatch):
    monkeypatch.setattr(workflow_context, "in_turn", lambda: True)
    for call in (charge.enqueue, lambda n: checkout.start_many([(n,)])):
        with pytest.raises(InsideWorkflow, match="Make it in an activity"):
            call(1)

    async def caller() -> None:
        await checkout.astart(1)

    with pytest.raises(InsideWorkflow):
        asyncio.run(caller())


def test_the_async_twins_write_the_same():
    async def caller() -> tuple[Handle[Any], Handle[Any]]:
        return await checkout.options(priority=2).astart(1), await greet.aenqueue("Ada", key="a")

    one, two = async_to_sync(caller)()
    assert (row(one).type, row(one).priority) == ("client.checkout", 2)
    assert (row(two).type, row(two).key) == ("client.greet", "a")

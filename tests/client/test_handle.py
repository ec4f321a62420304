"""What a handle answers, and what it raises."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction
from django.test import TestCase

import durable
from durable import testing
from durable.client import handle as handles
from durable.client.handle import Handle
from durable.errors import (
    InsideTransaction,
    KeyInvalid,
    OptionInvalid,
    OutsideWorkflow,
    PayloadError,
    WorkflowCancelled,
    WorkflowClosed,
    WorkflowFailed,
    WorkflowNotFound,
    WorkflowTimedOut,
)
from durable.models import Workflow
from durable.operations import terminate
from durable.outcomes import CancelAnswer, CancelOutcome, WorkflowStatus
from tests.client.shop import Receipt, calls_another, charge, checkout, fails, knows_itself, waits
from tests.factories import WorkflowFactory
from tests.flow.driver import Driver

pytestmark = pytest.mark.django_db
NOBODY = uuid.UUID(int=7)


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """The pauses that were made; none of them takes any time."""
    made: list[float] = []
    monkeypatch.setattr(handles, "sleep", made.append)
    return made


# --- results -------------------------------------------------------------------------------------------------------


def test_a_result_comes_back_by_the_annotation_of_the_function(driver):
    handle = checkout.start(4)
    assert handle.status() is WorkflowStatus.RUNNING
    driver.run()
    assert handle.status() is WorkflowStatus.COMPLETED
    assert handle.result(timeout=0) == Receipt("o4", Decimal(4))


def test_a_handle_that_was_found_by_id_reads_the_result_just_as_well(driver):
    handle = checkout.start(4)
    driver.run()
    assert durable.get_workflow(str(handle.id)).result(0) == Receipt("o4", Decimal(4))


def test_the_result_of_a_single_activity_comes_back_by_its_annotation(driver):
    handle = charge.enqueue(4, Decimal("2.5"))
    driver.complete(driver.claim_one(), payload='{"number":"r4","amount":"2.5"}')
    assert handle.result(0) == Receipt("r4", Decimal("2.5"))
    assert Handle[Any](handle.id).result(0) == Receipt("r4", Decimal("2.5"))


def test_a_result_whose_function_is_not_known_here_is_read_as_it_stands():
    workflow = WorkflowFactory(status="completed", type="elsewhere.gone", result='{"a":[1]}')
    assert Handle[Any](workflow.id).result(0) == {"a": [1]}


def test_a_result_that_does_not_fit_the_annotation_any_more_is_refused_by_name():
    workflow = WorkflowFactory(status="completed", type=checkout.name, result='{"number":3}')
    with pytest.raises(PayloadError, match=r"result\.number"):
        Handle[Any](workflow.id).result(0)


def test_a_failed_workflow_raises_type_message_and_traceback_of_the_original(driver):
    """Faults P4."""
    handle = fails.start()
    driver.run()
    with pytest.raises(WorkflowFailed, match="ValueError: no such order") as caught:
        handle.result(0)
    assert (caught.value.type, caught.value.message) == ("ValueError", "no such order")
    assert 'raise ValueError("no such order")' in caught.value.traceback


def test_cancelled_and_timed_out_workflows_raise_errors_of_their_own():
    with pytest.raises(WorkflowCancelled):
        Handle[Any](WorkflowFactory(status="cancelled").id).result(0)
    with pytest.raises(WorkflowTimedOut):
        Handle[Any](WorkflowFactory(status="timed_out").id).result(0)


@pytest.mark.django_db(transaction=True)
def test_a_terminated_workflow_tells_the_reason():
    handle = waits.start()
    terminate(handle.id, reason="no longer wanted")
    with pytest.raises(WorkflowCancelled, match="no longer wanted"):
        handle.result(0)


# --- waiting -------------------------------------------------------------------------------------------------------


def test_a_result_that_is_not_there_in_time_is_a_timeout(pauses):
    handle = waits.start()
    for timeout in (0, 0.0, timedelta()):
        with pytest.raises(TimeoutError, match=str(handle.id)):
            handle.result(timeout=timeout)
    assert pauses == []


def test_pauses_double_from_five_milliseconds_to_a_quarter_of_a_second(monkeypatch):
    handle = waits.start()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 9:
            end(handle)

    monkeypatch.setattr(handles, "sleep", pause)
    with pytest.raises(WorkflowCancelled):
        handle.result()
    assert pauses == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25]


def end(handle: Handle[Any]) -> None:
    closed_at = datetime(2030, 1, 1, tzinfo=UTC)
    Workflow.objects.filter(pk=handle.id).update(status="cancelled", closed_at=closed_at)


@pytest.mark.parametrize("timeout", [-1, "5", True, float("nan"), timedelta(seconds=-1)])
def test_a_timeout_that_can_not_be_meant_is_refused(timeout):
    with pytest.raises(OptionInvalid, match="timeout="):
        waits.start().result(timeout=timeout)


@pytest.mark.django_db(transaction=True)
def test_waiting_inside_an_open_transaction_is_refused_at_once():
    """Faults J13."""
    with transaction.atomic():
        handle = waits.start()
        with pytest.raises(InsideTransaction, match="Leave the `atomic` block"):
            handle.result(timeout=60)
    with transaction.atomic(), transaction.atomic(), pytest.raises(InsideTransaction):
        handle.result(timeout=60)


@pytest.mark.django_db(transaction=True)
def test_waiting_with_autocommit_off_is_refused_at_once():
    handle = waits.start()
    transaction.set_autocommit(False)
    try:
        with pytest.raises(InsideTransaction):
            handle.result(timeout=60)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


@pytest.mark.django_db(transaction=True)
def test_a_result_that_is_already_there_can_be_had_inside_a_transaction(driver):
    handle = checkout.start(4)
    driver.run()
    with transaction.atomic():
        assert handle.result() == Receipt("o4", Decimal(4))


class InATestCase(TestCase):
    """The transaction around a test is not the caller's."""

    def test_a_result_can_be_waited_for_in_a_test_case(self):
        handle = checkout.start(4)
        with pytest.raises(TimeoutError):
            handle.result(timeout=0)
        Driver().run()
        assert handle.result(timeout=0) == Receipt("o4", Decimal(4))
        with transaction.atomic(), pytest.raises(InsideTransaction):
            waits.start().result(timeout=0)


# --- signals and cancelling ----------------------------------------------------------------------------------------


def test_a_signal_reaches_the_workflow_also_before_it_waits(driver):
    handle = waits.start()
    handle.signal("go", {"ok": True})
    driver.run()
    assert handle.result(0) == "{'ok': True}"


def test_a_signal_that_is_sent_twice_under_one_dedup_key_is_one_signal(driver):
    handle = waits.start()
    handle.signal("go", 1, dedup="a")
    handle.signal("go", 2, dedup="a")
    driver.run()
    assert handle.result(0) == "1"


def test_a_signal_to_a_closed_or_unknown_workflow_is_refused_by_name(driver):
    handle = checkout.start(1)
    driver.run()
    with pytest.raises(WorkflowClosed, match="is completed; a signal needs a live workflow"):
        handle.signal("go")
    with pytest.raises(WorkflowNotFound, match=str(NOBODY)):
        Handle[Any](NOBODY).signal("go")


@pytest.mark.parametrize(
    ("name", "payload", "error", "words"),
    [
        ("", 1, KeyInvalid, "empty"),
        (3, 1, KeyInvalid, "text"),
        ("n" * 201, 1, KeyInvalid, "limit of 200"),
        ("a\0", 1, KeyInvalid, "NUL"),
        ("go", {"a": [Decimal(1)]}, PayloadError, "payload.a[0]"),
        ("go", float("nan"), PayloadError, "nan"),
    ],
)
def test_a_signal_that_can_not_be_carried_is_refused_at_the_call(name, payload, error, words):
    """Faults P3."""
    with pytest.raises(error) as caught:
        waits.start().signal(name, payload)
    assert words in str(caught.value)


def test_cancel_tells_the_truth_and_is_quiet_when_repeated(driver):
    """Faults N2, N5."""
    handle = waits.start()
    assert handle.cancel(reason="changed my mind") == CancelOutcome(CancelAnswer.ASKED, WorkflowStatus.RUNNING)
    assert handle.cancel().answer is CancelAnswer.ASKED
    driver.run()
    assert handle.cancel() == CancelOutcome(CancelAnswer.ALREADY_OVER, WorkflowStatus.CANCELLED)
    with pytest.raises(WorkflowCancelled, match="changed my mind"):
        handle.result(0)
    assert Handle[Any](NOBODY).cancel() == CancelOutcome(CancelAnswer.NOT_FOUND)
    assert charge.enqueue(1).cancel() == CancelOutcome(CancelAnswer.DONE, WorkflowStatus.CANCELLED)


def test_a_reason_that_can_not_be_stored_is_refused_at_the_call():
    with pytest.raises(KeyInvalid, match="reason"):
        waits.start().cancel(reason="a\0")


# --- finding -------------------------------------------------------------------------------------------------------


def test_an_id_is_taken_as_uuid_and_as_text():
    assert durable.get_workflow(NOBODY) == durable.get_workflow(str(NOBODY)) == Handle(NOBODY)


@pytest.mark.parametrize("bad", [43, None, b"nonsense"])
def test_what_is_no_id_and_no_text_is_refused_by_name(bad):
    with pytest.raises(KeyInvalid, match=f"workflow id {bad!r}"):
        durable.get_workflow(bad)


@pytest.mark.parametrize("bad", ["", "42", "nonsense"])
def test_text_that_is_no_id_is_the_id_of_no_workflow(bad):
    with pytest.raises(WorkflowNotFound, match=f"There is no workflow {bad!r}: that is not the text of a UUID"):
        durable.get_workflow(bad)


def test_a_workflow_learns_its_business_key_which_a_replay_of_its_history_knows_too(driver):
    handle = knows_itself.start(key="k-1")
    driver.run(lambda claim: '"hello"')
    assert handle.result(0) == [str(handle.id), "k-1", "client.knows_itself", 1]
    exported = testing.export_history(handle)
    assert testing.replay_here(exported, knows_itself).drift == 0
    with pytest.raises(durable.NonDeterminism):
        testing.replay_here({**exported, "key": "k-2"}, knows_itself)


def test_a_plain_call_of_a_workflow_raises_with_advice(driver):
    with pytest.raises(OutsideWorkflow, match=r"checkout\(\.\.\.\).*checkout\.start\(\.\.\.\)"):
        checkout(1)
    handle = calls_another.start()
    driver.run()
    assert handle.result(0).startswith("InsideWorkflow: The plain call checkout(...)")
    assert "without `@workflow`" in handle.result(0)


def test_an_id_that_does_not_exist_is_refused_when_it_is_asked():
    for ask in (durable.get_workflow(NOBODY).status, durable.get_workflow(NOBODY).result):
        with pytest.raises(WorkflowNotFound, match=str(NOBODY)):
            ask()


def test_a_key_finds_the_live_workflow_else_the_latest(driver):
    first = checkout.start(1, key="k")
    driver.run()
    second = checkout.start(2, key="k")
    assert checkout.get("k") == second
    driver.run()
    assert checkout.get("k") == second
    assert checkout.get("k").result(0) == Receipt("o2", Decimal(2))
    assert first != second


def test_a_key_that_nobody_had_is_refused_by_name():
    waits.start(key="k")
    with pytest.raises(WorkflowNotFound, match=r"client\.checkout with the key 'k'"):
        checkout.get("k")
    with pytest.raises(KeyInvalid, match="empty"):
        checkout.get("")


# --- async ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "twin"),
    [
        (lambda handle: handle.status(), "handle.astatus()"),
        (lambda handle: handle.result(), "handle.aresult()"),
        (lambda handle: handle.signal("go"), "handle.asignal(...)"),
        (lambda handle: handle.cancel(), "handle.acancel()"),
    ],
    ids=range(4),
)
def test_in_async_code_the_sync_call_names_its_twin(call, twin):
    """Faults J9."""

    async def caller() -> None:
        call(Handle[Any](NOBODY))

    with pytest.raises(SynchronousOnlyOperation) as caught:
        asyncio.run(caller())
    assert f"Use `await {twin}`" in str(caught.value)


def test_the_async_twins_answer_the_same(driver):
    handle = waits.start(key="k")

    async def before() -> tuple[WorkflowStatus, Handle[str]]:
        with pytest.raises(TimeoutError):
            await handle.aresult(timeout=0)
        await handle.asignal("go", "now")
        return await handle.astatus(), await waits.aget("k")

    assert async_to_sync(before)() == (WorkflowStatus.RUNNING, handle)
    driver.run()

    async def after() -> tuple[str, CancelOutcome]:
        return await handle.aresult(), await handle.acancel()

    assert async_to_sync(after)() == ("now", CancelOutcome(CancelAnswer.ALREADY_OVER, WorkflowStatus.COMPLETED))


def test_handles_of_one_workflow_are_equal_and_say_its_id():
    assert len({Handle(NOBODY), Handle(NOBODY)}) == 1
    assert Handle(NOBODY) != NOBODY
    assert str(NOBODY) in repr(Handle(NOBODY))

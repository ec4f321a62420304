"""Operators' verbs inside a transaction of the caller's: a typed refusal, and nothing read or written."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from asgiref.sync import AsyncSingleThreadContext, async_to_sync, sync_to_async
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from durable.errors import OptionInvalid, RedriveRefused, TransactionOpen
from durable.models import Event, OutboxRow, StaffAction
from durable.operations import (
    DeadLetterFilter,
    discard,
    discard_many,
    list_dead_letters,
    pause,
    preview_redrive,
    redrive,
    redrive_many,
    resume,
    terminate,
    unblock,
)
from durable.outcomes import WorkflowState
from tests.operations.scenes import dead, history

pytestmark = pytest.mark.django_db(transaction=True)

Verb = Callable[[uuid.UUID], Any]

VERBS: dict[str, Verb] = {
    "redrive": lambda workflow_id: redrive(workflow_id, 1),
    "redrive_many": lambda workflow_id: redrive_many([(workflow_id, 1), (workflow_id, 2)]),
    "redrive_many of a filter": lambda _: redrive_many(DeadLetterFilter()),
    "discard": lambda workflow_id: discard(workflow_id, 1, reason="paid by hand"),
    "discard_many": lambda workflow_id: discard_many([(workflow_id, 1)], reason="paid by hand"),
    "pause": pause,
    "resume": resume,
    "unblock": unblock,
    "terminate": lambda workflow_id: terminate(workflow_id, reason="stuck"),
}


@contextmanager
def begun_by_hand() -> Iterator[None]:
    """A transaction of which Django knows nothing."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")


@contextmanager
def autocommit_off() -> Iterator[None]:
    transaction.set_autocommit(False)
    try:
        yield
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


@contextmanager
def nested() -> Iterator[None]:
    with transaction.atomic(), transaction.atomic():
        yield


OPEN = [transaction.atomic, nested, begun_by_hand, autocommit_off]


def atomic_middleware(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A sync middleware, as that of django-reversion."""

    def middleware(request: HttpRequest) -> HttpResponse:
        with transaction.atomic():
            return get_response(request)

    return middleware


async def redriving_view(request: HttpRequest, workflow_id: uuid.UUID) -> HttpResponse:
    try:
        await sync_to_async(redrive, thread_sensitive=True)(workflow_id, 1)
    except TransactionOpen as refusal:
        return HttpResponse(refusal.code)
    return HttpResponse("done")


def untouched(workflow_id: uuid.UUID) -> bool:
    """Whether nothing has happened to the workflow and its dead letter."""
    rows = list(OutboxRow.objects.filter(workflow_id=workflow_id).values_list("status", flat=True))
    return rows == ["dead"] and Event.objects.count() == 1 and not StaffAction.objects.exists()


@pytest.mark.parametrize("opened", OPEN, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", VERBS)
def test_every_verb_that_commits_by_itself_is_refused_inside_a_transaction(name: str, opened: Any) -> None:
    """Faults K7, specification B3."""
    workflow_id = history().pk
    dead(history(), 1)
    OutboxRow.objects.update(workflow_id=workflow_id)
    events = Event.objects.count()
    with opened(), pytest.raises(TransactionOpen) as refused:
        VERBS[name](workflow_id)
    assert (refused.value.code, refused.value.values) == ("transaction_open", {})
    assert isinstance(refused.value, RedriveRefused)
    assert "nothing was changed" in str(refused.value)
    assert OutboxRow.objects.get().status == "dead"
    assert (Event.objects.count(), StaffAction.objects.count()) == (events, 0)


@pytest.mark.parametrize("name", ["redrive", "discard", "pause", "terminate", "redrive_many", "discard_many"])
def test_a_verb_inside_a_transaction_is_refused_before_any_statement_and_every_other_gate(
    name: str, django_assert_num_queries: Any
) -> None:
    """The workflow does not exist, which another gate would say."""
    with transaction.atomic(), django_assert_num_queries(0), pytest.raises(TransactionOpen):
        VERBS[name](uuid.uuid4())


def test_arguments_that_cannot_be_meant_are_refused_earlier() -> None:
    with transaction.atomic():
        with pytest.raises(OptionInvalid):
            discard(uuid.uuid4(), 1, reason=" ")
        with pytest.raises(OptionInvalid):
            terminate(uuid.uuid4(), reason="")
        with pytest.raises(OptionInvalid):
            redrive_many([], per_second=-1)


def test_the_callers_transaction_goes_on_and_commits() -> None:
    workflow_id = history().pk
    with transaction.atomic():
        before = dead(history()).pk
        with pytest.raises(TransactionOpen):
            pause(workflow_id)
    assert OutboxRow.objects.filter(pk=before).exists()
    assert pause(workflow_id) is WorkflowState.PAUSED


def test_after_the_commit_the_verb_works_by_on_commit() -> None:
    row = dead(history())
    with transaction.atomic():
        transaction.on_commit(lambda: redrive(row.workflow_id, row.ordinal))
    assert OutboxRow.objects.get().status == "pending"


def test_reading_verbs_work_inside_a_transaction() -> None:
    row = dead(history())
    with transaction.atomic():
        assert preview_redrive(DeadLetterFilter()).redrivable == 1
        assert [one.pk for one in list_dead_letters(row.workflow_id)] == [row.pk]


@pytest.mark.django_db(transaction=False)
def test_the_transaction_of_a_test_case_does_not_count_but_one_inside_it_does() -> None:
    row = dead(history())
    with transaction.atomic(), pytest.raises(TransactionOpen):
        redrive(row.workflow_id, row.ordinal)
    assert redrive(row.workflow_id, row.ordinal).row.status == "pending"


def test_an_async_view_below_an_atomic_middleware_is_refused_too() -> None:
    """The ORM of an async view is on the thread on which the middleware has opened its transaction."""
    row = dead(history())
    site = atomic_middleware(async_to_sync(partial(redriving_view, workflow_id=row.workflow_id)))
    with AsyncSingleThreadContext():  # ends the thread of the view's loop with the test
        answer = site(RequestFactory().get("/"))
    assert answer.content == b"transaction_open"
    assert untouched(row.workflow_id)


@pytest.mark.parametrize(
    "arguments",
    [
        ["redrive", "{workflow}", "1"],
        ["redrive", "--all"],
        ["discard", "--all", "--reason", "x"],
        ["pause", "{workflow}"],
        ["terminate", "{workflow}", "--reason", "x"],
    ],
    ids=" ".join,
)
def test_a_command_called_inside_a_transaction_exits_1_with_the_code(arguments: list[str]) -> None:
    row = dead(history())
    given = [argument.format(workflow=row.workflow_id) for argument in arguments]
    out = io.StringIO()
    with transaction.atomic(), pytest.raises(CommandError) as ended:
        call_command("durable", *given, "--json", stdout=out)
    assert ended.value.returncode == 1
    assert "[transaction_open]" in str(ended.value)
    assert json.loads(out.getvalue())["error"]["code"] == "transaction_open"
    assert untouched(row.workflow_id)


def test_bulk_verbs_ask_no_row_that_was_given(caplog: pytest.LogCaptureFixture) -> None:
    """One refusal, before the first row; the log has it."""
    asked: list[int] = []

    def rows() -> Iterator[tuple[uuid.UUID, int]]:
        asked.append(1)
        yield uuid.uuid4(), 1

    for verb in (redrive_many, lambda meant: discard_many(meant, reason="x")):
        with transaction.atomic(), pytest.raises(TransactionOpen):
            verb(rows())
    assert asked == []
    assert sum("transaction_open" in record.getMessage() for record in caplog.records) == 2

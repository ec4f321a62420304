"""`eager()`: what a view starts is done when the view returns."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core import mail
from django.core.mail import send_mail
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, TestCase, TransactionTestCase, override_settings
from django.urls import path
from django.utils import translation

import durable
from durable import NoRetry, Retry, activity, testing, workflow
from durable.errors import OptionInvalid
from durable.kernel.definitions.registry import registry
from durable.models import OutboxRow
from durable.testing.fixtures import durable_eager
from tests.waiting import PATIENCE, in_thread

__all__ = ["durable_eager"]


@activity(name="eager.tell", retry=Retry(max_attempts=3))
def tell(to: str) -> None:
    send_mail("An order", translation.get_language() or "", "shop@example.com", [to])


@activity(name="eager.tell_async")
async def tell_async(to: str) -> None:
    await tell.aenqueue(to)


@activity(name="eager.fail", retry=Retry(max_attempts=2, first=timedelta(hours=1)))
def fail(text: str) -> None:
    raise ConnectionError(text)


@activity(name="eager.refuse")
def refuse(text: str) -> None:
    raise NoRetry(text)


@workflow(name="eager.order")
async def order(to: str) -> str:
    await tell.execute(to)
    answer: str = await durable.wait_for_signal("answer")
    await tell.execute(f"{answer}-{to}")
    await durable.sleep(timedelta(days=1))
    return answer


@workflow(name="eager.buggy")
async def buggy() -> None:
    raise KeyError("a bug")


TOLD: dict[str, Any] = {"tell": tell, "tell_async": tell_async, "fail": fail}


def place(request: HttpRequest) -> HttpResponse:
    """Enqueues what the request names, and says how many mails had gone out before its transaction ended."""
    with translation.override("de"), transaction.atomic():
        with transaction.atomic():
            TOLD[request.GET.get("what", "tell")].enqueue("a@example.com")
        before = len(mail.outbox)
        if "back" in request.GET:
            transaction.set_rollback(True)
    return HttpResponse(f"{before} {len(mail.outbox)}")


def place_later(request: HttpRequest) -> HttpResponse:
    transaction.on_commit(lambda: tell.enqueue("a@example.com") and None)
    return HttpResponse("ok")


def open_order(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(order.start("a@example.com", key="one").id))


def answer_order(request: HttpRequest) -> HttpResponse:
    durable.get_workflow(request.GET["id"]).signal("answer", "yes")
    return HttpResponse("ok")


urlpatterns = [
    path("place/", place),
    path("place-later/", place_later),
    path("open/", open_order),
    path("answer/", answer_order),
]
HERE = override_settings(ROOT_URLCONF=__name__)


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    """The definitions of this module, in a registry that others have not got."""
    with registry.isolated():
        for one in (tell, tell_async, fail, refuse):
            registry.add_activity(one)
        for each in (order, buggy):
            registry.add_workflow(each)
        yield


def sent() -> list[str]:
    return [message.to[0] for message in mail.outbox]


class Views:
    """What holds in both kinds of Django's test cases."""

    client: Client

    def test_a_mail_that_a_view_enqueues_has_gone_out_when_the_view_returns(self) -> None:
        with testing.eager():
            assert self.client.get("/place/").content == b"0 1", "and not before its transaction has ended"
        assert sent() == ["a@example.com"]

    def test_what_a_view_rolls_back_is_not_run(self) -> None:
        with testing.eager():
            self.client.get("/place/?back")
        assert (sent(), OutboxRow.objects.count()) == ([], 0)

    def test_what_a_handler_enqueues_is_run_too(self) -> None:
        with testing.eager():
            self.client.get("/place/?what=tell_async")
            assert sent() == ["a@example.com"]

    def test_a_handler_has_a_workers_context_and_not_the_views(self) -> None:
        with testing.eager():
            self.client.get("/place/")
        assert mail.outbox[0].body != "de"

    def test_a_workflow_goes_as_far_as_it_can_and_on_when_it_is_signalled(self) -> None:
        with testing.eager():
            found = self.client.get("/open/").content.decode()
            assert sent() == ["a@example.com"]
            self.client.get(f"/answer/?id={found}")
            assert sent() == ["a@example.com", "yes-a@example.com"]
            handle = durable.get_workflow(uuid.UUID(found))
            assert handle.status() == "running", "time is not skipped"
            handle.cancel()
            assert handle.status() == "cancelled"

    def test_a_view_does_not_see_that_a_handler_fails_and_the_block_raises_it(self) -> None:
        block = testing.eager()
        block.__enter__()
        assert self.client.get("/place/?what=fail").status_code == 200
        with pytest.raises(
            testing.HandlersFailed, match=r"attempt 1 of eager\.fail raised .*ConnectionError: a@"
        ) as met:
            block.__exit__(None, None, None)
        [failed] = met.value.failures
        assert (failed.activity, failed.attempt) == ("eager.fail", 1)
        assert "def fail" not in str(met.value)
        assert "raise ConnectionError" in str(met.value), "with its traceback"
        assert OutboxRow.objects.get().status == "pending", "the second attempt is due in an hour"


@HERE
class TestsInATransaction(Views, TestCase):
    """Django's usual test case, which never commits."""

    def test_what_is_enqueued_on_commit_is_run_where_django_runs_that(self) -> None:
        with testing.eager():
            with self.captureOnCommitCallbacks(execute=True):
                self.client.get("/place-later/")
            assert sent() == ["a@example.com"]
            with self.captureOnCommitCallbacks():
                self.client.get("/place-later/")
            assert len(sent()) == 1

    def test_atomic_requests(self) -> None:
        with mock_atomic_requests(), testing.eager():
            assert self.client.get("/place/").content == b"0 0"
            assert sent() == ["a@example.com"]


@HERE
class TestsThatCommit(Views, TransactionTestCase):
    """Real commits."""

    def test_what_is_enqueued_on_commit_is_run(self) -> None:
        with testing.eager():
            with transaction.atomic():
                transaction.on_commit(lambda: tell.enqueue("b@example.com") and None)
                assert sent() == []
            assert sent() == ["b@example.com"]

    def test_what_was_committed_is_run_when_a_hook_after_the_commit_raises(self) -> None:
        @transaction.atomic
        def view() -> None:
            tell.enqueue("a@example.com")
            transaction.on_commit(lambda: 1 // 0 and None)

        with testing.eager():
            with pytest.raises(ZeroDivisionError):
                view()
            assert sent() == ["a@example.com"]

    def test_without_a_transaction_it_is_run_within_the_call(self) -> None:
        with testing.eager():
            tell.enqueue("a@example.com")
            assert sent() == ["a@example.com"]


def mock_atomic_requests() -> Any:
    from unittest import mock

    return mock.patch.dict(connection.settings_dict, {"ATOMIC_REQUESTS": True})


# --- errors ---


@pytest.mark.django_db
def test_failures_that_are_meant_are_kept_for_the_test_to_look_at() -> None:
    with testing.eager(errors="keep") as met:
        refuse.enqueue("no such card")
        fail.enqueue("away")
        with pytest.raises(durable.WorkflowFailed):
            refuse.enqueue("again").result()
    assert [(one.activity, one.failure.message) for one in met.failures] == [
        ("eager.refuse", "no such card"),
        ("eager.fail", "away"),
        ("eager.refuse", "again"),
    ]
    assert met.bugs == []


@pytest.mark.django_db
def test_an_error_of_workflow_code_reaches_the_test_as_it_is_and_not_the_caller() -> None:
    block = testing.eager()
    met = block.__enter__()
    handle = buggy.start()
    tell.enqueue("a@example.com")
    assert (handle.status(), sent()) == ("running", ["a@example.com"]), "and the others go on"
    assert [str(bug) for bug in met.bugs] == ["'a bug'"]
    with pytest.raises(KeyError, match="a bug"):
        block.__exit__(None, None, None)


@pytest.mark.django_db
def test_a_test_that_fails_is_told_what_has_failed_before_it() -> None:
    def test() -> None:
        with testing.eager():
            fail.enqueue("away")
            assert sent() == ["a@example.com"]

    with pytest.raises(AssertionError) as failed:
        test()
    assert failed.value.__notes__ == ["Eager: attempt 1 of eager.fail raised ConnectionError: away"]


@pytest.mark.django_db
def test_fakes_and_faults_apply_to_it() -> None:
    with testing.eager(), testing.replaced({tell: lambda to: None}) as calls:
        tell.enqueue("a@example.com")
        with testing.failing("acknowledge", when="after"):
            tell.enqueue("b@example.com")
    assert [call.args for call in calls.of(tell)] == [("a@example.com",), ("b@example.com",)]
    assert sent() == []


def test_another_value_for_errors_is_refused() -> None:
    with pytest.raises(OptionInvalid, match="'raise' or 'keep'"), testing.eager(errors="ignore"):  # type: ignore[arg-type]
        pass


# --- where it ends ---


@pytest.mark.django_db
def test_after_the_block_nothing_is_run_by_itself_and_a_drain_goes_on() -> None:
    with testing.eager():
        handle = order.start("a@example.com")
    handle.signal("answer", "no")
    tell.enqueue("b@example.com")
    with transaction.atomic():
        pass
    assert sent() == ["a@example.com"]
    testing.drain(until=timedelta(days=2))
    assert handle.result() == "no"


@pytest.mark.django_db
def test_of_a_block_within_another_one_the_inner_one_gets_the_errors() -> None:
    with testing.eager():
        with testing.eager(errors="keep") as inner:
            tell_async.enqueue("a@example.com")
            refuse.enqueue("away")
        tell.enqueue("b@example.com")
    assert sent() == ["a@example.com", "b@example.com"]
    assert len(inner.failures) == 1


@pytest.mark.django_db
def test_a_start_that_is_refused_leaves_the_others() -> None:
    with testing.eager():
        order.start("a@example.com", key="k")
        with pytest.raises(durable.KeyTaken):
            order.start("b@example.com", key="k")
    assert sent() == ["a@example.com"]


@pytest.mark.django_db
def test_async_callers() -> None:
    async def view() -> None:
        await tell_async.aenqueue("a@example.com")
        handle = await order.astart("b@example.com")
        await handle.asignal("answer", "yes")

    with testing.eager():
        async_to_sync(view)()
    assert sent() == ["a@example.com", "b@example.com", "yes-b@example.com"]


@pytest.mark.django_db(transaction=True)
def test_a_transaction_of_another_thread_holds_up_nobody() -> None:
    there, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            # On SQLite a transaction of another thread would hold up everybody's.
            with transaction.atomic() if connection.vendor == "postgresql" else nullcontext():
                there.set()
                assert done.wait(PATIENCE)
                tell.enqueue("b@example.com")
        finally:
            connection.close()

    with testing.eager():
        other = in_thread(hold)
        assert there.wait(PATIENCE)
        tell.enqueue("a@example.com")
        assert sent() == ["a@example.com"]
        done.set()
        other.result(PATIENCE)
        assert sent() == ["a@example.com", "b@example.com"]


@pytest.mark.django_db
def test_a_block_inside_the_callers_own_transaction_runs_nothing() -> None:
    with transaction.atomic(), testing.eager():
        tell.enqueue("a@example.com")
    assert sent() == []


# --- the fixture ---


def test_the_fixture_is_a_block_around_the_test(durable_eager: testing.Eager) -> None:
    tell.enqueue("a@example.com")
    assert sent() == ["a@example.com"]
    assert durable_eager.failures == []


def test_the_fixture_with_real_commits(durable_eager: testing.Eager, transactional_db: None) -> None:
    assert not connection.in_atomic_block
    with transaction.atomic():
        tell.enqueue("a@example.com")
        assert sent() == []
    assert sent() == ["a@example.com"]

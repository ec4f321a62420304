"""A work in the background asks again, while it goes on, whether the user who asked for it still may."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from durable.activities import BulkJob, BulkVerb
from durable.admin.dead_letters import carrying_out
from durable.flow.looks import look
from durable.models import StaffAction, Workflow
from durable.outcomes import DeadLetterFilter
from durable.testing import drain
from durable.workflows import change_dead_letters
from tests import factories
from tests.admin import scopes
from tests.admin.dead_letters import choose, confirm, letter, said, status

pytestmark = pytest.mark.django_db
MAY = ("view_deadletter", "redrive_deadletter", "discard_deadletter", "cancel_workflow")
Act = Callable[[], object]


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows are many already, and a piece has two."""
    monkeypatch.setattr(carrying_out, "AT_MOST_HERE", 2)
    monkeypatch.setattr("durable.admin.dead_letters.confirming.AT_MOST_HERE", 2)
    monkeypatch.setattr("durable.activities.AT_ONCE", 2)


@pytest.fixture
def anna(db: None) -> User:
    user = User.objects.create_user("anna", is_staff=True, first_name="mail")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="durable", codename__in=MAY))
    return user


@pytest.fixture
def client(anna: User) -> Client:
    client = Client()
    client.force_login(anna)
    return client


@pytest.fixture
def after_the_first_piece(monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
    """Does something once two rows were changed and the next two are known."""

    def do(act: Act) -> None:
        real = look.dead_letters_matching
        looks = []

        def watched(*args: Any, **named: Any) -> Any:
            found = real(*args, **named)
            looks.append(found)
            if len(looks) == 2:
                act()
            return found

        monkeypatch.setattr(look, "dead_letters_matching", watched)

    return do


def six() -> list[Any]:
    """Dead letters of paused workflows, which do nothing by themselves."""
    return [letter(queue="mail", workflow__status="paused", workflow__queue="mail") for _ in range(6)]


def hand_over(client: Client, action: str = "redrive", **answers: str) -> Any:
    answer = confirm(client, choose(client, action), **answers)
    assert said(answer)[0].startswith("The job has been queued for the workers.")
    return answer


def finish() -> None:
    drain(until=timedelta(hours=1))


def states(rows: list[Any]) -> list[str]:
    return [status(row) for row in rows]


def words(page: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.text))


def take(user: User, codename: str) -> None:
    user.user_permissions.remove(Permission.objects.get(codename=codename))


ENDS: dict[str, tuple[Callable[[User], object], str]] = {
    "permission": (lambda user: take(user, "redrive_deadletter"), "no longer has the permission"),
    "sight": (lambda user: take(user, "view_deadletter"), "no longer has the permission"),
    "inactive": (
        lambda user: User.objects.filter(pk=user.pk).update(is_active=False),
        "is no longer an active member of staff",
    ),
    "no staff": (
        lambda user: User.objects.filter(pk=user.pk).update(is_staff=False),
        "is no longer an active member of staff",
    ),
    "gone": (lambda user: User.objects.filter(pk=user.pk).delete(), "no longer exists"),
}


@pytest.mark.parametrize("end", list(ENDS))
def test_a_job_stops_when_its_actor_may_not_go_on(
    client: Client, anna: User, after_the_first_piece: Callable[[Act], None], end: str, caplog: pytest.LogCaptureFixture
) -> None:
    do, why = ENDS[end]
    rows = six()
    address = hand_over(client).wsgi_request.path
    after_the_first_piece(lambda: do(anna))
    finish()
    assert sorted(states(rows)) == ["dead"] * 4 + ["pending"] * 2
    work = Workflow.objects.get(type=change_dead_letters.name)
    assert work.status == "completed"
    assert '"stopped":"' in (work.result or "")
    assert "bulk.stopped" in caplog.text
    other = Client()
    other.force_login(User.objects.create_superuser("root"))
    text = words(other.get(address))
    assert f"It was stopped before it was finished: the user who asked for it {why}." in text
    assert "2 Queued for retry" in text
    assert "Finished." not in text


def test_a_discard_that_cancels_stops_when_its_actor_may_not_cancel_any_more(
    client: Client, anna: User, after_the_first_piece: Callable[[Act], None]
) -> None:
    rows = six()
    hand_over(client, "discard", reason="paid by hand", then="cancel")
    after_the_first_piece(lambda: take(anna, "cancel_workflow"))
    finish()
    assert sorted(states(rows)) == ["cancelled"] * 2 + ["dead"] * 4


def test_a_job_goes_on_for_as_long_as_its_actor_may(client: Client, anna: User, settings: Any) -> None:
    settings.DURABLE = {"ADMIN_SCOPE": "tests.admin.scopes.by_queue"}
    rows = six()
    others = [letter(queue="pay", workflow__status="paused", workflow__queue="pay") for _ in range(2)]
    address = hand_over(client, reason="the bank is back").wsgi_request.path
    finish()
    assert (states(rows), states(others)) == (["pending"] * 6, ["dead"] * 2)
    assert "6 Queued for retry" in words(client.get(address))
    work = Workflow.objects.get(type=change_dead_letters.name)
    audits = StaffAction.objects.all()
    assert {(a.job, a.through, a.actor, a.verb) for a in audits} == {(work.pk, "admin", anna, "redrive")}


def test_rows_that_its_actor_may_not_see_any_more_are_left_alone(
    client: Client, anna: User, after_the_first_piece: Callable[[Act], None], settings: Any
) -> None:
    settings.DURABLE = {"ADMIN_SCOPE": "tests.admin.scopes.by_queue"}
    rows = six()
    address = hand_over(client).wsgi_request.path
    after_the_first_piece(lambda: User.objects.filter(pk=anna.pk).update(first_name="pay"))
    finish()
    assert sorted(states(rows)) == ["dead"] * 4 + ["pending"] * 2
    text = words(client.get(address))  # one's own work is seen, whatever the scope
    assert "2 Queued for retry" in text
    assert "2 No longer visible to the user" in text


@pytest.mark.parametrize("for_how_long", ["a moment", "ever"])
def test_a_hook_that_fails_meanwhile_is_asked_again_and_stops_it_in_the_end(
    client: Client, after_the_first_piece: Callable[[Act], None], settings: Any, monkeypatch: Any, for_how_long: str
) -> None:
    settings.DURABLE = {"ADMIN_SCOPE": "tests.admin.scopes.by_queue"}
    rows = six()
    address = hand_over(client).wsgi_request.path
    real = scopes.by_queue
    failures: list[int] = []

    def fails(user: Any, queryset: Any) -> Any:
        if for_how_long == "ever" or len(failures) < 4:
            failures.append(1)
            raise LookupError("no tenant")
        return real(user, queryset)

    after_the_first_piece(lambda: monkeypatch.setattr(scopes, "by_queue", fails))
    finish()
    changed = 6 if for_how_long == "a moment" else 2
    assert sorted(states(rows)) == ["dead"] * (6 - changed) + ["pending"] * changed
    monkeypatch.setattr(scopes, "by_queue", real)
    text = words(client.get(address))
    assert ("failed. What was done so far stays done." in text) == (for_how_long == "ever")
    assert f"{changed} Queued for retry" in text


def test_what_code_has_started_in_nobodys_name_asks_nobody(settings: Any) -> None:
    settings.DURABLE = {"ADMIN_SCOPE": "tests.admin.scopes.raises"}
    rows = six()
    job = BulkJob(verb=BulkVerb.REDRIVE, wanted=DeadLetterFilter(), request=factories.ordered_uuid(), actor_text="cron")
    change_dead_letters.start(job)
    finish()
    assert states(rows) == ["pending"] * 6
    assert set(StaffAction.objects.values_list("actor_text", flat=True)) == {"cron"}


def test_works_of_others_are_not_seen_by_those_who_may_not_see_all(client: Client, settings: Any) -> None:
    settings.DURABLE = {"ADMIN_SCOPE": "tests.admin.scopes.by_queue"}
    six()
    mine = hand_over(client).wsgi_request.path
    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    for row in six():
        row.delete()
    theirs = hand_over(root, "discard", reason="of root").wsgi_request.path
    overview = reverse("admin:durable_deadletter_bulk_list")
    text = client.get(overview).text
    assert mine in text
    assert theirs not in text
    assert "of root" not in text
    assert client.get(theirs).status_code == 302
    assert {mine, theirs} <= set(re.findall(r'href="([^"]*bulk/[^"]+)"', root.get(overview).text))

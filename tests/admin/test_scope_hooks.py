"""The function of `ADMIN_SCOPE` itself: how often it is asked, and that one which is wrong shows nobody anything."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from tests.admin import scopes
from tests.admin.conftest import list_of, page_of
from tests.admin.dead_letters import list_url, said, status
from tests.admin.permissions import FORM
from tests.admin.worlds import EVERYTHING, World, use, world

pytestmark = pytest.mark.django_db


@pytest.fixture
def mail(db: None) -> World:
    return world("mail")


WRONG = [
    "raises",
    "returns_none",
    "returns_a_list",
    "returns_a_slice",
    "returns_a_union",
    "returns_values",
    "returns_another_model",
    "takes_one",
    "is_async",
    "NOT_A_FUNCTION",
    "there_is_none",
]


@pytest.mark.parametrize("hook", WRONG)
def test_a_hook_that_is_wrong_shows_nobody_anything(
    root: Client, mail: World, settings: Any, hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    use(settings, hook)
    for row in mail.rows():
        assert page_of(row) not in root.get(list_of(type(row))).text
        assert root.get(page_of(row)).status_code == 302
    assert "ADMIN_SCOPE" in root.get(list_url()).text
    overview = root.get(reverse("admin:app_list", args=["durable"])).text
    assert "ADMIN_SCOPE" in overview
    assert "All calm" not in overview
    answer = root.post(list_url(), {**FORM, "action": "redrive", "select_across": "1"}, follow=True)
    assert said(answer) == ["Nothing matches any longer, so nothing was done."]
    assert status(mail.letter) == "dead"
    assert "scope.failed" in caplog.text


@pytest.mark.parametrize("hook", ["takes_one", "is_async", "NOT_A_FUNCTION", "there_is_none"])
def test_a_check_names_a_hook_that_can_not_be_asked(settings: Any, hook: str) -> None:
    from durable.checks import check_admin_scope

    use(settings, hook)
    (found,) = check_admin_scope(None)
    assert found.id == "durable.E011"
    assert hook in found.msg


@pytest.mark.parametrize("hook", ["by_queue", "by_join", "raises"])
def test_a_check_is_content_with_a_function_of_two(settings: Any, hook: str) -> None:
    """What it does with a user is seen only when there is one."""
    from durable.checks import check_admin_scope

    use(settings, hook)
    assert check_admin_scope(None) == []


@pytest.mark.parametrize("value", [7, "", "nothing", ["tests.admin.scopes.by_queue"]])
def test_a_setting_that_is_no_path_is_refused(settings: Any, value: Any) -> None:
    from durable.conf import problems

    settings.DURABLE = {"ADMIN_SCOPE": value}
    assert ["ADMIN_SCOPE" in problem.text for problem in problems()] == [True]


def test_a_hook_is_asked_once_for_a_page_and_of_two_models(
    mail: World, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = scopes.by_queue

    def counted(user: Any, queryset: Any) -> Any:
        asked.append((user.first_name, queryset.model.__name__))
        return real(user, queryset)

    monkeypatch.setattr(scopes, "by_queue", counted)
    use(settings, "by_queue")
    user = User.objects.create_user("of-mail", is_staff=True, first_name="mail")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="durable", codename__in=EVERYTHING))
    client = Client()
    client.force_login(user)
    for url in (list_url(), page_of(mail.workflow), reverse("admin:app_list", args=["durable"])):
        asked.clear()
        assert client.get(url).status_code == 200
        assert sorted(asked) == sorted(set(asked))
        assert set(asked) <= {("mail", "OutboxRow"), ("mail", "Workflow")}

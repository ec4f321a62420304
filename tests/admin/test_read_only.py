"""Nobody adds, changes or deletes in these rooms, and nobody looks without the permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from durable.models import DeadLetter, Workflow
from tests.admin.conftest import ROOMS, Scene, list_of
from tests.admin.snapshots import snapshot

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("model", ROOMS)
def test_forged_posts_of_a_superuser_are_refused_and_change_nothing(root: Client, scene: Scene, model: Any) -> None:
    """Faults A13, A18, N7."""
    before = snapshot()
    row = model.objects.first()
    name = f"admin:durable_{model._meta.model_name}"
    posts: list[tuple[str, dict[str, Any]]] = [
        (reverse(f"{name}_changelist"), {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}),
        (reverse(f"{name}_changelist"), {"_save": "Save", "form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1}),
        (reverse(f"{name}_add"), {"type": "x"}),
        (reverse(f"{name}_change", args=[row.pk]), {"status": "completed", "_save": "Save"}),
        (reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}),
    ]
    for url, data in posts:
        assert root.post(url, data).status_code == 403, url
    assert root.post(reverse("admin:durable_workflow_event", args=[scene.workflow.pk, 1])).status_code == 403
    assert snapshot() == before


@pytest.mark.parametrize("model", ROOMS)
def test_there_is_no_way_to_add_or_delete_on_screen(root: Client, scene: Scene, model: Any) -> None:
    name = f"admin:durable_{model._meta.model_name}"
    assert root.get(reverse(f"{name}_add")).status_code == 403
    assert root.get(reverse(f"{name}_delete", args=[model.objects.first().pk])).status_code == 403
    text = root.get(list_of(model)).text
    assert reverse(f"{name}_add") not in text
    assert ("_selected_action" in text) == (model in (Workflow, DeadLetter))


def test_no_add_change_or_delete_permission_exists() -> None:
    codenames = Permission.objects.filter(content_type__app_label="durable").values_list("codename", flat=True)
    assert not [name for name in codenames if name.startswith(("add_", "change_", "delete_"))]


def test_the_operators_permissions_exist_under_their_binding_names() -> None:
    codenames = set(Permission.objects.filter(content_type__app_label="durable").values_list("codename", flat=True))
    assert codenames >= {
        "view_payload", "redrive_deadletter", "force_redrive_deadletter", "discard_deadletter", "cancel_workflow",
        "terminate_workflow", "signal_workflow", "pause_workflow", "reopen_workflow", "unblock_workflow",
    }  # fmt: skip


def test_staff_without_the_view_permission_see_nothing(staff: Callable[..., Client], scene: Scene) -> None:
    client = staff()
    for url in scene.pages():
        assert client.get(url).status_code == 403


@pytest.mark.parametrize("model", ROOMS)
def test_a_view_permission_opens_its_own_room_only(staff: Callable[..., Client], scene: Scene, model: Any) -> None:
    client = staff(f"view_{model._meta.model_name}")
    for other in ROOMS:
        assert client.get(list_of(other)).status_code == (200 if other is model else 403)


def test_somebody_who_is_not_logged_in_is_asked_to(client: Client, scene: Scene) -> None:
    for url in scene.pages():
        response = client.get(url)
        assert response.status_code == 302
        assert "/login/" in response["Location"]


def test_the_log_of_a_row_opens(root: Client, scene: Scene) -> None:
    assert root.get(reverse("admin:durable_workflow_history", args=[scene.workflow.pk])).status_code == 200

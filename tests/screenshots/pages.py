"""The pages of which pictures are taken, and at which the layout is tested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEIGHTS = {"triage": 640, "dead-letters": 760, "redrive-preview": 720, "dead-letter": 900}
"""The pictures of the documentation, and how high they are."""


def addresses(rows: Mapping[str, Any]) -> dict[str, str]:
    """The pages by the name of their picture."""
    from django.urls import reverse

    keys = "&".join(f"_selected_action={row.pk}" for row in rows["letters"])
    letter, running, blocked = rows["letter"], rows["running"], rows["blocked"]
    return {
        "triage": reverse("admin:app_list", args=["durable"]),
        "dead-letters": reverse("admin:durable_deadletter_changelist"),
        "dead-letter": reverse("admin:durable_deadletter_change", args=[letter.pk]),
        "redrive-preview": reverse("admin:durable_deadletter_changelist") + "#" + keys,
        "discard": reverse("admin:durable_deadletter_discard", args=[letter.pk]),
        "workflows": reverse("admin:durable_workflow_changelist"),
        "workflow": reverse("admin:durable_workflow_change", args=[running.pk]),
        "blocked": reverse("admin:durable_workflow_change", args=[blocked.pk]),
        "cancel": reverse("admin:durable_workflow_cancel", args=[running.pk]),
        "signal": reverse("admin:durable_workflow_signal", args=[running.pk]),
        "outbox": reverse("admin:durable_outboxrow_changelist"),
        "staff-actions": reverse("admin:durable_staffaction_changelist"),
        "workers": reverse("admin:durable_worker_changelist"),
        "messages": reverse("admin:durable_message_changelist"),
    }

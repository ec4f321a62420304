"""The admin's rooms: what staff see, and what they can do. Nobody can add, change or delete rows by hand.

Django's autodiscover imports this module, which fills the default admin site. A project with an admin site of its own
calls `durable.admin.register(site)`.
"""

from __future__ import annotations

from django.contrib import admin

from durable.admin.dead_letters.outbox import OutboxRowAdmin
from durable.admin.dead_letters.room import DeadLetterAdmin
from durable.admin.lists.messages import MessageAdmin
from durable.admin.lists.staff_actions import StaffActionAdmin
from durable.admin.lists.work_items import WorkItemAdmin
from durable.admin.lists.workers import WorkerAdmin
from durable.admin.workflows.room import WorkflowAdmin
from durable.models import DeadLetter, Message, OutboxRow, StaffAction, Worker, Workflow, WorkItem

ROOMS = {
    DeadLetter: DeadLetterAdmin,
    Workflow: WorkflowAdmin,
    OutboxRow: OutboxRowAdmin,
    WorkItem: WorkItemAdmin,
    Message: MessageAdmin,
    Worker: WorkerAdmin,
    StaffAction: StaffActionAdmin,
}


def register(site: admin.AdminSite) -> None:
    """Puts all rooms into an admin site. Rooms that the site already has stay as they are."""
    for model, room in ROOMS.items():
        if not site.is_registered(model):
            site.register(model, room)


register(admin.site)

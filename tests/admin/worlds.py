"""What two queues have, for tests of who sees which."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests import factories
from tests.admin.conftest import ROOMS

EVERYTHING = tuple(f"view_{model._meta.model_name}" for model in ROOMS)


@dataclass
class World:
    """What one queue has: a row of each kind."""

    workflow: Any
    row: Any
    item: Any
    message: Any
    letter: Any
    audit: Any
    of_workflow: Any

    def rows(self) -> list[Any]:
        return [self.workflow, self.row, self.item, self.message, self.letter, self.audit, self.of_workflow]


def world(queue: str) -> World:
    workflow = factories.WorkflowFactory(queue=queue, type=f"shop.{queue}_order", key=f"{queue}-1")
    factories.history_of(workflow, length=2)
    row = factories.OutboxRowFactory(workflow=workflow, queue=queue, activity=f"shop.{queue}_it", status="claimed")
    dead = factories.DeadLetterFactory(workflow=workflow, queue=queue, activity=f"shop.{queue}_dead")
    return World(
        workflow=workflow,
        row=row,
        item=factories.WorkItemFactory(outbox_row=row, worker="worker-1"),
        message=factories.MessageFactory(workflow=workflow, visible_at=factories.now() - timedelta(hours=3)),
        letter=dead,
        audit=factories.StaffActionFactory(outbox_row=dead, reason=f"because of {queue}"),
        of_workflow=factories.StaffActionFactory(outbox_row=None, workflow=workflow, verb="pause", mode=""),
    )


def use(settings: Any, hook: str, **more: Any) -> None:
    settings.DURABLE = {"ADMIN_SCOPE": f"tests.admin.scopes.{hook}", **more}

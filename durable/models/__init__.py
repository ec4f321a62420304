"""The rows. Constraints, indexes and named filters are here; transitions are in `durable.store`, and nowhere else."""

from durable.models.event import Event
from durable.models.message import Message
from durable.models.outbox import DeadLetter, FailedAttempt, OutboxRow
from durable.models.staff_action import StaffAction
from durable.models.work_item import WorkItem
from durable.models.worker import Worker
from durable.models.workflow import Workflow

__all__ = [
    "DeadLetter",
    "Event",
    "FailedAttempt",
    "Message",
    "OutboxRow",
    "StaffAction",
    "WorkItem",
    "Worker",
    "Workflow",
]

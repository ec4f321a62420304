"""The `Workflow` row: one durable execution of a workflow type, or one single activity."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from durable.errors.showing import visible
from durable.models.fields import JsonTextField, MomentField
from durable.outcomes import TERMINAL, WorkflowStatus

LIVE_STATUSES = (WorkflowStatus.RUNNING.value, WorkflowStatus.PAUSED.value)
UNHAPPY_STATUSES = (WorkflowStatus.FAILED.value, WorkflowStatus.TIMED_OUT.value)
"""Ends that need attention."""
TERMINAL_STATUSES = tuple(sorted(status.value for status in TERMINAL))


class _Empty(models.Func):
    """An empty text as a literal in the statement, so that SQLite, too, sees which partial index it implies."""

    output_field = models.CharField()
    arity = 0
    template = "''"


class WorkflowQuerySet(models.QuerySet["Workflow"]):
    """Named filters over workflows."""

    def live(self) -> WorkflowQuerySet:
        """Workflows that are not in one of the four hard terminals."""
        return self.filter(status__in=LIVE_STATUSES)

    def terminal(self) -> WorkflowQuerySet:
        """Workflows in one of the four hard terminals."""
        return self.filter(status__in=TERMINAL_STATUSES)

    def blocked(self) -> WorkflowQuerySet:
        """Workflows whose code does not match their history, or cannot continue for another reason."""
        return self.exclude(blocked_reason="")

    def of_error_group(self, group: str) -> WorkflowQuerySet:
        """Workflows that have failed, or are blocked, by errors of one group."""
        return self.filter(error_group=group).exclude(error_group=_Empty())


class Workflow(models.Model):
    """One durable execution.

    `status` is a projection of the history: it is written only together with the event that explains it.
    Running: moved in by start (of a child, by its parent's turn) and resume, out by pause, by the turn (or the
    acknowledgement of a single activity) that ends it, and by terminate. Paused: in by pause, out by resume and
    terminate. Both: out by a turn that finds an order of the parent's end to terminate. The four hard terminals: moved
    in as said, out by nothing but reopen. *Blocked* is a mark beside the status: set by the turn that could not go
    on, cleared by unblock or by the first turn that succeeds after a deploy. `error_class` and `error_group` let lists
    group failures and blocks without reading them.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    type = models.CharField(max_length=200)
    key = models.CharField(max_length=1000, null=True, blank=True)
    single = models.BooleanField(default=False)
    status = models.CharField(max_length=10, choices=[(s.value, s.value.replace("_", " ")) for s in WorkflowStatus])
    run = models.PositiveIntegerField(default=1)
    run_seq = models.PositiveIntegerField(default=1)
    history_seq = models.PositiveIntegerField(db_default=1)  # of the last *workflow started*
    input = models.TextField()
    result = models.TextField(null=True)
    failure = JsonTextField(null=True)
    error_class = models.CharField(max_length=200, default="", db_default="", blank=True)
    error_group = models.CharField(max_length=16, default="", db_default="", blank=True)
    parent = models.ForeignKey("self", models.DO_NOTHING, null=True, db_constraint=False, db_index=False)
    parent_run = models.PositiveIntegerField(
        null=True
    )  # with the ordinal: the call of the parent that began this child
    parent_ordinal = models.PositiveIntegerField(null=True)
    parent_close = models.CharField(max_length=10, db_default="", blank=True)  # what its parent's end does to it
    children = models.PositiveIntegerField(db_default=0)  # how many it has started; with none its end looks for none
    patches = JsonTextField(null=True)  # what `patched` has returned in this run, by id
    queue = models.CharField(max_length=100, default="default")
    priority = models.SmallIntegerField(default=0)
    custom_status = models.CharField(max_length=1000, default="", blank=True)
    progress = models.FloatField(null=True)  # for a later release: `set_status(progress=)`
    status_data = JsonTextField(null=True)  # for a later release: `set_status(data=)`
    waits_for = JsonTextField(null=True)  # for a later release: names of awaited signals, number of awaited activities
    last_seq = models.PositiveIntegerField(default=1)
    history_bytes = models.BigIntegerField(db_default=0)  # of the events from history_seq on; 0: not counted yet
    wake_at = MomentField(null=True)
    timers = JsonTextField(default=list)
    blocked_reason = models.TextField(default="", blank=True)
    blocked_at = MomentField(null=True)  # since when, while `blocked_reason` is set
    blocked_version = models.CharField(max_length=64, default="", blank=True)
    poison_turns = models.PositiveSmallIntegerField(default=0)
    deadline_at = MomentField(null=True)
    created_at = MomentField()
    closed_at = MomentField(null=True)
    terminated = models.BooleanField(db_default=False)  # for a later release: cancelled by staff, and not by its code

    objects = WorkflowQuerySet.as_manager()

    class Meta:
        verbose_name = gettext_lazy("workflow")
        verbose_name_plural = gettext_lazy("workflows")
        default_permissions = ("view",)
        permissions = [
            ("view_payload", "Can see inputs, results and signal payloads"),
            ("view_failure", "Can see what errors said, and why a workflow is blocked"),
            ("cancel_workflow", "Can ask a workflow to cancel"),
            ("terminate_workflow", "Can terminate a workflow"),
            ("signal_workflow", "Can send a signal to a workflow"),
            ("pause_workflow", "Can pause and resume a workflow"),
            ("reopen_workflow", "Can reopen a workflow that has ended"),
            ("unblock_workflow", "Can unblock a workflow"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["type", "key"],
                condition=Q(key__isnull=False, status__in=LIVE_STATUSES),
                name="durable_one_live_workflow_per_key",
            ),
            models.CheckConstraint(
                condition=Q(status__in=[s.value for s in WorkflowStatus]), name="durable_workflow_status_is_known"
            ),
            models.CheckConstraint(
                condition=Q(status__in=LIVE_STATUSES, closed_at__isnull=True)
                | Q(status__in=TERMINAL_STATUSES, closed_at__isnull=False),
                name="durable_workflow_closed_at_iff_terminal",
            ),
        ]
        indexes = [
            models.Index(fields=["wake_at"], condition=Q(wake_at__isnull=False), name="durable_workflow_wake"),
            models.Index(fields=["key", "type", "-id"], condition=Q(key__isnull=False), name="durable_workflow_key"),
            models.Index(fields=["status", "-id"], name="durable_workflow_status"),
            models.Index(fields=["type", "-id"], name="durable_workflow_type"),
            models.Index(fields=["error_group", "-id"], condition=~Q(error_group=""), name="durable_workflow_error"),
            models.Index(fields=["id"], condition=~Q(blocked_reason=""), name="durable_workflow_blocked"),
            models.Index(
                fields=["closed_at"], condition=Q(status__in=UNHAPPY_STATUSES), name="durable_workflow_failed"
            ),
            models.Index(  # for a later release: retention
                fields=["closed_at", "id"], condition=Q(closed_at__isnull=False), name="durable_workflow_closed"
            ),
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="durable_workflow_children"),
        ]

    def __str__(self) -> str:
        return f"{visible(self.type)} {self.id}"

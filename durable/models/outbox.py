"""The `OutboxRow`: one activity staged for dispatch, and its `FailedAttempt`s."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy

from durable.models.fields import JsonTextField, MarkField, MomentField
from durable.outcomes import Cause, DeadLetterFilter, OutboxStatus


class Known(models.Func):
    """A status as a literal in the statement, so that SQLite, too, sees which partial index it implies."""

    output_field = models.CharField()
    arity = 0

    def __init__(self, status: OutboxStatus) -> None:
        super().__init__(template=f"'{status.value}'")


class _Zero(models.Func):
    """The number 0 as a literal, for the same reason."""

    output_field = models.IntegerField()
    arity = 0
    template = "0"


class OutboxQuerySet(models.QuerySet["OutboxRow"]):
    """Named filters over outbox rows."""

    def claimable(self) -> OutboxQuerySet:
        """Pending rows that neither a pause nor their lane holds back. Due or not."""
        return self.filter(status=Known(OutboxStatus.PENDING), paused=False, waiting=False)

    def open(self) -> OutboxQuerySet:
        """Rows that are still to be dispatched, or out with a worker."""
        return self.filter(status__in=[Known(OutboxStatus.PENDING), Known(OutboxStatus.CLAIMED)])

    def dead_letters(self) -> OutboxQuerySet:
        """Rows that spent their budget."""
        return self.filter(status=Known(OutboxStatus.DEAD))

    def matching(self, wanted: DeadLetterFilter) -> OutboxQuerySet:
        """The dead letters that match a filter. Lists, previews and bulk verbs all use this."""
        equal = {
            "workflow_id": wanted.workflow_id,
            "workflow_id__in": wanted.workflow_ids,
            "workflow__type": wanted.workflow_type,
            "activity": wanted.activity,
            "cause": None if wanted.cause is None else wanted.cause.value,
            "error_group": wanted.error_group,
            "queue": wanted.queue,
            "failure_delivered": None if wanted.judged is None else wanted.judged == "judged",
            "redrive_count__gt": _Zero() if wanted.redriven == "again" else None,
            "redrive_count": _Zero() if wanted.redriven == "never" else None,
            "attempts__gte": wanted.attempts_from,
            "attempts__lte": wanted.attempts_to,
            "deliveries__gte": wanted.deliveries_from,
            "deliveries__lte": wanted.deliveries_to,
            "dead_lettered_at__gte": wanted.failed_after,
            "dead_lettered_at__lt": wanted.failed_before,
        }
        rows = self.dead_letters().filter(**{name: value for name, value in equal.items() if value is not None})
        failures = FailedAttempt.objects.filter(outbox_row=models.OuterRef("pk"))
        if wanted.first_failed_before is not None:
            rows = rows.filter(models.Exists(failures.filter(ended_at__lt=wanted.first_failed_before)))
        if wanted.first_failed_after is not None:
            rows = rows.exclude(models.Exists(failures.filter(ended_at__lt=wanted.first_failed_after)))
        return rows


class OutboxRow(models.Model):
    """One activity staged for dispatch.

    `docs/lifecycle.md` says for each status which verb moves a row in, and which moves it out.
    """

    id = models.BigAutoField(primary_key=True)
    workflow = models.ForeignKey("durable.Workflow", models.DO_NOTHING, db_constraint=False, db_index=False)
    run = models.PositiveIntegerField()
    ordinal = models.PositiveIntegerField()
    activity = models.CharField(max_length=200)
    input = models.TextField()
    options = JsonTextField(default=dict)
    namespace = models.CharField(max_length=100, default="", blank=True)
    queue = models.CharField(max_length=100, default="default")
    node = models.CharField(max_length=100, null=True, blank=True)
    lane = models.CharField(max_length=200, null=True, blank=True)  # for a later release: limits and order per key
    waiting = MarkField(db_default=False)  # for a later release: for its lane to admit it; claims pass it by
    status = models.CharField(max_length=9, choices=[(s.value, s.value) for s in OutboxStatus])
    paused = MarkField(default=False)
    suspect = MarkField(default=False)
    priority = models.SmallIntegerField(default=0)
    visible_after = MomentField()
    created_at = MomentField()
    claimed_at = MomentField(null=True)
    worker = models.CharField(max_length=200, default="", db_default="", blank=True)  # of the latest claim
    deliveries = models.PositiveIntegerField(default=0)
    delivery_failures = models.PositiveIntegerField(default=0)
    delivery_budget = models.PositiveIntegerField()
    attempts = models.PositiveIntegerField(default=0)
    attempt_budget = models.PositiveIntegerField(null=True)  # null: no limit
    last_heartbeat = models.TextField(null=True)
    failure_delivered = models.BooleanField(default=False)
    cause = models.CharField(max_length=40, default="", blank=True, choices=[(c.value, c.value) for c in Cause])
    error_class = models.CharField(max_length=200, default="", db_default="", blank=True)
    error_group = models.CharField(max_length=16, default="", db_default="", blank=True)
    dead_lettered_at = MomentField(null=True)
    redrive_count = models.PositiveIntegerField(default=0)
    discarded_at = MomentField(null=True)

    objects = OutboxQuerySet.as_manager()

    class Meta:
        verbose_name = gettext_lazy("outbox row")
        verbose_name_plural = gettext_lazy("outbox rows")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["workflow", "run", "ordinal"], name="durable_one_row_per_run_and_ordinal"),
            models.CheckConstraint(
                condition=Q(status__in=[s.value for s in OutboxStatus]), name="durable_outbox_status_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(status=OutboxStatus.DEAD.value) | Q(dead_lettered_at__isnull=False),
                name="durable_dead_letter_has_its_time",
            ),
        ]
        indexes = [
            models.Index(
                F("priority").desc(),
                "visible_after",
                "id",
                condition=Q(status=OutboxStatus.PENDING.value, paused=False, suspect=False, waiting=False),
                name="durable_outbox_claim",
            ),
            models.Index(
                "queue",
                F("priority").desc(),
                "visible_after",
                "id",
                condition=Q(status=OutboxStatus.PENDING.value, paused=False, suspect=False, waiting=False),
                name="durable_outbox_claim_queue",
            ),
            models.Index(
                "visible_after",
                "id",
                condition=Q(status=OutboxStatus.PENDING.value, paused=False, suspect=True, waiting=False),
                name="durable_outbox_suspects",
            ),
            models.Index(
                fields=["workflow"],
                condition=Q(status=OutboxStatus.PENDING.value, paused=True),
                name="durable_outbox_paused",
            ),
            models.Index(
                fields=["lane", "visible_after", "id"],
                condition=Q(status=OutboxStatus.PENDING.value, waiting=True),
                name="durable_outbox_waiting",
            ),
            models.Index(
                fields=["claimed_at", "id"],
                condition=Q(status=OutboxStatus.CLAIMED.value),
                name="durable_outbox_sweep",
            ),
            models.Index(
                fields=["-dead_lettered_at", "-id"],
                condition=Q(status=OutboxStatus.DEAD.value),
                name="durable_outbox_dead_letters",
            ),
            # One for each filter of the list of dead letters, in the list's order: a rare value among many is found at
            # once. They hold dead letters only, so nothing else that happens to a row touches them.
            *(
                models.Index(
                    fields=[column, "-dead_lettered_at", "-id"],
                    condition=Q(status=OutboxStatus.DEAD.value),
                    name=f"durable_dead_letters_{name}",
                )
                for column, name in (
                    ("activity", "act"),
                    ("cause", "cause"),
                    ("error_group", "error"),
                    ("queue", "queue"),
                    ("failure_delivered", "told"),
                    ("attempts", "tries"),
                    ("deliveries", "given"),
                )
            ),
            models.Index(
                fields=["-dead_lettered_at", "-id"],
                condition=Q(status=OutboxStatus.DEAD.value, redrive_count=0),
                name="durable_dead_letters_first",
            ),
            models.Index(
                fields=["-dead_lettered_at", "-id"],
                condition=Q(status=OutboxStatus.DEAD.value, redrive_count__gt=0),
                name="durable_dead_letters_again",
            ),
        ]

    def __str__(self) -> str:
        return self.dispatch_key

    @property
    def dispatch_key(self) -> str:
        """`workflow:run:ordinal`, also the idempotency key that handlers see."""
        return f"{self.workflow_id}:{self.run}:{self.ordinal}"


class DeadLetter(OutboxRow):
    """An outbox row as operators of dead letters see it. Its manager returns every row, so that the page of one that
    was redriven still opens. The list uses `dead_letters()`.
    """

    class Meta:
        proxy = True
        verbose_name = gettext_lazy("dead letter")
        verbose_name_plural = gettext_lazy("dead letters")
        default_permissions = ("view",)
        permissions = [
            ("redrive_deadletter", "Can redrive a dead letter"),
            ("force_redrive_deadletter", "Can force the redrive of a dead letter that was judged"),
            ("discard_deadletter", "Can discard a dead letter"),
        ]


class FailedAttempt(models.Model):
    """One delivery or attempt of an outbox row that failed. Appended, kept."""

    id = models.BigAutoField(primary_key=True)
    outbox_row = models.ForeignKey(
        OutboxRow, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="failed_attempts"
    )
    number = models.PositiveIntegerField()
    worker = models.CharField(max_length=200, default="", blank=True)
    started_at = MomentField(null=True)
    ended_at = MomentField()
    cause = models.CharField(max_length=40, choices=[(c.value, c.value) for c in Cause])
    error = JsonTextField(null=True)
    error_class = models.CharField(max_length=200, default="", db_default="", blank=True)
    error_group = models.CharField(max_length=16, default="", db_default="", blank=True)

    class Meta:
        verbose_name = gettext_lazy("failed attempt")
        verbose_name_plural = gettext_lazy("failed attempts")
        default_permissions = ("view",)
        indexes = [models.Index(fields=["outbox_row", "number"], name="durable_failed_attempt_of_row")]

    def __str__(self) -> str:
        return f"{self.outbox_row_id} delivery {self.number}: {self.cause}"

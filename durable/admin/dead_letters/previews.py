"""What an action would do, shown before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, InterfaceError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from durable.admin.dead_letters.actions import Action, Asked
from durable.admin.words import refusals, wording
from durable.conf import settings
from durable.errors import StoreUnavailable
from durable.flow.looks import look
from durable.flow.operator import redrive as redriving
from durable.logs import get_logger, words
from durable.models import DeadLetter
from durable.operations import preview_redrive
from durable.outcomes import DeadLetterFilter, RedriveMode
from durable.scope import Scope

logger = get_logger("durable.admin")


@dataclass(frozen=True, slots=True)
class Line:
    """How many would be refused, and why. `overridable`: a forced redrive would not refuse them."""

    number: int
    count: str
    wording: refusals.Wording
    overridable: bool


@dataclass(frozen=True, slots=True)
class Preview:
    """How many rows would be moved, how many refused. `failed`: it could not be counted; the action is
    still possible.
    """

    total: str = ""
    looked_at: int = 0
    go: int = 0
    go_text: str = ""
    refused: Sequence[Line] = ()
    footnote: str = ""
    failed: bool = False
    capped: bool = False
    could_go: Sequence[int] = ()
    waiting: int = 0

    @property
    def total_words(self) -> str:
        """How many are selected, in words."""
        if not self.total:
            return _("All dead letters that match")
        return ngettext("%(count)s dead letter", "%(count)s dead letters", self.looked_at) % {"count": self.total}

    @property
    def pointless(self) -> bool:
        """Whether it is known that all of them would be refused."""
        return not (self.failed or self.capped or self.go)

    @property
    def may_wait(self) -> bool:
        """Whether a workflow may be waiting for one of those that would be moved."""
        return self.failed or self.capped or self.waiting > 0

    @property
    def overridable(self) -> bool:
        """Whether a forced redrive would move some of the refused ones."""
        return any(line.overridable for line in self.refused)


OVERRIDABLE = frozenset({"history_records_outcome", "already_judged"})


def letters(keys: Sequence[int], scope: Scope) -> list[Any]:
    """The rows of a selection that still exist and may be seen, without their payloads."""
    rows = scope.narrow(DeadLetter.objects.using(settings.database_alias)).filter(pk__in=keys)
    return list(rows.defer("input", "options", "last_heartbeat").order_by("pk"))


def preview(asked: Asked) -> Preview:
    """Checks the gates, and writes nothing. If the database fails meanwhile, the action itself is still possible."""
    try:
        return _preview(asked)
    except (StoreUnavailable, DatabaseError, InterfaceError) as error:
        logger.warning("admin.preview_failed", error=words(error))
        return Preview(failed=True)


def _preview(asked: Asked) -> Preview:
    meant: Any
    if asked.keys is None:
        assert asked.wanted is not None
        meant = _all_that_match(asked.wanted, asked.scope)
        preview = preview_redrive(meant, mode=asked.action.mode)
        refused, go, looked_at, more = (
            dict(preview.refused),
            preview.redrivable,
            preview.looked_at,
            "+" * preview.capped,
        )
        could_go: list[int] = []
    else:
        meant = letters(asked.keys, asked.scope)
        verdicts = redriving.verdicts(meant, mode=asked.action.mode)
        could_go = [row.pk for row, said in zip(meant, verdicts, strict=True) if said == redriving.REDRIVABLE]
        refused = dict(Counter(said for said in verdicts if said != redriving.REDRIVABLE))
        gone = len(set(asked.keys)) - len(meant)
        if gone:
            refused["row_not_found"] = refused.get("row_not_found", 0) + gone
        go, looked_at, more = len(could_go), len(meant) + gone, ""
    waiting = 0 if asked.action.mode is RedriveMode.ELIGIBLE or not go else _waiting(meant)
    return Preview(
        total=f"{wording.number(looked_at)}{more}",
        looked_at=looked_at,
        go=go,
        go_text=f"{wording.number(go)}{more}",
        refused=[
            Line(count, f"{wording.number(count)}{more}", refusals.of_code(code), code in OVERRIDABLE)
            for code, count in sorted(refused.items(), key=lambda item: -item[1])
        ],
        footnote=_footnote(asked.action, go, waiting),
        capped=bool(more),
        could_go=could_go,
        waiting=waiting,
    )


def _all_that_match(wanted: DeadLetterFilter, scope: Scope) -> Any:
    """The filter itself, or the places of those that may be seen: one more than are looked at."""
    if scope.is_whole:
        return wanted
    return look.places_matching(wanted, limit=redriving.PREVIEW_LIMIT + 1, within=scope.rows())


def _waiting(meant: Any) -> int:
    """How many have a workflow that is waiting for them."""
    return preview_redrive(meant, mode=RedriveMode.ELIGIBLE).redrivable


def _footnote(action: Action, go: int, waiting: int) -> str:
    """Of a forced redrive or a discard: how many of those that would go have a workflow that still waits."""
    if action.mode is RedriveMode.ELIGIBLE or not go:
        return ""
    if go == 1:
        if waiting:
            return _("Its workflow is waiting for it.")
        return _("Its workflow has moved on.")
    return _("Workflow waiting: %(held)s. Workflow moved on: %(judged)s.") % {
        "held": wording.number(waiting),
        "judged": wording.number(max(go - waiting, 0)),
    }

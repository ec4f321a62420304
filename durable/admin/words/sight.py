"""Whether a user sees confidential data, and if not, why: payloads, and error messages.

The two have different types, so that one permission is never taken for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from durable.conf import settings

_NOT_RECORDED = "_durable_not_recorded"


class Why(Enum):
    """Why something is hidden."""

    NO_PERMISSION = "no_permission"
    REDACTED = "redacted"
    NOT_RECORDED = "not_recorded"


@dataclass(frozen=True, slots=True)
class _Sight:
    hidden: Why | None = None
    """None: it is shown."""

    words: ClassVar[Mapping[Why, Any]] = {}

    @property
    def is_shown(self) -> bool:
        """Whether this reader sees it."""
        return self.hidden is None

    @property
    def placeholder(self) -> str:
        """What stands in the place of what is hidden."""
        return "" if self.hidden is None else str(self.words[self.hidden])


class PayloadSight(_Sight):
    """Whether a user sees payloads, and workflows' status messages."""

    words: ClassVar[Mapping[Why, Any]] = {
        Why.NO_PERMISSION: gettext_lazy("Hidden: you need the permission to view payloads."),
        Why.REDACTED: gettext_lazy("Hidden: this site shows no payloads."),
        Why.NOT_RECORDED: gettext_lazy("Hidden: views of payloads are recorded, and the record could not be written."),
    }


class FailureSight(_Sight):
    """Whether a user sees error messages, which may quote any payload."""

    words: ClassVar[Mapping[Why, Any]] = {
        Why.NO_PERMISSION: gettext_lazy("Hidden: you need the permission to view failures."),
        Why.REDACTED: gettext_lazy("Hidden: this site shows no error messages."),
    }


def of_payloads(request: HttpRequest) -> PayloadSight:
    """What the setting and the reader's permission say."""
    if settings.redact_payloads:
        return PayloadSight(Why.REDACTED)
    if not request.user.has_perm("durable.view_payload"):
        return PayloadSight(Why.NO_PERMISSION)
    return PayloadSight(Why.NOT_RECORDED if getattr(request, _NOT_RECORDED, False) else None)


def of_failures(request: HttpRequest) -> FailureSight:
    """What the setting and the reader's permission say."""
    if settings.redact_payloads:
        return FailureSight(Why.REDACTED)
    return FailureSight(None if request.user.has_perm("durable.view_failure") else Why.NO_PERMISSION)


def hide_payloads(request: HttpRequest) -> None:
    """From here on this request shows none: it could not be recorded that somebody looks at them."""
    vars(request)[_NOT_RECORDED] = True

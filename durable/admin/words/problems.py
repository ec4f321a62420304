"""Why a form was not carried out, in words for staff. The exceptions' own texts are for developers."""

from __future__ import annotations

from django.utils.translation import gettext as _

from durable.admin.words import refusals, wording
from durable.errors import (
    KeyInvalid,
    NobodyListens,
    OptionInvalid,
    PayloadError,
    PayloadTooLarge,
    StoreUnavailable,
    TransactionOpen,
)
from durable.kernel.limits import MAX_SIGNAL_NAME_LENGTH


def of_form(error: Exception) -> str:
    """What was wrong with the form, or what the database did with it; an exception's own text for any other."""
    text, values = str(error), {}
    match error:
        case TransactionOpen():
            text = refusals.sentences(error)
        case StoreUnavailable(outcome_unknown=True):
            text = _(
                "The database did not carry this out: the change may or may not have been made; check before you try "
                "again."
            )
        case StoreUnavailable(locked=True):
            text = _(
                "Another session has locked this in a transaction that is still open, so nothing was changed. Try "
                "again in a moment; if it stays locked, end that transaction (pg_stat_activity shows it)."
            )
        case StoreUnavailable():
            text = _("The database did not carry this out: nothing was changed.")
        case NobodyListens(workflow_id=workflow_id):
            values = {"id": str(workflow_id)}
            text = _("%(id)s is a single activity, which has no code that could wait for a signal.")
        case OptionInvalid(option="reason"):
            text = _("The reason contains characters that cannot be stored.")
        case KeyInvalid():
            values = {"most": wording.number(MAX_SIGNAL_NAME_LENGTH)}
            text = _(
                "This cannot be used as a signal name: it is longer than %(most)s characters, or contains some that "
                "cannot be stored."
            )
        case PayloadTooLarge(size=size, limit=limit):
            values = {"size": wording.number(size), "limit": wording.number(limit)}
            text = _("The payload is too large: it has %(size)s bytes, and the limit is %(limit)s.")
        case PayloadError(problem=problem):
            values = {"problem": problem}
            text = _("The payload cannot be stored: %(problem)s.")
        case _:
            pass
    return text % values if values else text

"""Errors of configuration and of calls: the value, what is wrong with it, and the cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from durable.errors.root import DurableError
from durable.errors.showing import shown


class ConfigurationError(DurableError):
    """A setting or a registration is wrong. The message names the value and the cure."""


class NotRegistered(ConfigurationError):
    """No workflow or activity of this name is registered in this process. `like` are names that may have been meant."""

    def __init__(self, kind: str, name: str, *, like: Sequence[str] = ()) -> None:
        self.kind = kind
        self.name = name
        self.like = tuple(like)
        meant = f" Registered is {' or '.join(like)}." if like else ""
        super().__init__(
            f"No {kind} named {name!r} is registered in this process.{meant} Define it in a module called "
            "`workflows` or `activities` of an installed app, or import the module from AppConfig.ready()."
        )


class AlreadyRegistered(ConfigurationError):
    """Two functions have the same registered name."""

    def __init__(self, kind: str, name: str, first: str, second: str) -> None:
        self.kind = kind
        self.name = name
        self.first = first
        self.second = second
        super().__init__(
            f"{first} and {second} have the same {kind} name, {name!r}. Give one of them another name with `name=`."
        )


class UsageError(DurableError):
    """A call in a place where it cannot work."""


class OutsideWorkflow(UsageError):
    """A durable call was made outside the workflow's own turn."""

    def __init__(self, call: str, advice: str) -> None:
        self.call = call
        super().__init__(f"{call} works only inside a running workflow. {advice}")


class NobodyListens(UsageError):
    """A signal was sent to a single activity: it has no code that could ever wait for one."""

    def __init__(self, workflow_id: Any) -> None:
        self.workflow_id = workflow_id
        super().__init__(
            f"{workflow_id} is a single activity, which has no code that could wait for a signal. Signals are for "
            "workflows; pass an activity what it needs as arguments."
        )


class OutsideActivity(UsageError):
    """A call that only a running activity can make was made elsewhere."""

    def __init__(self, call: str) -> None:
        self.call = call
        super().__init__(
            f"{call} works only inside a running activity, in the thread or task that the worker started. "
            "Pass threads of your own what they need as an argument."
        )


class InsideWorkflow(UsageError):
    """A call with side effects was made inside workflow code, where every replay would repeat it."""

    def __init__(self, call: str, advice: str) -> None:
        self.call = call
        super().__init__(f"{call} cannot be used inside workflow code. {advice}")


class InsideTransaction(UsageError):
    """A result was awaited inside an open transaction: the workflow cannot begin before the commit."""

    def __init__(self, workflow_id: Any) -> None:
        self.workflow_id = workflow_id
        super().__init__(
            f"The result of workflow {workflow_id} cannot arrive while this transaction is open: no worker can claim "
            "it before the commit. Leave the `atomic` block first."
        )


class ArgumentsMismatch(UsageError, TypeError):
    """The arguments do not fit the handler's signature."""

    def __init__(self, name: str, signature: str, problem: str) -> None:
        self.name = name
        self.signature = signature
        self.problem = problem
        super().__init__(f"{name}{signature} cannot be called like this: {problem}.")


class OptionInvalid(UsageError, ValueError):
    """An option of a call, such as `priority` or `start_at`, has a value that is not allowed."""

    def __init__(self, option: str, value: Any, wanted: str) -> None:
        self.option = option
        self.value = value
        self.wanted = wanted
        super().__init__(f"{option}={shown(value)} is not allowed: {option} is {wanted}.")


class PayloadError(DurableError, ValueError):
    """A value cannot be stored as JSON. `path` leads to it, as in `items[3].price`."""

    def __init__(self, path: str, problem: str, cure: str) -> None:
        self.path = path
        self.problem = problem
        self.cure = cure
        super().__init__(f"{path}: {problem}. {cure}")


class PayloadTooLarge(PayloadError):
    """The encoded value is larger than `MAX_PAYLOAD_BYTES`."""

    def __init__(self, path: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            path,
            f"{size:,} bytes are more than the limit of {limit:,}",
            "Store the data elsewhere and pass its key, or raise DURABLE['MAX_PAYLOAD_BYTES'].",
        )


class PayloadNotEncrypted(PayloadError):
    """A payload was stored without encryption, and the codec reads encrypted ones only."""

    def __init__(self, birthplace: Any) -> None:
        self.birthplace = birthplace
        super().__init__(
            str(birthplace),
            "it was stored without encryption",
            "If it was written before encryption was turned on, set DURABLE['READ_UNENCRYPTED'] until "
            "`manage.py durable reencrypt` has finished; otherwise find out who wrote it.",
        )


class EncryptionKeyUnknown(PayloadError):
    """A payload was encrypted with a key that this process lacks. Nothing is lost: put the key back."""

    def __init__(self, birthplace: Any, key_id: str, known: tuple[str, ...]) -> None:
        self.birthplace = birthplace
        self.key_id = key_id
        self.known = known
        super().__init__(
            str(birthplace),
            f"it is encrypted with the key {shown(key_id)}, and the keys here are {', '.join(known)}",
            "Put that key back into DURABLE['ENCRYPTION_KEYS'] of every process, after the first one, which writes.",
        )


class PayloadMoved(PayloadError):
    """An encrypted payload does not belong where it is stored: it was copied from another place, or changed."""

    def __init__(self, birthplace: Any, key_id: str) -> None:
        self.birthplace = birthplace
        self.key_id = key_id
        super().__init__(
            str(birthplace),
            f"it was not encrypted for this place with the key {shown(key_id)}",
            "It was copied from another workflow or place, or changed, or two keys have the same id. Restore the "
            "original.",
        )


class KeyInvalid(DurableError, ValueError):
    """A key, signal name or queue name is empty, too long, or not storable text."""

    def __init__(self, what: str, value: Any, problem: str) -> None:
        self.what = what
        self.value = value
        super().__init__(f"{what} {shown(value)}: {problem}.")


class KeyTaken(DurableError):
    """A live workflow of this type already holds the business key; `holder` is its id.

    Raised to a parent whose child was refused, it has the number of the call as `ordinal`.
    """

    def __init__(self, workflow_type: str, key: str, holder: Any, *, ordinal: int | None = None) -> None:
        self.workflow_type = workflow_type
        self.key = key
        self.holder = holder
        self.ordinal = ordinal
        advice = 'Use on_conflict="existing" to get its handle.' if ordinal is None else "The child was not started."
        super().__init__(
            f"The key {key!r} of {workflow_type} belongs to workflow {holder}, which is still live. {advice}"
        )


class TransactionLeftOpen(DurableError):
    """An activity ended while a transaction that it had begun was still open. It was rolled back."""

    def __init__(self, activity: str, aliases: list[str]) -> None:
        self.activity = activity
        self.aliases = aliases
        super().__init__(
            f"{activity} left a transaction open on {', '.join(aliases)}; it was rolled back and the connection closed."
            " End each transaction inside the activity: use `with transaction.atomic():`."
        )


class TransactionSpoilt(DurableError):
    """A transactional activity returned, but its transaction can no longer be committed with its completion."""

    def __init__(self, activity: str, what: str) -> None:
        self.activity = activity
        self.what = what
        super().__init__(
            f"{activity} {what}, so its writes and its completion cannot be committed together. Put statements that "
            "may fail or be undone into `with transaction.atomic():`, and do not change the transaction otherwise."
        )

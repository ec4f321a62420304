"""Errors of configuration and of calls: what was given, what is wrong with it, and the cure."""

from __future__ import annotations

from typing import Any

from durable.errors.root import DurableError
from durable.errors.showing import shown


class ConfigurationError(DurableError):
    """A setting or a registration is wrong. The message names the value and the cure."""


class NotRegistered(ConfigurationError):
    """No workflow or activity of this name is registered in this process."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(
            f"No {kind} named {name!r} is registered in this process. Define it in a module called "
            "`workflows` or `activities` of an installed app, or import the module from AppConfig.ready()."
        )


class AlreadyRegistered(ConfigurationError):
    """Two functions claim one registered name."""

    def __init__(self, kind: str, name: str, first: str, second: str) -> None:
        self.kind = kind
        self.name = name
        self.first = first
        self.second = second
        super().__init__(
            f"The {kind} name {name!r} is claimed by {first} and by {second}. "
            "Give one of them another name with `name=`."
        )


class UsageError(DurableError):
    """A call in a place where it can not work."""


class OutsideWorkflow(UsageError):
    """A durable call was made outside the workflow's own turn."""

    def __init__(self, call: str, advice: str) -> None:
        self.call = call
        super().__init__(f"{call} works inside a running workflow only. {advice}")


class NobodyListens(UsageError):
    """A signal was sent to a single activity: it has no code that could ever wait for one."""

    def __init__(self, workflow_id: Any) -> None:
        self.workflow_id = workflow_id
        super().__init__(
            f"{workflow_id} is a single activity, which has no code that could wait for a signal. Signals are for "
            "workflows; what an activity needs to know belongs in its arguments."
        )


class OutsideActivity(UsageError):
    """A call that only a running activity can make was made elsewhere."""

    def __init__(self, call: str) -> None:
        self.call = call
        super().__init__(
            f"{call} works inside a running activity only, in the thread or task that the worker started. "
            "A thread of your own gets what it needs as an argument."
        )


class InsideWorkflow(UsageError):
    """A call with effects was made inside workflow code, where it would run again at every replay."""

    def __init__(self, call: str, advice: str) -> None:
        self.call = call
        super().__init__(f"{call} can not be used inside workflow code. {advice}")


class InsideTransaction(UsageError):
    """A result was awaited inside an open transaction, which hides it until the commit."""

    def __init__(self, workflow_id: Any) -> None:
        self.workflow_id = workflow_id
        super().__init__(
            f"The result of workflow {workflow_id} can not arrive while this transaction is open: nothing of it is "
            "claimable before the commit. Leave the `atomic` block first."
        )


class ArgumentsMismatch(UsageError, TypeError):
    """The arguments do not fit the handler's signature."""

    def __init__(self, name: str, signature: str, problem: str) -> None:
        self.name = name
        self.signature = signature
        self.problem = problem
        super().__init__(f"{name}{signature} can not be called like this: {problem}.")


class OptionInvalid(UsageError, ValueError):
    """An option of a call, such as `priority` or `start_at`, has a value that can not be meant."""

    def __init__(self, option: str, value: Any, wanted: str) -> None:
        self.option = option
        self.value = value
        self.wanted = wanted
        super().__init__(f"{option}={shown(value)} is not possible: {option} is {wanted}.")


class PayloadError(DurableError, ValueError):
    """A value that can not be carried as JSON. `path` leads to it, as in `items[3].price`."""

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
            "`manage.py durable reencrypt` is through; else somebody put it there.",
        )


class EncryptionKeyUnknown(PayloadError):
    """A payload was encrypted under a key that this process does not have. Nothing is lost: give it the key."""

    def __init__(self, birthplace: Any, key_id: str, known: tuple[str, ...]) -> None:
        self.birthplace = birthplace
        self.key_id = key_id
        self.known = known
        super().__init__(
            str(birthplace),
            f"it is encrypted under the key {shown(key_id)}, and the keys here are {', '.join(known)}",
            "Put that key back into DURABLE['ENCRYPTION_KEYS'] of every process, behind the one that writes.",
        )


class PayloadMoved(PayloadError):
    """An encrypted payload does not belong where it stands: it was copied from another place, or changed."""

    def __init__(self, birthplace: Any, key_id: str) -> None:
        self.birthplace = birthplace
        self.key_id = key_id
        super().__init__(
            str(birthplace),
            f"what is stored was not encrypted for this place under the key {shown(key_id)}",
            "It was copied from another workflow or place, or changed, or two keys bear one id. Restore what stood "
            "there.",
        )


class KeyInvalid(DurableError, ValueError):
    """A key, signal name or queue name is empty, too long, or not storable text."""

    def __init__(self, what: str, value: Any, problem: str) -> None:
        self.what = what
        self.value = value
        super().__init__(f"{what} {shown(value)}: {problem}.")


class KeyTaken(DurableError):
    """A live workflow of this type already holds the business key; `holder` is its id."""

    def __init__(self, workflow_type: str, key: str, holder: Any) -> None:
        self.workflow_type = workflow_type
        self.key = key
        self.holder = holder
        super().__init__(
            f"The key {key!r} of {workflow_type} is held by workflow {holder}, which is still live. "
            'Use on_conflict="existing" to get a handle of the holder.'
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
    """A transactional activity returned, but its transaction can not be committed with its completion any more."""

    def __init__(self, activity: str, what: str) -> None:
        self.activity = activity
        self.what = what
        super().__init__(
            f"{activity} {what}, so that its writes and its completion can not be committed together. "
            "Put what may fail, or be undone, into `with transaction.atomic():`, and leave the rest of it alone."
        )

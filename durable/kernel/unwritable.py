"""A value that can not be carried, while it is still on its way out of the converters: the path is not known yet."""

from __future__ import annotations

from typing import Any

ANNOTATE = "Annotate it with its type, so that it can be written and read back."
USE_PLAIN = (
    "Use a dataclass, NamedTuple, TypedDict, Enum, or a plain type (str, int, float, bool, Decimal, UUID, bytes, "
    "datetime, date, time, timedelta, list, tuple, set, dict)."
)


class Refusal(Exception):
    """Collects the steps from the value outwards. `path` joins them behind the name where it all began."""

    def __init__(self, problem: str, cure: str = USE_PLAIN) -> None:
        self.problem = problem
        self.cure = cure
        self.steps: list[str] = []
        super().__init__(problem)

    def path(self, start: str) -> str:
        """The path from `start` to the value, as in `items[3].price`."""
        return start + "".join(reversed(self.steps))


def step(key: Any) -> str:
    """One step of a path into a mapping."""
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    return f"[{short(key)}]"


def short(value: Any) -> str:
    """A value for a message: its guarded repr, of bounded length."""
    try:
        shown = repr(value)
    except Exception as broken:  # noqa: BLE001 - repr is the user's code
        shown = f"<repr() raised {type(broken).__qualname__}>"
    shown = shown.encode("utf-8", "backslashreplace").decode("utf-8")
    return shown if len(shown) <= 80 else f"{shown[:60]}…"


def a(name: str) -> str:
    """A name with its article, by its first letter: a list, an int. Those with a U mostly sound like UUID."""
    return f"{'an' if name[:1] in 'AEIOaeio' else 'a'} {name}"


def mismatch(value: Any, wanted: str) -> Refusal:
    """The value is not what its annotation says."""
    special = _special(value)
    if special is not None:
        return special
    return Refusal(
        f"{short(value)} is {a(type(value).__name__)}, not {wanted}", "Pass such a value, or change the annotation."
    )


def unknown(value: Any, cure: str) -> Refusal:
    """The value is of a type that JSON can not carry."""
    special = _special(value)
    if special is not None:
        return special
    return Refusal(f"{short(value)} is {a(type(value).__qualname__)}, which JSON can not carry by itself", cure)


def _special(value: Any) -> Refusal | None:
    kind = type(value)
    for ancestor in kind.__mro__:
        origin = (ancestor.__module__, ancestor.__name__)
        if origin == ("django.db.models.base", "Model"):
            return Refusal(
                f"this is an instance of the model {kind.__name__}",
                "Pass its key (`.pk`) and load the row in the handler, where it is up to date.",
            )
        if origin in (("django.db.models.query", "QuerySet"), ("django.db.models.manager", "BaseManager")):
            return Refusal(
                f"this is {a(kind.__name__)}", "Pass a list of keys (`list(rows.values_list('pk', flat=True))`)."
            )
    return None

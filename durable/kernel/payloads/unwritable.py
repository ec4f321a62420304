"""A value that cannot be written or read, while the error is still on its way out of the converters: the path is not
known yet.

An error of writing shows the value, to the caller who passed it. An error of reading names only path and type: it goes
into logs, reasons and reports, and the stored value may be secret.
"""

from __future__ import annotations

from typing import Any

from durable.errors.hiding import hiding
from durable.errors.showing import class_name, clean, full_name, is_a, real_mro, shown
from durable.kernel.texts.failure import for_log, interrupts, sentence

ANNOTATE = "Annotate it with its type, so that it can be written and read back."
FIT = "Make the annotation fit what is stored, or have it sent again."
USE_PLAIN = (
    "Use a dataclass, NamedTuple, TypedDict, Enum, or a plain type (str, int, float, bool, Decimal, UUID, bytes, "
    "datetime, date, time, timedelta, list, tuple, set, dict)."
)


class Refusal(Exception):
    """Collects the steps from the value outwards. `path` joins them behind the name where it all began. `cause` is what
    the value's own code raised, if it did. `unquoted` is the problem without the value, if that is quoted in it.
    """

    def __init__(
        self, problem: str, cure: str = USE_PLAIN, *, cause: BaseException | None = None, unquoted: str = ""
    ) -> None:
        self.problem = problem
        self.unquoted = unquoted
        self.cure = cure
        self.cause = cause
        self.steps: list[str] = []
        super().__init__(problem)

    def unquote(self) -> None:
        """Mentions only the class of the value."""
        if self.unquoted:
            self.problem, self.cause = self.unquoted, None

    def hide(self, start: str) -> None:
        """`unquote`, if the way from `start` leads through a field that is hidden; and end the way there: what lies
        further in may be keys of a mapping, which are data.
        """
        way = [start, *reversed(self.steps)]
        for place, step in enumerate(way):
            if hiding.is_named_in(step):
                self.unquote()
                self.steps = way[1 : place + 1][::-1]
                return

    def path(self, start: str) -> str:
        """The path from `start` to the value, as in `items[3].price`."""
        return start + "".join(reversed(self.steps))


def refusal_of(error: BaseException) -> Refusal:
    """What an error means that came while a value was read: itself, or a refusal of a value whose code raised it.

    Raises it again when it says nothing about the value: no memory, no stack, or Ctrl-C. Whether the stack was the
    caller's fault is for `endless` to say, which stands where the reading began.
    """
    if type(error) is Refusal:
        return error
    if is_a(error, MemoryError, RecursionError) or interrupts(error):
        raise error
    return Refusal(
        f"reading it raised {sentence(error)}",
        "Pass plain values, or make its own methods and properties raise nothing.",
        cause=for_log(error),
        unquoted=f"reading it raised {clean(class_name(type(error)))}",
    )


def endless(error: BaseException) -> BaseException:
    """The same, or a refusal in place of a `RecursionError` of one who had all the stack there is (`with_room`)."""
    if not is_a(error, RecursionError):
        return error
    return Refusal("its own code calls itself without end", "Pass plain values.", cause=for_log(error))


def unreadable(error: BaseException) -> Refusal:
    """What an error means that came while stored data was read. Of other errors than refusals it names the class alone:
    their text may quote what is stored. Raises as `refusal_of` does.
    """
    refusal = refusal_of(error)
    if refusal is not error:
        refusal.problem = f"reading it raised {clean(class_name(type(error)))}"
        refusal.cure = "Let its class accept what is stored, and raise nothing."
    return refusal


def read_at(place: str, error: BaseException) -> Refusal:
    """`unreadable`, one step further out."""
    refusal = unreadable(error)
    refusal.steps.append(place)
    return refusal


def at(place: str, error: BaseException) -> Refusal:
    """The same, one step further out: `place` leads to the value from what holds it."""
    refusal = refusal_of(error)
    refusal.steps.append(place)
    return refusal


def step(key: Any) -> str:
    """One step of a path into a mapping."""
    if type(key) is str and key.isidentifier():
        return f".{key}"
    return f"[{short(key)}]"


def entry(number: int) -> str:
    """One step of a path into a stored mapping: its keys are data as well, so they are counted and not shown."""
    return f"[key no. {number}]"


def short(value: Any) -> str:
    """A value for a message: its guarded repr, of bounded length."""
    return shown(value)


def a(name: str) -> str:
    """A name with its article, by its first letter: a list, an int. Names with U get "a", as in UUID."""
    return f"{'an' if name[:1] in 'AEIOaeio' else 'a'} {name}"


def mismatch(value: Any, wanted: str) -> Refusal:
    """The value is not what its annotation says."""
    special = _special(value)
    if special is not None:
        return special
    its_class = a(class_name(type(value)))
    return Refusal(
        f"{short(value)} is {its_class}, not {wanted}",
        "Pass such a value, or change the annotation.",
        unquoted=f"the value, which is hidden, is {its_class}, not {wanted}",
    )


def misfit(data: Any, wanted: str) -> Refusal:
    """What is stored is not what its annotation says."""
    return Refusal(f"the stored {class_name(type(data))} is not {wanted}", FIT)


def unknown(value: Any, cure: str) -> Refusal:
    """The value is of a type that JSON cannot carry."""
    special = _special(value)
    if special is not None:
        return special
    problem = f"is {a(class_name(type(value)))}, which JSON cannot carry by itself"
    return Refusal(f"{short(value)} {problem}", cure, unquoted=f"the value, which is hidden, {problem}")


def _special(value: Any) -> Refusal | None:
    kind = type(value)
    for origin in map(full_name, real_mro(kind)):
        if origin == "django.db.models.base.Model":
            return Refusal(
                f"this is an instance of the model {class_name(kind)}",
                "Pass its key (`.pk`) and load the row in the handler, where it is up to date.",
            )
        if origin in ("django.db.models.query.QuerySet", "django.db.models.manager.BaseManager"):
            return Refusal(
                f"this is {a(class_name(kind))}", "Pass a list of keys (`list(rows.values_list('pk', flat=True))`)."
            )
    return None


def is_lazy(value: Any) -> bool:
    """Whether this is a lazy value, such as Django's translated texts."""
    return any(full_name(ancestor) in _LAZY for ancestor in real_mro(type(value)))


def worked_out(value: Any) -> Any:
    """The current value of a lazy value: a translated text in the active language. Other values are returned unchanged.

    Raises what evaluating it raises.
    """
    for _ in range(_LAZIEST):
        if not is_lazy(value):
            break
        value = _cast(value)
    return value


_LAZY = frozenset({"django.utils.functional.Promise", "django.utils.functional.LazyObject"})
_LAZIEST = 10


def _cast(value: Any) -> Any:
    """One step, by the ways in which the two kinds of lazy objects are copied."""
    kind = type(value)
    if any(full_name(ancestor) == "django.utils.functional.Promise" for ancestor in real_mro(kind)):
        copied: Any = kind.__reduce__(value)  # type: ignore[call-arg]  # of the class: an instance may bring its own
        function, args, kwargs = copied[1][:3]
        made = function(*args, **kwargs)
        if hasattr(type(made), "_get_number_value"):
            raise Refusal("this text awaits the number that decides about its plural", "Fill it in: `text % values`.")
        return made
    if type(value.__dict__.get("_wrapped")) is object:  # Django's mark of one that was not used yet
        kind._setup(value)
    return value.__dict__["_wrapped"]

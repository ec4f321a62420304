"""Objects that fight back: errors and values whose every method raises what ends programs."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar


class Own(BaseException):
    """An end of the user's own."""


ENDS: tuple[type[BaseException], ...] = (SystemExit, KeyboardInterrupt, GeneratorExit, Own, asyncio.CancelledError)


def _raiser(end: type[BaseException]) -> Callable[..., Any]:
    def raises(*args: Any, **kwargs: Any) -> Any:
        raise end("hostile")

    return raises


def silent(end: type[BaseException], base: type[BaseException] = Exception) -> type[BaseException]:
    """A class of errors whose `str` and `repr` raise this end."""
    return type(f"Silent{end.__name__}", (base,), {"__str__": _raiser(end), "__repr__": _raiser(end)})


class Nameless(Exception):
    """Its module is no text."""


Nameless.__module__ = None  # type: ignore[assignment]


class Homeless(Exception):
    """Its module is an object that raises."""


Homeless.__module__ = types.SimpleNamespace()  # type: ignore[assignment]


class Meta(type):
    """A metaclass that raises for every question about a class of its."""

    __getattribute__ = __eq__ = _raiser(SystemExit)
    __hash__ = type.__hash__
    # Not `__subclasscheck__`: the interpreter asks it when such an error is raised, so it would never be.


class OfMeta(Exception, metaclass=Meta):
    """An error of such a class."""


class Liar(Exception):
    """Nothing can be asked of it: not its class, its truth, its causes, its traceback or its notes."""

    __class__ = property(_raiser(SystemExit))
    __bool__ = _raiser(SystemExit)
    __eq__ = _raiser(SystemExit)
    __hash__ = _raiser(SystemExit)
    __cause__ = property(_raiser(SystemExit))
    __context__ = property(_raiser(SystemExit))
    __suppress_context__ = property(_raiser(SystemExit))
    __traceback__ = property(_raiser(SystemExit))
    __notes__ = property(_raiser(SystemExit))
    __str__ = _raiser(SystemExit)
    __repr__ = _raiser(SystemExit)

    def __len__(self) -> int:
        raise SystemExit


class Falsy(SystemExit):
    """An exit that is not true."""

    def __bool__(self) -> bool:
        return False


class Endless(Exception):
    """Each has a cause, which has a cause."""

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        return Endless()

    @property
    def __context__(self) -> BaseException:  # type: ignore[override]
        return Endless()


class Sly(str):
    """A text whose methods raise."""

    __slots__ = ()
    __contains__ = __len__ = __getitem__ = __format__ = __eq__ = __iter__ = _raiser(SystemExit)
    __add__ = encode = replace = split = join = startswith = _raiser(SystemExit)
    __hash__ = str.__hash__


class Slippery(Exception):
    """Its text is a subclass of text."""

    def __str__(self) -> str:
        return Sly("slippery")


class Group(ExceptionGroup):
    """A group that raises for its members and its text."""

    exceptions = property(_raiser(SystemExit))
    message = property(_raiser(SystemExit))
    __str__ = _raiser(SystemExit)


def _with_notes() -> BaseException:
    error = ValueError("noted")
    error.__notes__ = [silent(SystemExit)(), Sly("a"), 1, *["n"] * 10_000]  # type: ignore[list-item]
    return error


def deep(levels: int = 20_000) -> BaseException:
    """An error at the end of a long chain of causes."""
    error = ValueError("at the bottom")
    for _ in range(levels):
        above = ValueError("above")
        above.__cause__ = error
        error = above
    return error


def _looped() -> BaseException:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def _nested() -> BaseException:
    error: Exception = silent(SystemExit)()  # type: ignore[assignment]
    for _ in range(200):
        error = Group("nested", [error, Liar(), ValueError("beside")])
    return error


def _from_hostile_source() -> BaseException:
    class Loader:
        get_source = _raiser(SystemExit)

    names: dict[str, Any] = {"__name__": "from_nowhere", "__loader__": Loader()}
    exec(compile("def fail():\n    raise ValueError('from nowhere')", "/from/nowhere.py", "exec"), names)
    try:
        names["fail"]()
    except ValueError as error:
        return error
    raise AssertionError


ERRORS: dict[str, Callable[[], BaseException]] = {
    **{f"raises_{end.__name__}": end for end in ENDS},
    **{f"silent_{end.__name__}": silent(end) for end in ENDS},
    **{f"silent_exit_{end.__name__}": silent(end, SystemExit) for end in ENDS[:3]},
    "nameless": Nameless,
    "homeless": Homeless,
    "of_meta": OfMeta,
    "liar": Liar,
    "falsy": Falsy,
    "endless": Endless,
    "slippery": Slippery,
    "group": lambda: Group("group", [silent(SystemExit)(), Liar()]),  # type: ignore[list-item]
    "nested": _nested,
    "notes": _with_notes,
    "deep": deep,
    "looped": _looped,
    "source": _from_hostile_source,
    "large": lambda: ValueError("x" * 30_000_000),
    "unstorable": lambda: ValueError("a\0b\ud800c" * 20_000),
}
"""What handlers and workflows raise. Each call makes another one."""


def made(kind: str) -> BaseException:
    """One of them."""
    return ERRORS[kind]()


class Thing:
    """A value that JSON can not carry, and that raises at every touch."""

    __class__ = property(_raiser(SystemExit))
    __repr__ = __str__ = __iter__ = __bool__ = __eq__ = __getattr__ = _raiser(SystemExit)
    __hash__ = _raiser(SystemExit)


@dataclass
class Record:
    """A record with a field that raises when it is read."""

    name: str
    price: int

    end: type[BaseException] = SystemExit

    def __getattribute__(self, name: str) -> Any:
        if name == "price":
            raise object.__getattribute__(self, "end")("no price")
        return object.__getattribute__(self, name)


@dataclass
class Reborn:
    """A record that is written, and then refuses to come back."""

    name: str

    refuses: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.refuses:
            raise SystemExit("not again")


class Dots(dict[str, Any]):
    """A mapping that raises when it is walked through."""

    items = _raiser(SystemExit)


class Row(list[Any]):
    """A list that raises when it is walked through."""

    __iter__ = _raiser(SystemExit)


VALUES: dict[str, Callable[[], Any]] = {
    "thing": Thing,
    "things": lambda: [1, {"deep": (Thing(),)}],
    "key": lambda: {Sly("fine"): 1, 5: Thing()},
    "dots": lambda: {"rows": Dots(a=1)},
    "row": lambda: Row([1]),
    "error": Liar,
}
"""What is passed where plain values belong. None of them can be carried."""

"""Copies of errors for logging: the same names, texts and places, but without the values that the code had.

Renderers of tracebacks print local variables, some without being asked; the engine's and the handlers' hold payloads.
They also print messages as they are, line breaks included. A stand-in has frames without variables, and texts in which
invisible characters are escaped.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, Final

from durable.errors.showing import clean, descends, full_name, said, visible
from durable.kernel.limits import MAX_FAILURE_MESSAGE
from durable.kernel.texts import tracebacks

_MOST_TOLD: Final = 10
_MOST_MEMBERS: Final = 15
_MOST_FRAMES: Final = 200
_DEEPEST_GROUP: Final = 5

_UNPLACED: Final = 0x80 | (15 << 3)
"""Begins an entry of a table of positions that says nothing of up to eight instructions."""


def stand_in(error: BaseException, *, depth: int = 0) -> BaseException:
    """What is said in place of an error, with those that it came from. No code of the error's class runs but `str`."""
    chain = [error]
    former = tracebacks.former(error)
    while former is not None and len(chain) < _MOST_TOLD and all(former is not link for link in chain):
        chain.append(former)
        former = tracebacks.former(former)
    made: BaseException | None = None
    for at in reversed(range(len(chain))):
        link = _alone(chain[at], depth)
        if made is not None and tracebacks.cause(chain[at]) is chain[at + 1]:
            link.__cause__ = made
        else:
            link.__context__ = made
        made = link
    assert made is not None
    return made


def _alone(error: BaseException, depth: int) -> BaseException:
    message = visible(said(error, MAX_FAILURE_MESSAGE, what="error"))
    members: list[Any] = []
    if descends(type(error), BaseExceptionGroup) and depth < _DEEPEST_GROUP:
        members = [stand_in(member, depth=depth + 1) for member in tracebacks.members(error)[:_MOST_MEMBERS]]
    made = _named(type(error), message, members)
    for note in tracebacks.notes(error):
        made.add_note(note if type(note) is tracebacks.Kept else visible(note))
    return made.with_traceback(bare(tracebacks.readable(error)))


def _named(kind: type[BaseException], message: str, members: list[Any]) -> BaseException:
    module, _, name = clean(full_name(kind)).rpartition(".")
    base: Any = ExceptionGroup if members else Exception
    own = {"__module__": module or "builtins", "__qualname__": name, "__str__": lambda self: message}
    made: Any = type(name, (base,), own)
    instance: BaseException = made(message, members) if members else made(message)
    return instance


def bare(trace: TracebackType | None) -> TracebackType | None:
    """The same places in the same order, in frames that hold nothing. Of many the last ones."""
    places: deque[TracebackType] = deque(maxlen=_MOST_FRAMES)
    while trace is not None:
        places.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    for place in reversed(places):
        made = TracebackType(made, _frame(place.tb_frame), 0, place.tb_lineno)
    return made


def _here() -> FrameType:
    return sys._getframe()


_CODE: Final[CodeType] = _here.__code__
_UNITS: Final = len(_CODE.co_code) // 2
_NOWHERE: Final = bytes(_UNPLACED | (min(8, _UNITS - at) - 1) for at in range(0, _UNITS, 8))


def _frame(like: FrameType) -> FrameType:
    """A frame of a function of the same name in the same file, which has ended and had no variables."""
    code = _CODE.replace(
        co_filename=like.f_code.co_filename,
        co_name=like.f_code.co_name,
        co_qualname=like.f_code.co_qualname,
        co_firstlineno=like.f_code.co_firstlineno,
        co_linetable=_NOWHERE,
    )
    known: dict[str, Any] = {"sys": sys}
    for name in ("__name__", "__loader__", "__file__"):  # for those who look up the line of source
        if name in like.f_globals:
            known[name] = like.f_globals[name]
    here: Callable[[], FrameType] = FunctionType(code, known)
    return here()

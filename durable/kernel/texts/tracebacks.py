"""An error's traceback as bounded text, without the engine's own frames.

Written here and not by `traceback.TracebackException`, which trusts the error: it follows `__cause__` wherever a
property leads, joins `__module__` whatever it is, and passes on what `str`, notes and loaders of source code raise.
"""

from __future__ import annotations

import itertools
import linecache
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from durable.errors.showing import clean, cut_start, descends, full_name, is_a, said, shown, visible
from durable.kernel.limits import MAX_FAILURE_MESSAGE, MAX_TRACEBACK

_PACKAGE = Path(__file__).resolve().parents[2]
_OURS = tuple(str(_PACKAGE / room) for room in ("kernel", "worker", "flow", "tasks"))

_MOST_ERRORS: Final = 500
_MOST_LINKS: Final = 50
_MOST_FRAMES: Final = 200
_MOST_NOTES: Final = 20
_MOST_MEMBERS: Final = 15
_DEEPEST_GROUP: Final = 10
_LONGEST_LINE: Final = 1_000

_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"

# The slots that the interpreter itself reads. A class can hide them behind properties, and those run its code.
_cause: Callable[[BaseException], BaseException | None] = BaseException.__dict__["__cause__"].__get__
_context: Callable[[BaseException], BaseException | None] = BaseException.__dict__["__context__"].__get__
_suppressed: Callable[[BaseException], bool] = BaseException.__dict__["__suppress_context__"].__get__
_frames_of: Callable[[BaseException], TracebackType | None] = BaseException.__dict__["__traceback__"].__get__
_members: Callable[[BaseException], tuple[BaseException, ...]] = BaseExceptionGroup.__dict__["exceptions"].__get__


def real_traceback(error: BaseException) -> TracebackType | None:
    """Where the error was raised, whatever its class says about it."""
    return _frames_of(error)


def readable(error: BaseException) -> TracebackType | None:
    """The same, for others to print: None where reading the lines of source raises what printing could not stand."""
    trace = first = _frames_of(error)
    asked: set[tuple[str, int]] = set()
    try:
        while trace is not None:
            place = (trace.tb_frame.f_code.co_filename, id(trace.tb_frame.f_globals))
            if place not in asked:
                asked.add(place)
                _line(trace)
            trace = trace.tb_next
    except BaseException:  # noqa: BLE001 - loaders of source code are anybody's
        return None
    return first


def is_readable(error: BaseException) -> bool:
    """Whether others may print the traceback: see `readable`."""
    return _frames_of(error) is readable(error)


def cause(error: BaseException) -> BaseException | None:
    """What the error was raised from, whatever its class says about it."""
    return _cause(error)


def context(error: BaseException) -> BaseException | None:
    """What was being handled when the error was raised, whatever its class says about it."""
    return _context(error)


def members(group: BaseException) -> tuple[BaseException, ...]:
    """The errors of an exception group."""
    return _members(group)


def former(error: BaseException) -> BaseException | None:
    """What the error came from: its cause, or what was being handled when it was raised. None: it was the first."""
    cause = _cause(error)
    return cause if cause is not None or _suppressed(error) else _context(error)


def around(error: BaseException) -> Iterator[BaseException]:
    """The error, and all that it came from, holds, or was raised beside; each once. No code of theirs runs."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += (_cause(part), _context(part))
        if is_a(part, BaseExceptionGroup):
            waiting += _members(part)


class Kept(str):
    """A traceback that was written by `logged`, as the note of what stands for its error."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Manner:
    """How a traceback is written: without these files' frames, and what becomes of the texts of errors."""

    left_out: tuple[str, ...]
    text: Callable[[str], str]


_STORED = _Manner(_OURS, lambda text: text)
_LOGGED = _Manner((), visible)


def written(error: BaseException) -> str:
    """The traceback of an error with those that it came from, as Python prints it. The end is kept of a long one."""
    return cut_start("".join(_story(error, _STORED, depth=0, seen=set())), MAX_TRACEBACK)


def logged(error: BaseException) -> str:
    """The same for a log of plain lines, with the engine's own frames. What the texts of errors and notes hold of line
    breaks and the like is an escape there: a text that anybody may have sent makes no line of its own.
    """
    return cut_start("".join(_story(error, _LOGGED, depth=0, seen=set())), MAX_TRACEBACK).rstrip("\n")


def texts(error: BaseException) -> Iterator[str]:
    """What the error, and all around it, say in words: their messages and notes."""
    for part in itertools.islice(around(error), _MOST_ERRORS):
        yield said(part, MAX_FAILURE_MESSAGE, what="error")
        yield from (note for note in notes(part) if type(note) is not Kept)


def _story(error: BaseException, manner: _Manner, *, depth: int, seen: set[int]) -> Iterator[str]:
    """The errors of a chain, oldest first."""
    chain: list[tuple[BaseException, str]] = []
    part: BaseException | None = error
    while part is not None and id(part) not in seen and len(chain) < _MOST_LINKS:
        seen.add(id(part))
        chain.append((part, "" if not chain else _CAUSED if _cause(chain[-1][0]) is part else _DURING))
        part = former(part)
    if part is not None and id(part) not in seen:
        yield f"(earlier errors of a chain of more than {_MOST_LINKS} are left out)\n"
    for link, then in reversed(chain):
        yield from _single(link, manner, depth=depth, seen=seen)
        yield then


def _single(error: BaseException, manner: _Manner, *, depth: int, seen: set[int]) -> Iterator[str]:
    frames = _frames(_frames_of(error), manner.left_out)
    if frames:
        yield "Traceback (most recent call last):\n"
        yield from frames
    message = manner.text(said(error, MAX_FAILURE_MESSAGE, what="error"))
    name = clean(full_name(type(error)))
    yield f"{name}: {message}\n" if message else f"{name}\n"
    yield from (f"{note if type(note) is Kept else manner.text(note)}\n" for note in notes(error))
    if descends(type(error), BaseExceptionGroup):
        yield from _group(_members(error), manner, depth=depth, seen=seen)


def _group(members: tuple[BaseException, ...], manner: _Manner, *, depth: int, seen: set[int]) -> Iterator[str]:
    if depth >= _DEEPEST_GROUP:
        yield "  (groups nested deeper than this are left out)\n"
        return
    for number, member in enumerate(members[:_MOST_MEMBERS], start=1):
        if len(seen) > _MOST_ERRORS:
            yield "  (more errors are left out)\n"
            return
        yield f"  ---------------- {number} ----------------\n"
        for line in "".join(_story(member, manner, depth=depth + 1, seen=seen)).splitlines(keepends=True):
            yield f"    {line}"
    if len(members) > _MOST_MEMBERS:
        yield f"  ({len(members) - _MOST_MEMBERS:,} more errors of this group)\n"


def notes(error: BaseException) -> Iterator[str]:
    """The notes that were added to an error, storable and cut."""
    try:
        added: Any = getattr(error, "__notes__", None)
    except BaseException:  # noqa: BLE001 - a property of the user's
        return
    if added is None:
        return
    if not descends(type(added), list, tuple):
        yield shown(added)
        return
    read = list.__iter__ if descends(type(added), list) else tuple.__iter__
    for note in itertools.islice(read(added), _MOST_NOTES):
        yield note if type(note) is Kept else said(note, MAX_FAILURE_MESSAGE, what="note")


def _frames(trace: TracebackType | None, without: tuple[str, ...]) -> list[str]:
    kept: deque[TracebackType] = deque(maxlen=_MOST_FRAMES)
    number = 0
    while trace is not None:
        if not without or not trace.tb_frame.f_code.co_filename.startswith(without):
            kept.append(trace)
            number += 1
        trace = trace.tb_next
    left_out = [f"  ({number - len(kept):,} earlier calls are left out)\n"] if number > len(kept) else []
    return left_out + traceback.StackSummary.from_list([_place(entry) for entry in kept]).format()


def _place(trace: TracebackType) -> traceback.FrameSummary:
    try:
        return _summary(trace)
    except BaseException:  # noqa: BLE001 - loaders of source code are anybody's: the place alone will do
        code = trace.tb_frame.f_code
        return traceback.FrameSummary(code.co_filename, trace.tb_lineno, code.co_name, lookup_line=False, line="")


def _summary(trace: TracebackType) -> traceback.FrameSummary:
    """One call with its line of source, and the place in the line."""
    code = trace.tb_frame.f_code
    file, number = code.co_filename, trace.tb_lineno
    line = _line(trace)
    if len(line) > _LONGEST_LINE:
        return traceback.FrameSummary(file, number, code.co_name, lookup_line=False, line=f"{line[:_LONGEST_LINE]}…")
    _, end, column, end_column = next(
        itertools.islice(code.co_positions(), trace.tb_lasti // 2, None), (None, None, None, None)
    )
    return traceback.FrameSummary(
        file, number, code.co_name, lookup_line=False, end_lineno=end, colno=column, end_colno=end_column
    )


def _line(trace: TracebackType) -> str:
    file = trace.tb_frame.f_code.co_filename
    linecache.checkcache(file)
    linecache.lazycache(file, trace.tb_frame.f_globals)
    return linecache.getline(file, trace.tb_lineno)

"""Errors become text at once, and stay text: nothing here, or anywhere, calls an exception's class again.

The only place that inspects errors of unknown origin. Whatever the error's own code raises stays in here, even
`SystemExit`.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

from durable.errors.showing import class_name, clean, full_name, is_a, said
from durable.kernel.limits import MAX_FAILURE_MESSAGE
from durable.kernel.texts import tracebacks
from durable.outcomes import Failure

_PACKAGE = f"{Path(__file__).resolve().parents[2]}/"
_LONGEST_SENTENCE: Final = 500
_MOST_TOLD: Final = 10
_MOST_PARTS: Final = 100


def describe(error: BaseException) -> Failure:
    """An error as storable text: its type's qualified name, its message, and its traceback without the engine's frames.

    Never raises because of the error, and takes bounded time: if its `str` raises, even `SystemExit`, the text says so.
    NUL and lone surrogates, which no database takes, are written as escapes. Long texts are cut (`MAX_FAILURE_MESSAGE`,
    `MAX_TRACEBACK`).
    """
    message = said(error, MAX_FAILURE_MESSAGE, what="error")
    try:
        trace = tracebacks.written(error)
    except BaseException as broken:  # noqa: BLE001 - no memory, no stack: what is known of the error is stored without
        trace = f"<the traceback could not be written: {type_name(type(broken))}>"
    return Failure(type=type_name(type(error)), message=message, traceback=trace)


def type_name(error: type[BaseException]) -> str:
    """The qualified name of an error's class; built-in ones go without their module."""
    return clean(full_name(error))


def sentence(error: BaseException) -> str:
    """Type and message in one bounded line, for logs and for sentences of our own."""
    message = " ".join(said(error, _LONGEST_SENTENCE, what="error").split())
    name = clean(class_name(type(error)))
    return f"{name}: {message}" if message else name


def for_log(error: BaseException) -> BaseException:
    """The `exc_info` of an error that user code raised: a stand-in of the same name, text, frames and causes.

    Formatters and reporters call `str` on what they get, outside of anything that could catch what it raises.
    """
    chain = [error]
    former = tracebacks.former(error)
    while former is not None and len(chain) < _MOST_TOLD and all(former is not link for link in chain):
        chain.append(former)
        former = tracebacks.former(former)
    outermost: BaseException | None = None
    for link in reversed(chain):
        stand_in = _stand_in(link)
        stand_in.__cause__ = outermost
        outermost = stand_in
    assert outermost is not None
    return outermost


def without_frames(error: BaseException) -> BaseException:
    """A stand-in of the same name and text that keeps nothing of the error alive; its traceback, as text, is a note."""
    stand_in = _named(error, said(error, MAX_FAILURE_MESSAGE, what="error"))
    try:
        trace = tracebacks.logged(error)
    except BaseException as broken:  # noqa: BLE001 - as in `describe`
        trace = f"<the traceback could not be written: {type_name(type(broken))}>"
    stand_in.add_note(tracebacks.Kept(f"The traceback, of which only the text was kept:\n{trace}"))
    return stand_in


def for_report(error: BaseException) -> BaseException:
    """The error itself, for reporters that need its class, if rendering it and its causes is safe; else the result of
    `for_log`.
    """
    parts = list(itertools.islice(tracebacks.around(error), _MOST_PARTS + 1))
    if len(parts) > _MOST_PARTS or not all(_speaks(part) for part in parts):
        return for_log(error)
    return error


def _speaks(error: BaseException) -> bool:
    try:
        texts = (str(error), repr(error), type(error).__module__, type(error).__qualname__)
        shown = error.__cause__ is tracebacks.cause(error) and error.__context__ is tracebacks.context(error)
    except BaseException:  # noqa: BLE001 - the user's code
        return False
    return shown and all(type(text) is str for text in texts) and tracebacks.is_readable(error)


def _stand_in(error: BaseException) -> BaseException:
    return _named(error, said(error, MAX_FAILURE_MESSAGE, what="error")).with_traceback(tracebacks.readable(error))


def _named(error: BaseException, message: str) -> BaseException:
    module, _, name = type_name(type(error)).rpartition(".")
    kind = type(name, (Exception,), {"__module__": module or "builtins", "__qualname__": name})
    made: BaseException = kind(message)
    return made


def interrupts(error: BaseException) -> bool:
    """Whether this is a Ctrl-C during the engine's own code. User code may raise `KeyboardInterrupt` itself."""
    if not is_a(error, KeyboardInterrupt):
        return False
    trace = tracebacks.real_traceback(error)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)

"""Errors become text at once, and stay text: nothing here, or anywhere, calls an exception's class again."""

from __future__ import annotations

import traceback
from pathlib import Path

from durable.kernel.limits import MAX_FAILURE_MESSAGE, MAX_TRACEBACK
from durable.outcomes import Failure

_PACKAGE = Path(__file__).resolve().parent.parent
_OURS = (str(_PACKAGE / "kernel"), str(_PACKAGE / "worker"), str(_PACKAGE / "flow"))


def describe(error: BaseException) -> Failure:
    """An error as storable text: its type's qualified name, its message, and its traceback without the engine's frames.

    Never raises for what the error does: a `str` that raises is named in its place. NUL and lone surrogates, which no
    database takes, are written as escapes. Long texts are cut (`MAX_FAILURE_MESSAGE`, `MAX_TRACEBACK`).
    """
    return Failure(
        type=clean(type_name(type(error))),
        message=_cut_end(clean(_message(error)), MAX_FAILURE_MESSAGE),
        traceback=_cut_start(clean(_traceback(error)), MAX_TRACEBACK),
    )


def type_name(error: type[BaseException]) -> str:
    """The qualified name of an error's class; built-in ones go without their module."""
    if error.__module__ in ("builtins", "__main__"):
        return error.__qualname__
    return f"{error.__module__}.{error.__qualname__}"


def clean(text: str) -> str:
    """Text that both databases can store: NUL and lone surrogates become escapes."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - the message is the user's code
        return f"<str() of this error raised {type(broken).__qualname__}>"


def _traceback(error: BaseException) -> str:
    try:
        story = traceback.TracebackException.from_exception(error, compact=True)
        _drop_engine_frames(story)
        return "".join(story.format())
    except Exception as broken:  # noqa: BLE001 - formatting calls the user's code (str, notes) as well
        return f"<the traceback could not be written: {type(broken).__qualname__}>"


def _drop_engine_frames(story: traceback.TracebackException) -> None:
    waiting = [story]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        frames = [frame for frame in part.stack if not frame.filename.startswith(_OURS)]
        part.stack = traceback.StackSummary.from_list(frames)
        waiting += [link for link in (part.__cause__, part.__context__) if link is not None]
        waiting += part.exceptions or []


def _cut_end(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def _cut_start(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"({len(text) - limit:,} earlier characters) …{text[-limit:]}"

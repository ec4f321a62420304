"""Everything that the kernel uses of asyncio beyond its documentation. Nothing of asyncio is replaced, for any loop.

The running loop and the current task are set with functions that asyncio keeps for event loops of others. The rest are
its private names: a Python that lacks one is refused at import, and one where they act otherwise by `misfits`, which a
system check and every worker ask before anything runs.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from durable.errors import ConfigurationError

try:
    from asyncio.events import _get_running_loop as get_running_loop
    from asyncio.events import _set_running_loop as set_running_loop
    from asyncio.tasks import _enter_task as enter_task
    from asyncio.tasks import _GatheringFuture  # type: ignore[attr-defined]
    from asyncio.tasks import _leave_task as leave_task
except ImportError as missing:  # pragma: no cover - no Python of today
    raise ImportError(
        f"durable does not fit Python {sys.version.split()[0]}: {missing}. Use a version of Python that it was tested "
        "with, or a later durable."
    ) from missing

if TYPE_CHECKING:
    _Gathering = asyncio.Future[Any]
else:
    _Gathering = _GatheringFuture

__all__ = [
    "CANCELLING_AND_WAITING",
    "GATHERING",
    "GatheringFuture",
    "enter_task",
    "get_running_loop",
    "leave_task",
    "misfits",
    "number_gathering",
    "refuse_unfit",
    "set_running_loop",
    "unordered_of",
    "unseen_error",
]

GATHERING: CodeType = _GatheringFuture.__init__.__code__
"""What runs when a new future of `asyncio.gather` asks its loop for debug mode."""

CANCELLING_AND_WAITING: CodeType | None = getattr(getattr(asyncio.tasks, "_cancel_and_wait", None), "__code__", None)
"""What `asyncio.wait_for` of Python 3.11 runs when its time is up: it alone cancels a future without a message."""


class GatheringFuture(_Gathering):
    """The future of an `asyncio.gather` inside a workflow: one of asyncio's own that hashes by a number."""

    number: int

    def __hash__(self) -> int:
        return self.number


def number_gathering(asking: FrameType, number: int) -> None:
    """Gives the future whose constructor is in this frame of `GATHERING` its number.

    No call of the loop makes that future. But a new one asks its loop for debug mode, and then the loop can reach it.
    """
    future = asking.f_locals["self"]
    if type(future) is _GatheringFuture:
        future.__class__ = GatheringFuture
        future.number = number


def unseen_error(task: asyncio.Future[Any]) -> BaseException | None:
    """The exception of a task that is done, if it has one. `task.exception()` would mark it as seen."""
    return task._exception


_ENSURING: tuple[CodeType, ...] = tuple(
    function.__code__
    for function in (asyncio.ensure_future, getattr(asyncio.tasks, "_ensure_future", None))
    if function is not None
)
_AS_COMPLETED = ("as_completed", "_AsCompletedIterator.__init__")
_WITHIN = 6


def unordered_of(caller: FrameType | None) -> Iterable[Any] | None:
    """What `asyncio.as_completed` was given, if the frame that makes a task is of its doing; None otherwise.

    Looks further only when the task is made by `ensure_future`.
    """
    if caller is None or caller.f_code not in _ENSURING:
        return None
    for frame in itertools.islice(_frames_of_asyncio(caller), _WITHIN):
        if frame.f_code.co_qualname in _AS_COMPLETED:
            awaitables = frame.f_locals.get("fs", frame.f_locals.get("aws"))
            return awaitables if isinstance(awaitables, list | tuple | set) else ()
    return None


def _frames_of_asyncio(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None and frame.f_globals is vars(asyncio.tasks):
        yield frame
        frame = frame.f_back


class _Probe(asyncio.AbstractEventLoop):
    """A loop on which nothing runs: it records what asyncio asks of it."""

    unordered: Iterable[Any] | None = None

    def get_debug(self) -> bool:
        asking = sys._getframe(1)
        if asking.f_code is GATHERING:
            number_gathering(asking, 7)
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        self.unordered = unordered_of(sys._getframe(1))
        return asyncio.Task(coro, loop=self)

    def call_soon(self, *callback: Any, context: Any = None) -> Any:  # type: ignore[override]
        return None

    def call_exception_handler(self, context: Any) -> None:
        return None

    def is_running(self) -> bool:
        return True


def misfits() -> tuple[str, ...]:
    """How asyncio of this Python differs from what the kernel needs, one sentence each; empty if it fits."""
    loop = _Probe()  # type: ignore[abstract]  # nothing else of it is called
    before = get_running_loop()
    set_running_loop(loop)
    try:
        checks = {
            "A future of asyncio.gather cannot be given a number.": _numbers_gathering,
            "An exception cannot be read without being marked as seen.": _reads_unseen,
            "asyncio.as_completed over bare coroutines cannot be told from other calls.": _knows_as_completed,
            "The current task cannot be set.": _sets_current_task,
        }
        return tuple(text for text, holds in checks.items() if not _does(holds, loop))
    finally:
        set_running_loop(before)


def refuse_unfit() -> None:
    """Raises `ConfigurationError` if there are `misfits`."""
    faults = misfits()
    if faults:
        raise ConfigurationError(f"durable does not fit Python {sys.version.split()[0]}: {' '.join(faults)}")


def _does(holds: Callable[[_Probe], bool], loop: _Probe) -> bool:
    try:
        return holds(loop)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return False


def _numbers_gathering(loop: _Probe) -> bool:
    return hash(asyncio.gather(loop.create_future())) == 7


def _reads_unseen(loop: _Probe) -> bool:
    future, error = loop.create_future(), LookupError()
    future.set_exception(error)
    read = unseen_error(future)
    still_unseen: bool = future._log_traceback
    future.exception()
    return read is error and still_unseen


def _knows_as_completed(loop: _Probe) -> bool:
    coroutines = [_nothing()]
    first: Any = next(iter(asyncio.as_completed(coroutines)))
    first.close()
    coroutines[0].close()
    return loop.unordered is not None and list(loop.unordered) == coroutines


def _sets_current_task(loop: _Probe) -> bool:
    coroutine = _nothing()
    task = asyncio.Task(coroutine, loop=loop)
    coroutine.close()
    enter_task(loop, task)
    current = asyncio.current_task(loop)
    leave_task(loop, task)
    return current is task and asyncio.current_task(loop) is None


async def _nothing() -> None:
    """Never runs."""

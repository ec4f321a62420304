"""The deterministic event loop that workflow code runs on.

It has no selector and no clock: time is the recorded moment of the last event fed, callbacks run in the order in which
they were scheduled, and a turn ends when nothing is ready. It runs only inside `with loop.turn:`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextvars import Context, copy_context
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from durable.errors import InsideWorkflow, OutsideWorkflow, PoisonTurn, StackExhausted, WorkflowBlocked
from durable.errors.showing import is_a, said
from durable.kernel.loop import handled, lines
from durable.kernel.loop.asyncio_private import (
    GATHERING,
    get_running_loop,
    number_gathering,
    set_running_loop,
    unseen_error,
)
from durable.kernel.loop.futures import CallFuture, WorkflowFuture, WorkflowTask
from durable.kernel.loop.handles import NEVER, ReadyHandle, TimerHandle
from durable.kernel.loop.timers import Timers
from durable.kernel.loop.unsupported import RefusingLoop, close_unstarted, refuse_unordered
from durable.kernel.texts.failure import describe, for_log
from durable.kernel.texts.tracebacks import around

if TYPE_CHECKING:
    # A circle: the loop leads from code that runs on it to its execution, and does not use that itself.
    from durable.kernel.replay.execution import Execution
    from durable.outcomes import Failure

C = TypeVar("C", bound=CallFuture)

logger = logging.getLogger("durable.workflow")

_SALTED = (1 << 60) - 1
_MOST_PROBLEMS = 100
_LONGEST_MESSAGE = 1_000


class LoopState(IntEnum):
    """The state of a loop. Only a running one schedules anything; what is created on a closing one never runs."""

    RESTING = 0
    RUNNING = 1
    BROKEN = 2
    CLOSING = 3
    CLOSED = 4


RESTING, RUNNING, BROKEN, CLOSING, CLOSED = LoopState
# Bound once: looking a member up in its enum costs as much as a call, and every callback asks.


class Turn:
    """Makes a loop the running loop of this thread for a block, and restores the previous one afterwards."""

    __slots__ = ("_before", "_hooks", "_keep_generator", "_loop")

    def __init__(self, loop: WorkflowLoop) -> None:
        self._loop = loop
        self._keep_generator = loop.keep_generator

    def __enter__(self) -> None:
        loop = self._loop
        if loop.state is not RESTING:
            raise RuntimeError(
                f"The loop of workflow {loop.workflow_id} is {loop.state.name.lower()}; it can not be turned."
            )
        self._before = get_running_loop()
        self._hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._keep_generator, None)
        loop.state = RUNNING
        loop.thread = threading.get_ident()
        set_running_loop(loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_running_loop(self._before)
        sys.set_asyncgen_hooks(*self._hooks)
        if self._loop.state is RUNNING:
            self._loop.state = RESTING if error is None else BROKEN


class WorkflowLoop(RefusingLoop):
    """The loop of one execution. `execution` finds the way from the running loop to what runs on it."""

    def __init__(self, workflow_id: uuid.UUID, execution: Execution) -> None:
        self.workflow_id = workflow_id
        self.execution = execution
        self.state = RESTING
        self.turn = Turn(self)
        self.thread = 0
        self.replaying = False
        self.activation = 0
        self.now = datetime(1970, 1, 1, tzinfo=UTC)
        self.elapsed = 0
        self.main: WorkflowTask | None = None
        self.exit: BaseException | None = None
        self.halted: WorkflowBlocked | None = None
        self.tasks: dict[WorkflowTask, None] = {}
        self.timers = Timers()
        self.problems: list[Failure] = []
        self.lines: list[logging.LogRecord] = []
        self.generators: list[AsyncGenerator[Any, Any]] = []
        self._generators_checked = 64
        self._ready: deque[ReadyHandle] = deque()
        # The low bits of a UUIDv7 are random: asyncio keeps the tasks of all workflows in one set.
        self._number = (workflow_id.int & _SALTED) or 1
        self._task_names = 0

    # --- the engine's side ----------------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether this is a turn: calls count."""
        return self.state is RUNNING

    def start(self, at: datetime) -> None:
        """Time counts from here."""
        self.timers.start(at)
        self.now = at
        self.elapsed = 0

    def set_now(self, at: datetime) -> None:
        """The recorded moment of the event that is fed next."""
        self.now = at
        self.elapsed = self.timers.since_start(at)

    def say_lines(self) -> None:
        """Emits the lines that the code has logged since the last call."""
        if self.lines:
            said, self.lines = self.lines, []
            for line in said:
                lines.say(line)

    def fire(self, handle: TimerHandle) -> None:
        """A timer's moment has come: its callback is ready."""
        self._ready.append(handle)

    def halt(self, blocked: WorkflowBlocked) -> WorkflowBlocked:
        """Stops after the current callback, and blocks the workflow; returns the error. The first one counts."""
        if self.halted is None:
            self.halted = blocked
        return blocked

    def run(self, cpu_clock: Callable[[], float], cpu_seconds: float | None) -> None:
        """Runs callbacks until none is ready, the main task is done, user code wants to exit, or the loop was halted.

        Raises `PoisonTurn` when that took more CPU time than allowed; a callback that runs is not interrupted.
        """
        ready = self._ready
        main = self.main
        handle: ReadyHandle | None
        started = cpu_clock() if cpu_seconds is not None else 0.0
        while ready:
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt) as leaving:
                self.exit = leaving
            except BaseException as error:  # noqa: BLE001 - a callback of the user's code
                self._callback_failed(error)
            if cpu_seconds is not None and (spent := cpu_clock() - started) > cpu_seconds:
                raise PoisonTurn(self.workflow_id, spent)
            if self.exit is not None or self.halted is not None or (main is not None and main.done()):
                ready.clear()
        handle = None  # a kept traceback of an error above must not keep the task below

    def _callback_failed(self, error: BaseException) -> None:
        blocked = trouble_of_the_machine(error)
        if blocked is not None:
            self.halt(blocked)
        self.call_exception_handler({"message": "A callback of the workflow raised", "exception": error})

    def call_future(self, kind: type[C]) -> C:
        """A new future for a call: of an activity, say."""
        future = kind(loop=self)
        future.number = self.next_number()
        return future

    def next_number(self) -> int:
        """A number that no other future or task of this run has, the same in every replay."""
        self._number += 1
        return self._number

    def keep_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Async generators that code leaves half-read are kept: the garbage collector would finish them at any time."""
        self.generators.append(generator)
        if len(self.generators) > self._generators_checked:
            self.generators = [half_read for half_read in self.generators if not is_exhausted(half_read)]
            self._generators_checked = max(64, 2 * len(self.generators))

    def shut(self) -> None:
        """Forgets everything; what still refers to this loop does nothing from now on."""
        self.state = CLOSED
        self._ready.clear()
        self.timers.clear()
        self.tasks.clear()
        self.generators.clear()

    # --- asyncio's side -------------------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> ReadyHandle:
        handle = ReadyHandle(callback, args, context)
        if self.state is RUNNING:
            self._ready.append(handle)
        else:
            self._unscheduled(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> ReadyHandle:
        if threading.get_ident() != self.thread:
            raise InsideWorkflow(
                "A result from another thread", "Do the work in an activity, and await `.execute(...)`."
            )
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        return self._schedule(self.timers.deadline(self.elapsed, delay), callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        return self._schedule(self.timers.moment(when), callback, args, context)

    def call_after(self, span: timedelta | float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """`call_later` that takes a timedelta as well, exactly."""
        return self._schedule(self.timers.deadline(self.elapsed, span), callback, args, None)

    def _schedule(
        self, due: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> TimerHandle:
        handled.mark(self)
        handle = TimerHandle(callback, args, context, timers=self.timers, due=due, born=self.elapsed)
        if self.state is not RUNNING:
            self._unscheduled(handle)
        elif due != NEVER and due <= self.elapsed:
            self._ready.append(handle)
        else:
            self.timers.add(handle)
        return handle

    def _unscheduled(self, handle: ReadyHandle) -> None:
        handle.cancel()
        if self.state is RESTING:
            raise OutsideWorkflow(
                f"A future, task or event of workflow {self.workflow_id}",
                "Another thread or workflow must not touch it.",
            )

    def time(self) -> float:
        return self.elapsed / 1_000_000

    def create_future(self) -> WorkflowFuture:
        future = WorkflowFuture(loop=self)
        self._number = future.number = self._number + 1
        return future

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: Context | None = None,
        eager_start: bool | None = None,
    ) -> WorkflowTask:
        refuse_unordered(coro)
        handled.mark(self)
        if self.state is not RUNNING and self.state is not CLOSING:
            close_unstarted(coro)
            raise OutsideWorkflow("asyncio.create_task", "The workflow's code is not running: its turn is over.")
        if eager_start:
            close_unstarted(coro)
            raise InsideWorkflow("An eager task", "A task of a workflow starts when its turn comes.")
        awaited: asyncio.Future[Any] | None = None
        if asyncio.isfuture(coro):
            awaited, coro = coro, _result_of(coro)
        self._task_names += 1
        self._number += 1
        task = WorkflowTask(
            coro,
            loop=self,
            number=self._number,
            name=f"Task-{self._task_names}" if name is None else str(name),
            context=copy_context() if context is None else context,
        )
        if awaited is not None:
            task.add_done_callback(_canceller(awaited), context=task.context)
        self.tasks[task] = None
        task.add_done_callback(self._task_done, context=task.context)
        return task

    def _task_done(self, task: WorkflowTask) -> None:
        self.tasks.pop(task, None)
        error = unseen_error(task)
        if error is None:
            return
        if self.replaying:
            task.exception()  # marks it as seen: it was said the first time
        blocked = trouble_of_the_machine(error)
        if blocked is not None:
            self.halt(blocked)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Records errors that the code does not see, and logs them once: not in replay, and not for a
        closed workflow.
        """
        if self.state >= CLOSING or self.replaying:
            return
        error = context.get("exception")
        message = said(context.get("message", "A problem in the workflow's loop"), _LONGEST_MESSAGE, what="message")
        exc_info: Any = None
        if error is not None and is_a(error, BaseException):
            if len(self.problems) < _MOST_PROBLEMS:
                self.problems.append(describe(error))
            exc_info = for_log(error)
        line = lines.made(logger, logging.ERROR, "%s (workflow %s)", message, str(self.workflow_id), exc_info=exc_info)
        if self.state is RUNNING:
            self.lines.append(line)
        else:
            lines.say(line)

    default_exception_handler = call_exception_handler

    def get_debug(self) -> bool:
        """False. Every new future asks, also the one that `asyncio.gather` makes by a class of its own."""
        asking = sys._getframe(1)
        if asking.f_code is GATHERING:
            number_gathering(asking, self.next_number())
        return False

    def get_exception_handler(self) -> None:
        return None

    def get_task_factory(self) -> None:
        return None

    def is_running(self) -> bool:
        return self.state is RUNNING or self.state is CLOSING

    def is_closed(self) -> bool:
        return self.state is CLOSED


def trouble_of_the_machine(error: BaseException) -> WorkflowBlocked | None:
    """The error for what must not become history, since it depends on the caller's stack or the machine; None for other
    errors.
    """
    for part in around(error):
        if is_a(part, RecursionError):
            return StackExhausted()
        if is_a(part, MemoryError):
            return WorkflowBlocked("The workflow's code ran out of memory.")
    return None


def is_exhausted(generator: AsyncGenerator[Any, Any]) -> bool:
    """Whether an async generator has ended: then it has no frame."""
    return getattr(generator, "ag_frame", None) is None


async def _result_of(future: asyncio.Future[Any]) -> Any:
    return await future


def _canceller(future: asyncio.Future[Any]) -> Callable[[asyncio.Task[Any]], None]:
    """A task over a future may be cancelled before its first step; the future still has to learn it."""

    def pass_on(task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            (future.withdraw if isinstance(future, CallFuture) else future.cancel)()

    return pass_on

"""`@activity`, and the activities that it makes: what workflow code and callers do with one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from durable.errors import InsideWorkflow, KeyTaken, OutsideWorkflow
from durable.kernel.codec import encode_call
from durable.kernel.context import workflow_context
from durable.kernel.definitions import declarations
from durable.kernel.definitions.definition import ActivityDefinition
from durable.kernel.definitions.options import ActivityOptions, OnConflict, OnDeadLetter, OnExhausted
from durable.kernel.definitions.registry import registry
from durable.kernel.definitions.retry import Retry

if TYPE_CHECKING:
    from durable.client.handle import Handle

# The client is imported where it is called: it needs Django's models, and this has to be importable before they are
# loaded.

P = ParamSpec("P")
R = TypeVar("R")


class Activity(ActivityDefinition[P, R]):
    """A registered activity. Call it as a function in unit tests, `.execute(...)` it in workflows."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function here and now, without retries or records. Raises `InsideWorkflow` in workflow code."""
        if workflow_context.in_turn():
            shown = self.fn.__name__
            raise InsideWorkflow(f"The plain call {shown}(...)", f"Use `await {shown}.execute(...)`.")
        return cast(R, self.fn(*args, **kwargs))

    def execute(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[None, None, R]:
        """Runs the activity as a durable step of the workflow. The call schedules it; await it for the result.

        Raises `OutsideWorkflow`, `ArgumentsMismatch` and `PayloadError` at the call; the awaiting raises
        `ActivityError` when the activity has failed for good.
        """
        return _schedule(self, args, kwargs, _NO_OPTIONS)

    def enqueue(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """Starts the activity by itself, as a small workflow, in the caller's transaction. Returns its handle.

        `key`, `start_at`, `on_conflict`, `queue`, `priority`, `retry`, `start_to_close`, `heartbeat_timeout`,
        `on_dead_letter` and
        `on_exhausted` are the engine's; a parameter of that name is passed by position. Raises `KeyTaken`.
        """
        from durable.client import start

        return start.enqueue(self, args, kwargs, ActivityOptions())

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """`enqueue` for async callers."""
        from durable.client import start

        return await start.aenqueue(self, args, kwargs, ActivityOptions())

    @overload
    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]: ...
    @overload
    def enqueue_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None]
    ) -> list[Handle[R] | KeyTaken]: ...
    def enqueue_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None] | None = None
    ) -> list[Handle[R]] | list[Handle[R] | KeyTaken]:
        """Enqueues one for each tuple of positional arguments; all or none are checked before anything is written.

        With `keys` (one for each): a taken key gives a `KeyTaken` in its place, and stops no other.
        """
        from durable.client import start

        return start.enqueue_many(self, calls, ActivityOptions(), keys=keys)

    def options(
        self,
        *,
        key: str | None = None,
        start_at: datetime | None = None,
        on_conflict: OnConflict | None = None,
        queue: str | None = None,
        priority: int | None = None,
        retry: Retry | None = None,
        start_to_close: timedelta | None = None,
        heartbeat_timeout: timedelta | None = None,
        on_dead_letter: OnDeadLetter | None = None,
        on_exhausted: OnExhausted | None = None,
    ) -> BoundActivity[P, R]:
        """This activity with other options. `key`, `start_at` and `on_conflict` are for `enqueue` only."""
        chosen = {name: value for name, value in locals().items() if name != "self"}
        return BoundActivity(self, ActivityOptions(**chosen))


class AsyncActivity(Activity[P, R]):
    """A registered activity whose handler is `async def`: a plain call returns the coroutine."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
        """The coroutine of the function. Raises `InsideWorkflow` in workflow code."""
        return cast("Coroutine[Any, Any, R]", super().__call__(*args, **kwargs))


class BoundActivity(Generic[P, R]):
    """An activity with options of this call. Its methods take the handler's own parameters, exactly typed."""

    def __init__(self, definition: Activity[P, R], options: ActivityOptions) -> None:
        self.definition = definition
        self.chosen = options

    def execute(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[None, None, R]:
        """As `Activity.execute`, with these options."""
        return _schedule(self.definition, args, kwargs, self.chosen)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """As `Activity.enqueue`, with these options."""
        from durable.client import start

        return start.enqueue(self.definition, args, kwargs, self.chosen)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """`enqueue` for async callers."""
        from durable.client import start

        return await start.aenqueue(self.definition, args, kwargs, self.chosen)

    @overload
    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]: ...
    @overload
    def enqueue_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None]
    ) -> list[Handle[R] | KeyTaken]: ...
    def enqueue_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None] | None = None
    ) -> list[Handle[R]] | list[Handle[R] | KeyTaken]:
        """As `Activity.enqueue_many`, with these options."""
        from durable.client import start

        return start.enqueue_many(self.definition, calls, self.chosen, keys=keys)


_NO_OPTIONS = ActivityOptions()


def _schedule(
    definition: Activity[P, R], args: tuple[Any, ...], kwargs: Mapping[str, Any], options: ActivityOptions
) -> Coroutine[None, None, R]:
    if not workflow_context.in_turn():
        shown = definition.fn.__name__
        raise OutsideWorkflow(
            f"{shown}.execute(...)", f"Elsewhere, {shown}.enqueue(...) queues it and {shown}(...) calls it."
        )
    data = {} if options is _NO_OPTIONS else declarations.row_options(options)
    execution = workflow_context.current()
    call = encode_call(
        definition,
        args,
        kwargs,
        codec=execution.codec,
        workflow_id=execution.workflow_id,
        key=execution.calls.digest_key,
    )
    future = workflow_context.schedule(definition, payload=call.payload, digest=call.digest, options=data)
    # It is a future, and is typed as a coroutine without Any in its first places: mypy takes neither a future in
    # `TaskGroup.create_task` nor, with Any there, calls with different results in `asyncio.gather`.
    return cast("Coroutine[None, None, R]", future)


# --- the decorator -------------------------------------------------------------------------------------------------


class _TakesActivity(Protocol):
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncActivity[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Activity[P, R]: ...


@overload
def activity(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncActivity[P, R]: ...
@overload
def activity(fn: Callable[P, R], /) -> Activity[P, R]: ...
@overload
def activity(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    start_to_close: timedelta | None = None,
    heartbeat_timeout: timedelta | None = None,
    queue: str = "default",
    on_dead_letter: OnDeadLetter | None = None,
    on_exhausted: OnExhausted = "fail",
    transactional: bool = False,
) -> _TakesActivity: ...
def activity(fn: Callable[..., Any] | None = None, /, **options: Any) -> object:
    """Makes a function an activity: `@activity`, or `@activity(...)` with options.

    `name` (else `app_label.function`); `retry` and `on_dead_letter` (else those of the settings: `DEFAULT_RETRY`,
    `ON_DEAD_LETTER`); `start_to_close`, the time limit of one attempt; `heartbeat_timeout`, how long it may
    run without a heartbeat; `queue`; `on_exhausted`; `transactional`, for a
    `def` handler whose own writes commit together with its completion. Raises `ConfigurationError`,
    `AlreadyRegistered`.
    """
    chosen = declarations.chosen("activity", fn, options)

    def register(function: Callable[..., Any]) -> Activity[..., Any]:
        declarations.check_activity(function, chosen)
        kind = AsyncActivity if inspect.iscoroutinefunction(function) else Activity
        definition: Activity[..., Any] = kind(function, **chosen)
        registry.add_activity(definition)
        return definition

    return register if fn is None else register(fn)

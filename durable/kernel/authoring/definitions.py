"""`@activity` and `@workflow`, and the definitions that they return."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from durable.errors import InsideWorkflow, KeyTaken, OutsideWorkflow
from durable.kernel.authoring import context, declarations
from durable.kernel.authoring.declarations import implied_name
from durable.kernel.authoring.options import ActivityOptions, OnConflict, OnDeadLetter, OnExhausted, StartOptions
from durable.kernel.authoring.registry import registry
from durable.kernel.authoring.retry import Retry
from durable.kernel.codec import encode_call
from durable.kernel.payloads.arguments import ArgumentPlan
from durable.kernel.payloads.hints import resolved

if TYPE_CHECKING:
    from durable.client.handle import Handle

P = ParamSpec("P")
R = TypeVar("R")

# `.execute(...)` is typed as Coroutine[None, None, R]: with Any in these places, mypy gives up on asyncio.gather of
# calls with different results.


class Definition:
    """What activities and workflows share: a function, its registered name, its signature and annotations."""

    def __init__(self, fn: Callable[..., Any], *, name: str | None, queue: str) -> None:
        self.fn: Any = fn
        self.explicit_name = name
        self.queue = queue
        self.is_async = inspect.iscoroutinefunction(fn)
        self.signature = inspect.signature(fn)
        self.place = f"{fn.__module__}.{fn.__qualname__}"
        self._name = ""
        self._name_of = -1
        # Attributes of the function are not copied: one called `queue` would overwrite ours.
        functools.update_wrapper(cast(Any, self), fn, updated=())

    @property
    def name(self) -> str:
        """The registered name: the one that the decorator gave, else `app_label.function`."""
        if self._name_of != registry.generation:
            self._name = self.explicit_name or implied_name(self.fn, registry.label_for)
            self._name_of = registry.generation
        return self._name

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """Annotations of parameters, and of the result under "return". Read late, as they may name later classes."""
        return resolved(self.fn)

    @functools.cached_property
    def result_hint(self) -> Any:
        """The annotation of the result; `Any` where there is none."""
        return self.hints.get("return", Any)

    @property
    def plan(self) -> ArgumentPlan:
        """How the arguments of calls are written."""
        name = self.name
        made: ArgumentPlan | None = self.__dict__.get("_plan")
        if made is None or made.name != name:
            made = self._plan = ArgumentPlan(name, self.signature, self.hints)
        return made

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class ActivityDefinition(Definition, Generic[P, R]):
    """A registered activity. Call it as a function in unit tests, `.execute(...)` it in workflows."""

    def __init__(
        self,
        fn: Callable[P, Any],
        *,
        name: str | None = None,
        retry: Retry | None = None,
        start_to_close: timedelta | None = None,
        queue: str = "default",
        on_dead_letter: OnDeadLetter | None = None,
        on_exhausted: OnExhausted = "fail",
        transactional: bool = False,  # a property of the handler, not a choice of the caller's
    ) -> None:
        super().__init__(fn, name=name, queue=queue)
        self.retry = retry
        self.start_to_close = start_to_close
        self.on_dead_letter: OnDeadLetter | None = on_dead_letter
        self.on_exhausted: OnExhausted = on_exhausted
        self.transactional = transactional

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function here and now, without retries or records. Raises `InsideWorkflow` in workflow code."""
        if context.in_turn():
            shown = self.fn.__name__
            raise InsideWorkflow(f"The plain call {shown}(...)", f"Use `await {shown}.execute(...)`.")
        return cast(R, self.fn(*args, **kwargs))

    def execute(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[None, None, R]:
        """Runs the activity as a durable step of the workflow. The call schedules it; await it for the result.

        Raises `OutsideWorkflow`, `ArgumentsMismatch` and `PayloadError` at the call; the awaiting raises
        `ActivityError` when the activity has failed for good.
        """
        return cast("Coroutine[None, None, R]", _schedule(self, args, kwargs, _NO_OPTIONS))

    def enqueue(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """Starts the activity by itself, as a small workflow, in the caller's transaction. Returns its handle.

        `key`, `start_at`, `on_conflict`, `queue`, `priority`, `retry`, `start_to_close`, `on_dead_letter` and
        `on_exhausted` are the engine's; a parameter of that name is passed by position. Raises `KeyTaken`.
        """
        return cast("Handle[R]", _client().enqueue(self, args, kwargs, ActivityOptions()))

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """`enqueue` for async callers."""
        return cast("Handle[R]", await _client().aenqueue(self, args, kwargs, ActivityOptions()))

    @overload
    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]: ...
    @overload
    def enqueue_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None]
    ) -> list[Handle[R] | KeyTaken]: ...
    def enqueue_many(self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None] | None = None) -> Any:
        """Enqueue one for each tuple of positional arguments; all or none are checked before anything is written.

        With `keys` (one for each): a taken key gives a `KeyTaken` in its place, and stops no other.
        """
        return _client().enqueue_many(self, calls, ActivityOptions(), keys=keys)

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
        on_dead_letter: OnDeadLetter | None = None,
        on_exhausted: OnExhausted | None = None,
    ) -> BoundActivity[P, R]:
        """This activity with other options. `key`, `start_at` and `on_conflict` are for `enqueue` only."""
        chosen = {name: value for name, value in locals().items() if name != "self"}
        return BoundActivity(self, ActivityOptions(**chosen))


class AsyncActivityDefinition(ActivityDefinition[P, R]):
    """A registered activity whose handler is `async def`: a plain call returns the coroutine."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
        """The coroutine of the function. Raises `InsideWorkflow` in workflow code."""
        return cast("Coroutine[Any, Any, R]", super().__call__(*args, **kwargs))


class BoundActivity(Generic[P, R]):
    """An activity with options of this call. Its methods take the handler's own parameters, exactly typed."""

    def __init__(self, definition: ActivityDefinition[P, R], options: ActivityOptions) -> None:
        self.definition = definition
        self.chosen = options

    def execute(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[None, None, R]:
        """As `ActivityDefinition.execute`, with these options."""
        return cast("Coroutine[None, None, R]", _schedule(self.definition, args, kwargs, self.chosen))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """As `ActivityDefinition.enqueue`, with these options."""
        return cast("Handle[R]", _client().enqueue(self.definition, args, kwargs, self.chosen))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """`enqueue` for async callers."""
        return cast("Handle[R]", await _client().aenqueue(self.definition, args, kwargs, self.chosen))

    @overload
    def enqueue_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]: ...
    @overload
    def enqueue_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None]
    ) -> list[Handle[R] | KeyTaken]: ...
    def enqueue_many(self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None] | None = None) -> Any:
        """As `ActivityDefinition.enqueue_many`, with these options."""
        return _client().enqueue_many(self.definition, calls, self.chosen, keys=keys)


class WorkflowDefinition(Definition, Generic[P, R]):
    """A registered workflow type. `.start(...)` begins one."""

    def __init__(
        self,
        fn: Callable[P, Coroutine[Any, Any, R]],
        *,
        name: str | None = None,
        queue: str = "default",
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__(fn, name=name, queue=queue)
        self.timeout = timeout

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """The coroutine of the function, which only the engine's own loop can run. Callers use `.start(...)`."""
        return cast("Coroutine[Any, Any, R]", self.fn(*args, **kwargs))

    def start(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """Starts a workflow in the caller's transaction; it does not run before the commit. Returns its handle.

        `key`, `timeout`, `start_at`, `on_conflict`, `queue` and `priority` are the engine's; a parameter of that name
        is passed by position. Raises `ArgumentsMismatch`, `PayloadError`, `KeyInvalid`, `OptionInvalid`, and
        `KeyTaken` with the id of the live holder (with `on_conflict="existing"`, returns the holder's handle instead).
        """
        return cast("Handle[R]", _client().start(self, args, kwargs, StartOptions()))

    async def astart(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """`start` for async callers."""
        return cast("Handle[R]", await _client().astart(self, args, kwargs, StartOptions()))

    @overload
    def start_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]: ...
    @overload
    def start_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None]
    ) -> list[Handle[R] | KeyTaken]: ...
    def start_many(self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None] | None = None) -> Any:
        """Begin one for each tuple of positional arguments; all or none are checked before anything is written.

        With `keys` (one for each): a taken key gives a `KeyTaken` in its place, and stops no other.
        """
        return _client().start_many(self, calls, StartOptions(), keys=keys)

    def get(self, key: str) -> Handle[R]:
        """The live workflow of this type that holds the business key, else the latest that did. `WorkflowNotFound`."""
        return cast("Handle[R]", importlib.import_module("durable.client.find").get_by_key(self, key))

    async def aget(self, key: str) -> Handle[R]:
        """`get` for async callers."""
        return cast("Handle[R]", await importlib.import_module("durable.client.find").aget_by_key(self, key))

    def options(
        self,
        *,
        key: str | None = None,
        timeout: timedelta | None = None,
        start_at: datetime | None = None,
        on_conflict: OnConflict | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> BoundWorkflow[P, R]:
        """This workflow type with other options."""
        chosen = {name: value for name, value in locals().items() if name != "self"}
        return BoundWorkflow(self, StartOptions(**chosen))


class BoundWorkflow(Generic[P, R]):
    """A workflow type with options of this start. Its methods take the function's own parameters, exactly typed."""

    def __init__(self, definition: WorkflowDefinition[P, R], options: StartOptions) -> None:
        self.definition = definition
        self.chosen = options

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """As `WorkflowDefinition.start`, with these options."""
        return cast("Handle[R]", _client().start(self.definition, args, kwargs, self.chosen))

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """`start` for async callers."""
        return cast("Handle[R]", await _client().astart(self.definition, args, kwargs, self.chosen))

    @overload
    def start_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]: ...
    @overload
    def start_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None]
    ) -> list[Handle[R] | KeyTaken]: ...
    def start_many(self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None] | None = None) -> Any:
        """As `WorkflowDefinition.start_many`, with these options."""
        return _client().start_many(self.definition, calls, self.chosen, keys=keys)


_NO_OPTIONS = ActivityOptions()


def _schedule(definition: ActivityDefinition[Any, Any], args: Any, kwargs: Any, options: ActivityOptions) -> Any:
    if not context.in_turn():
        shown = definition.fn.__name__
        raise OutsideWorkflow(
            f"{shown}.execute(...)", f"Elsewhere, {shown}.enqueue(...) queues it and {shown}(...) calls it."
        )
    data = {} if options is _NO_OPTIONS else declarations.row_options(options)
    execution = context.current()
    call = encode_call(
        definition,
        args,
        kwargs,
        codec=execution.codec,
        workflow_id=execution.workflow_id,
        key=execution.digest_key,
    )
    return context.schedule(definition, payload=call.payload, digest=call.digest, options=data)


def _client() -> Any:
    # Late: the client needs Django's models, and this module has to be importable before they are loaded.
    return importlib.import_module("durable.client.start")


# --- the decorators ------------------------------------------------------------------------------------------------


class _TakesActivity(Protocol):
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncActivityDefinition[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> ActivityDefinition[P, R]: ...


class _TakesWorkflow(Protocol):
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> WorkflowDefinition[P, R]: ...


@overload
def activity(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncActivityDefinition[P, R]: ...
@overload
def activity(fn: Callable[P, R], /) -> ActivityDefinition[P, R]: ...
@overload
def activity(
    *,
    name: str | None = None,
    retry: Retry | None = None,
    start_to_close: timedelta | None = None,
    queue: str = "default",
    on_dead_letter: OnDeadLetter | None = None,
    on_exhausted: OnExhausted = "fail",
    transactional: bool = False,
) -> _TakesActivity: ...
def activity(fn: Any = None, /, **options: Any) -> Any:
    """Makes a function an activity: `@activity`, or `@activity(...)` with options.

    `name` (else `app_label.function`); `retry` and `on_dead_letter` (else those of the settings: `DEFAULT_RETRY`,
    `ON_DEAD_LETTER`); `start_to_close`, the time limit of one attempt; `queue`; `on_exhausted`; `transactional`, for a
    `def` handler whose own writes commit together with its completion. Raises `ConfigurationError`,
    `AlreadyRegistered`.
    """
    chosen = declarations.chosen("activity", fn, options, _ACTIVITY_DEFAULTS)

    def register(function: Any) -> Any:
        declarations.check_activity(function, chosen)
        kind = AsyncActivityDefinition if inspect.iscoroutinefunction(function) else ActivityDefinition
        definition: ActivityDefinition[Any, Any] = kind(function, **chosen)
        registry.add_activity(definition)
        return definition

    return register if fn is None else register(fn)


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> WorkflowDefinition[P, R]: ...
@overload
def workflow(
    *, name: str | None = None, queue: str = "default", timeout: timedelta | None = None
) -> _TakesWorkflow: ...
def workflow(fn: Any = None, /, **options: Any) -> Any:
    """Makes an `async def` function a workflow type: `@workflow`, or `@workflow(...)` with options.

    `name` (else `app_label.function`); `queue`; `timeout`, the time in which each must have ended (else none). Raises
    `ConfigurationError`, `AlreadyRegistered`.
    """
    chosen = declarations.chosen("workflow", fn, options, _WORKFLOW_DEFAULTS)

    def register(function: Any) -> Any:
        declarations.check_workflow(function, chosen)
        definition: WorkflowDefinition[Any, Any] = WorkflowDefinition(function, **chosen)
        registry.add_workflow(definition)
        return definition

    return register if fn is None else register(fn)


_WORKFLOW_DEFAULTS: dict[str, Any] = {"name": None, "queue": "default", "timeout": None}
_ACTIVITY_DEFAULTS: dict[str, Any] = {
    "name": None,
    "retry": None,
    "start_to_close": None,
    "queue": "default",
    "on_dead_letter": None,
    "on_exhausted": "fail",
    "transactional": False,
}

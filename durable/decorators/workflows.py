"""`@workflow`, and the workflow types that it makes: what callers do with one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar, overload

from durable.errors import CODE_ERRORS, InsideWorkflow, KeyTaken, OutsideWorkflow
from durable.kernel.context import children, workflow_context
from durable.kernel.context.children import Child, Sending
from durable.kernel.definitions import declarations
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.definitions.options import START_NAMES, OnConflict, ParentClose, StartOptions
from durable.kernel.definitions.registry import registry

if TYPE_CHECKING:
    from durable.client.handle import Handle

# The client is imported where it is called: it needs Django's models, and this has to be importable before they are
# loaded.

P = ParamSpec("P")
R = TypeVar("R")


class WorkflowType(WorkflowDefinition[P, R]):
    """A registered workflow type. `.start(...)` begins one; in workflows, `.execute(...)` one as a child."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        """Raises: a workflow runs on the engine's own loop only. `InsideWorkflow` in workflow code, else
        `OutsideWorkflow`.
        """
        name = self.fn.__name__
        call = f"The plain call {name}(...)"
        if workflow_context.in_turn():
            raise InsideWorkflow(
                call,
                f"Run it as a child with `await {name}.execute(...)`, or put what several workflows share into an "
                "`async def` without `@workflow`.",
            )
        raise OutsideWorkflow(call, f"Begin a workflow with `{name}.start(...)`.")

    def start(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """Starts a workflow in the caller's transaction; it does not run before the commit. Returns its handle.

        `key`, `timeout`, `start_at`, `on_conflict`, `queue` and `priority` are the engine's; a parameter of that name
        is passed by position. Raises `ArgumentsMismatch`, `PayloadError`, `KeyInvalid`, `OptionInvalid`, and
        `KeyTaken` with the id of the live holder (with `on_conflict="existing"`, returns the holder's handle instead).

        In workflow code: starts an abandoned child, whose end this workflow is not told. There the handle only has the
        id; a key that is taken shows in the history, and raises nothing.
        """
        from durable.client import start

        if workflow_context.in_turn():
            return _detached(self, args, kwargs, StartOptions())
        return start.start(self, args, kwargs, StartOptions())

    def execute(self, *args: P.args, **kwargs: P.kwargs) -> Child[R]:
        """Starts the workflow as a child of the one whose code is running. Await what this returns for its result.

        The child is started whether or not it is awaited, unless the workflow ends in the same activation: then only if
        it was to outlive it (`parent_close="abandon"`). Raises `OutsideWorkflow`, `NotRegistered`, `ArgumentsMismatch`
        and `PayloadError` at the call; the awaiting raises `ChildFailed`, `ChildCancelled`, `ChildTimedOut`, or
        `KeyTaken`.
        """
        return _child(self, args, kwargs, StartOptions())

    def signal(self, key: str, name: str, payload: Any = None) -> Sending:
        """In workflow code: sends a signal to the workflow of this type that holds the business key. See
        `durable.signal_workflow`. Elsewhere, `.get(key).signal(...)` sends it.
        """
        return children.send_by_key(self, key, name, payload)

    def cancel(self, key: str, *, reason: str = "") -> Sending:
        """In workflow code: asks the workflow of this type that holds the business key to cancel. See
        `durable.cancel_workflow`.
        """
        return children.send_by_key(self, key, None, reason)

    async def astart(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """`start` for async callers."""
        from durable.client import start

        return await start.astart(self, args, kwargs, StartOptions())

    @overload
    def start_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]: ...
    @overload
    def start_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None]
    ) -> list[Handle[R] | KeyTaken]: ...
    def start_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None] | None = None
    ) -> list[Handle[R]] | list[Handle[R] | KeyTaken]:
        """Begins one for each tuple of positional arguments; all or none are checked before anything is written.

        With `keys` (one for each): a taken key gives a `KeyTaken` in its place, and stops no other.
        """
        from durable.client import start

        return start.start_many(self, calls, StartOptions(), keys=keys)

    def get(self, key: str) -> Handle[R]:
        """The live workflow of this type that holds the business key, else the latest that did. `WorkflowNotFound`."""
        from durable.client import find

        return find.get_by_key(self, key)

    async def aget(self, key: str) -> Handle[R]:
        """`get` for async callers."""
        from durable.client import find

        return await find.aget_by_key(self, key)

    def options(
        self,
        *,
        key: str | None = None,
        timeout: timedelta | None = None,
        start_at: datetime | None = None,
        on_conflict: OnConflict | None = None,
        queue: str | None = None,
        priority: int | None = None,
        parent_close: ParentClose | None = None,
    ) -> BoundWorkflow[P, R]:
        """This workflow type with other options. `parent_close` is for `execute` only: what the end of the parent does
        to a child that has not ended: `"cancel"` (the default; the child may clean up), `"terminate"` or `"abandon"`.
        """
        chosen = {name: value for name, value in locals().items() if name != "self"}
        return BoundWorkflow(self, StartOptions(**chosen))


class BoundWorkflow(Generic[P, R]):
    """A workflow type with options of this start. Its methods take the function's own parameters, exactly typed."""

    def __init__(self, definition: WorkflowType[P, R], options: StartOptions) -> None:
        self.definition = definition
        self.chosen = options

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """As `WorkflowType.start`, with these options."""
        from durable.client import start

        if workflow_context.in_turn():
            return _detached(self.definition, args, kwargs, self.chosen)
        return start.start(self.definition, args, kwargs, self.chosen)

    def execute(self, *args: P.args, **kwargs: P.kwargs) -> Child[R]:
        """As `WorkflowType.execute`, with these options."""
        return _child(self.definition, args, kwargs, self.chosen)

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """`start` for async callers."""
        from durable.client import start

        return await start.astart(self.definition, args, kwargs, self.chosen)

    @overload
    def start_many(self, calls: Iterable[tuple[Any, ...]]) -> list[Handle[R]]: ...
    @overload
    def start_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None]
    ) -> list[Handle[R] | KeyTaken]: ...
    def start_many(
        self, calls: Iterable[tuple[Any, ...]], *, keys: Sequence[str | None] | None = None
    ) -> list[Handle[R]] | list[Handle[R] | KeyTaken]:
        """As `WorkflowType.start_many`, with these options."""
        from durable.client import start

        return start.start_many(self.definition, calls, self.chosen, keys=keys)


def _child(
    definition: WorkflowType[P, R], args: tuple[Any, ...], kwargs: Mapping[str, Any], options: StartOptions
) -> Child[R]:
    if not workflow_context.in_turn():
        shown = definition.fn.__name__
        raise OutsideWorkflow(f"{shown}.execute(...)", f"Elsewhere, {shown}.start(...) begins one.")
    registry.workflow(definition.name)
    return children.execute(definition, args, kwargs, options)


def _detached(
    definition: WorkflowType[P, R], args: tuple[Any, ...], kwargs: Mapping[str, Any], options: StartOptions
) -> Handle[R]:
    from durable.client.handle import Handle

    registry.workflow(definition.name)
    engine = {name: value for name, value in kwargs.items() if name in START_NAMES}
    own = {name: value for name, value in kwargs.items() if name not in START_NAMES}
    child = children.execute(definition, args, own, options.with_(**engine), detached=True)
    return Handle(child.id, hint=definition.result_hint)


# --- the decorator -------------------------------------------------------------------------------------------------


class _TakesWorkflow(Protocol):
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> WorkflowType[P, R]: ...


@overload
def workflow(fn: Callable[P, Coroutine[Any, Any, R]], /) -> WorkflowType[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    queue: str = "default",
    timeout: timedelta | None = None,
    blocks_on: tuple[type[BaseException], ...] = CODE_ERRORS,
) -> _TakesWorkflow: ...
def workflow(fn: Callable[..., Any] | None = None, /, **options: Any) -> object:
    """Makes an `async def` function a workflow type: `@workflow`, or `@workflow(...)` with options.

    `name` (else `app_label.function`); `queue`; `timeout`, the time in which each must have ended (else none);
    `blocks_on`, the errors that are bugs in its code: one that leaves the function blocks the workflow until its code
    is repaired, and all others fail it. Raises `ConfigurationError`, `AlreadyRegistered`.
    """
    chosen = declarations.chosen("workflow", fn, options)

    def register(function: Callable[..., Any]) -> WorkflowType[..., Any]:
        declarations.check_workflow(function, chosen)
        definition: WorkflowType[..., Any] = WorkflowType(function, **chosen)
        registry.add_workflow(definition)
        return definition

    return register if fn is None else register(fn)

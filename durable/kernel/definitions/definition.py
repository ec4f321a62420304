"""What the registry holds: the functions that are activities and workflow types, with what their decorators said.

The verbs of callers (`start`, `enqueue`, ...) are not known here: `durable.decorators` adds them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar, cast

from durable.errors import CODE_ERRORS
from durable.kernel.definitions.declarations import implied_name
from durable.kernel.definitions.naming import labels
from durable.kernel.definitions.options import OnDeadLetter, OnExhausted
from durable.kernel.definitions.retry import Retry
from durable.kernel.payloads.arguments import ArgumentPlan
from durable.kernel.payloads.hints import resolved

P = ParamSpec("P")
R = TypeVar("R")


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
        if self._name_of != labels.generation:
            self._name = self.explicit_name or implied_name(self.fn, labels.label_for)
            self._name_of = labels.generation
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
    """A registered activity: its function, and the options that hold where a call gives none."""

    def __init__(
        self,
        fn: Callable[P, Any],
        *,
        name: str | None = None,
        retry: Retry | None = None,
        start_to_close: timedelta | None = None,
        heartbeat_timeout: timedelta | None = None,
        queue: str = "default",
        on_dead_letter: OnDeadLetter | None = None,
        on_exhausted: OnExhausted = "fail",
        transactional: bool = False,  # a property of the handler, not a choice of the caller's
    ) -> None:
        super().__init__(fn, name=name, queue=queue)
        self.retry = retry
        self.start_to_close = start_to_close
        self.heartbeat_timeout = heartbeat_timeout
        self.on_dead_letter: OnDeadLetter | None = on_dead_letter
        self.on_exhausted: OnExhausted = on_exhausted
        self.transactional = transactional


class WorkflowDefinition(Definition, Generic[P, R]):
    """A registered workflow type."""

    def __init__(
        self,
        fn: Callable[P, Coroutine[Any, Any, R]],
        *,
        name: str | None = None,
        queue: str = "default",
        timeout: timedelta | None = None,
        blocks_on: tuple[type[BaseException], ...] = CODE_ERRORS,
    ) -> None:
        super().__init__(fn, name=name, queue=queue)
        self.timeout = timeout
        self.blocks_on = blocks_on

"""Doubles of activities, in `drain` and `run`: fakes that are called in their place, and injected faults."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from asgiref.sync import async_to_sync

from durable.errors.showing import full_name, is_a, real_mro
from durable.kernel.definitions.definition import ActivityDefinition
from durable.kernel.definitions.registry import registry
from durable.worker.handlers.execute import Call

Handler = Callable[..., Any]
AnyActivity: TypeAlias = ActivityDefinition[Any, Any] | str

_fakes: dict[str, tuple[Handler, Replaced]] = {}
_wrappers: dict[str, list[Callable[[Handler], Handler]]] = {}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One call of a fake: the activity's registered name and the arguments, by position wherever that is possible."""

    activity: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(slots=True)
class Replaced:
    """The calls of the fakes, in order."""

    calls: list[Recorded] = field(default_factory=list)

    def of(self, activity: AnyActivity) -> list[Recorded]:
        """The calls of one activity."""
        name = name_of(activity)
        return [call for call in self.calls if call.activity == name]


def name_of(activity: AnyActivity) -> str:
    """The registered name. Raises `NotRegistered` for text that is none."""
    return registry.activity(activity).name if isinstance(activity, str) else activity.name


@contextmanager
def replaced(fakes: Mapping[AnyActivity, Handler]) -> Iterator[Replaced]:
    """Calls fakes in place of the handlers of these activities (given as such, or by registered name) for a block.

    A fake is any callable, `async def` functions and mocks included. It gets the decoded arguments; its result is
    encoded by the annotation of the real handler, and its errors are retried, as for the real one. `activity_info()`
    works in it. Only `drain` and `run` use fakes; the innermost block wins. Yields the record of all calls.
    """
    record = Replaced()
    by_name: dict[str, tuple[Handler, Replaced]] = {}
    for activity, fake in fakes.items():
        if not callable(fake):
            raise TypeError(f"The fake of {name_of(activity)} is {fake!r}, which cannot be called.")
        by_name[name_of(activity)] = (fake, record)
    before = dict(_fakes)
    _fakes.update(by_name)
    try:
        yield record
    finally:
        _fakes.clear()
        _fakes.update(before)


@contextmanager
def wrapped(activity: str, wrapper: Callable[[Handler], Handler]) -> Iterator[None]:
    """Wraps the handler of an activity, or its fake, for a block."""
    _wrappers.setdefault(activity, []).append(wrapper)
    try:
        yield
    finally:
        _wrappers[activity].remove(wrapper)


class Standing:
    """A call of the current handler (real or fake), on this thread, whatever kind of function it is."""

    def __init__(self, call: Call) -> None:
        definition = call.definition
        definition.result_hint  # noqa: B018 - worked out from the real function, before the copy gets another one
        stand_in = copy.copy(definition)
        stand_in.fn, stand_in.is_async = self._handle, False
        self.interruption: BaseException | None = None
        self._handler = _handler(definition)
        self.call = replace(call, definition=stand_in)

    def _handle(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._handler(*args, **kwargs)
        except BaseException as error:
            # Ctrl-C, and pytest's own outcomes (its timeout among them), are about the test and not about the activity.
            if is_a(error, KeyboardInterrupt) or any(map(_is_of_pytest, real_mro(type(error)))):
                self.interruption = error
            raise


def _is_of_pytest(kind: type) -> bool:
    return full_name(kind).startswith("_pytest.")


def _handler(definition: ActivityDefinition[Any, Any]) -> Handler:
    name = definition.name
    double = _fakes.get(name)
    handler: Handler = definition.fn if double is None else _recording(definition, *double)
    handler = _awaiting(handler)
    for wrapper in _wrappers.get(name, ()):
        handler = wrapper(handler)
    return handler


def _recording(definition: ActivityDefinition[Any, Any], fake: Handler, record: Replaced) -> Handler:
    def call(*args: Any, **kwargs: Any) -> Any:
        # Payloads are keyed by name. A fake may name its parameters differently, so arguments are passed by position if
        # possible.
        bound = definition.signature.bind(*args, **kwargs)
        record.calls.append(Recorded(definition.name, bound.args, bound.kwargs))
        return fake(*bound.args, **bound.kwargs)

    return call


def _awaiting(handler: Handler) -> Handler:
    """Django's bridge, not `asyncio.run`: the async ORM then works on this thread, in the test's own transaction."""

    def call(*args: Any, **kwargs: Any) -> Any:
        answer = handler(*args, **kwargs)
        if not inspect.isawaitable(answer):
            return answer
        value, error = async_to_sync(_awaited)(answer)
        if error is not None:
            raise error
        return value

    return call


async def _awaited(answer: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The outcome of a call. The error is returned as a value, since the bridge would inspect a raised one and might
    raise itself.
    """
    try:
        return await answer, None
    except BaseException as error:  # noqa: BLE001 - the handler's own, whatever it is
        return None, error

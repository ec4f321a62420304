"""Starting workflows and enqueueing single activities, one or many, in the caller's transaction.

Everything is checked before anything is written: arguments, values, keys, options.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, overload

from asgiref.sync import sync_to_async

from durable import tracing
from durable.client import ids
from durable.client.handle import Handle
from durable.client.places import outside_workflows, synchronous
from durable.conf import settings
from durable.errors import ArgumentsMismatch, KeyTaken, OptionInvalid, PayloadError, PayloadTooLarge
from durable.flow.caller import enqueue as enqueueing
from durable.flow.caller import start as starting
from durable.kernel.codec import encode_arguments
from durable.kernel.definitions.definition import ActivityDefinition, Definition, WorkflowDefinition
from durable.kernel.definitions.options import (
    ENQUEUE_NAMES,
    RESERVED_NAMES,
    START_NAMES,
    ActivityOptions,
    StartOptions,
    Terms,
    check_key,
    resolve,
)
from durable.outcomes import KeyHeld, Started

R = TypeVar("R")
Options = TypeVar("Options", StartOptions, ActivityOptions)
Startable: TypeAlias = WorkflowDefinition[Any, R] | ActivityDefinition[Any, R]
StartOutcome: TypeAlias = Handle[R] | KeyTaken


def start(
    definition: WorkflowDefinition[Any, R], args: tuple[Any, ...], kwargs: Mapping[str, Any], options: StartOptions
) -> Handle[R]:
    """Begins a workflow. See `WorkflowType.start`."""
    shown = definition.fn.__name__
    synchronous(f"{shown}.start(...)", f"{shown}.astart(...)")
    _refuse_children_only(options)
    for name in RESERVED_NAMES & kwargs.keys():
        raise OptionInvalid(name, kwargs[name], "a keyword that start(...) will have in a later release")
    own, options = _divided(kwargs, options, START_NAMES)
    workflow_id = ids.new()
    payload = _payload(definition, args, own, kwargs, workflow_id)
    with tracing.asking("start", definition.name):
        new = _new_workflow(definition, workflow_id, payload, options, options.key)
        return _handle(_outcomes(definition, starting.start([new]), options)[0])


async def astart(
    definition: WorkflowDefinition[Any, R], args: tuple[Any, ...], kwargs: Mapping[str, Any], options: StartOptions
) -> Handle[R]:
    """`start`, on the connection of the async caller."""
    outside_workflows(f"{definition.fn.__name__}.astart(...)")
    return await sync_to_async(start, thread_sensitive=True)(definition, args, kwargs, options)


@overload
def start_many(
    definition: WorkflowDefinition[Any, R], calls: Iterable[tuple[Any, ...]], options: StartOptions, *, keys: None
) -> list[Handle[R]]: ...
@overload
def start_many(
    definition: WorkflowDefinition[Any, R],
    calls: Iterable[tuple[Any, ...]],
    options: StartOptions,
    *,
    keys: Sequence[str | None],
) -> list[StartOutcome[R]]: ...
def start_many(
    definition: WorkflowDefinition[Any, R],
    calls: Iterable[tuple[Any, ...]],
    options: StartOptions,
    *,
    keys: Sequence[str | None] | None,
) -> list[Handle[R]] | list[StartOutcome[R]]:
    """Begins one workflow for each call. See `WorkflowType.start_many`."""
    shown = definition.fn.__name__
    synchronous(f"{shown}.start_many(...)", f"sync_to_async({shown}.start_many)(...)")
    _refuse_children_only(options)
    payloads, call_keys = _many(definition, calls, options, keys)
    with tracing.asking("start", definition.name):
        new = [_new_workflow(definition, *made, options, key) for made, key in zip(payloads, call_keys, strict=True)]
        outcomes = _outcomes(definition, starting.start(new), options) if new else []
    return [_handle(outcome) for outcome in outcomes] if keys is None else outcomes


def enqueue(
    definition: ActivityDefinition[Any, R], args: tuple[Any, ...], kwargs: Mapping[str, Any], options: ActivityOptions
) -> Handle[R]:
    """Enqueues a single activity. See `Activity.enqueue`."""
    shown = definition.fn.__name__
    synchronous(f"{shown}.enqueue(...)", f"{shown}.aenqueue(...)")
    own, options = _divided(kwargs, options, ENQUEUE_NAMES)
    workflow_id = ids.new()
    payload = _payload(definition, args, own, kwargs, workflow_id)
    terms = resolve(options.as_data(), definition, settings)
    with tracing.asking("enqueue", definition.name):
        new = _new_activity(definition, workflow_id, payload, options, terms, options.key)
        return _handle(_outcomes(definition, enqueueing.enqueue([new]), options)[0])


async def aenqueue(
    definition: ActivityDefinition[Any, R], args: tuple[Any, ...], kwargs: Mapping[str, Any], options: ActivityOptions
) -> Handle[R]:
    """`enqueue`, on the connection of the async caller."""
    outside_workflows(f"{definition.fn.__name__}.aenqueue(...)")
    return await sync_to_async(enqueue, thread_sensitive=True)(definition, args, kwargs, options)


@overload
def enqueue_many(
    definition: ActivityDefinition[Any, R], calls: Iterable[tuple[Any, ...]], options: ActivityOptions, *, keys: None
) -> list[Handle[R]]: ...
@overload
def enqueue_many(
    definition: ActivityDefinition[Any, R],
    calls: Iterable[tuple[Any, ...]],
    options: ActivityOptions,
    *,
    keys: Sequence[str | None],
) -> list[StartOutcome[R]]: ...
def enqueue_many(
    definition: ActivityDefinition[Any, R],
    calls: Iterable[tuple[Any, ...]],
    options: ActivityOptions,
    *,
    keys: Sequence[str | None] | None,
) -> list[Handle[R]] | list[StartOutcome[R]]:
    """Enqueues one activity for each call. See `Activity.enqueue_many`."""
    shown = definition.fn.__name__
    synchronous(f"{shown}.enqueue_many(...)", f"sync_to_async({shown}.enqueue_many)(...)")
    payloads, call_keys = _many(definition, calls, options, keys)
    terms = resolve(options.as_data(), definition, settings)
    made = zip(payloads, call_keys, strict=True)
    with tracing.asking("enqueue", definition.name):
        new = [_new_activity(definition, *each, options, terms, key) for each, key in made]
        outcomes = _outcomes(definition, enqueueing.enqueue(new), options) if new else []
    return [_handle(outcome) for outcome in outcomes] if keys is None else outcomes


# --- what is checked -----------------------------------------------------------------------------------------------


def _refuse_children_only(options: StartOptions) -> None:
    if options.parent_close is not None:
        raise OptionInvalid("parent_close", options.parent_close, "for execute(...) in workflow code only")


def _divided(kwargs: Mapping[str, Any], options: Options, names: frozenset[str]) -> tuple[dict[str, Any], Options]:
    """The handler's keywords, and the options with those of the engine's that were among the keywords."""
    engine = {name: value for name, value in kwargs.items() if name in names}
    if not engine:
        return dict(kwargs), options
    return {name: value for name, value in kwargs.items() if name not in names}, options.with_(**engine)


def _payload(
    definition: Definition,
    args: tuple[Any, ...],
    own: Mapping[str, Any],
    keywords: Mapping[str, Any],
    workflow_id: uuid.UUID,
) -> str:
    try:
        return encode_arguments(definition, args, own, codec=settings.codec(), workflow_id=workflow_id)
    except ArgumentsMismatch as error:
        shadowed = [name for name in keywords if name not in own and name in definition.signature.parameters]
        if not shadowed:
            raise
        problem = (
            f"{error.problem}; the keyword {shadowed[0]!r} belongs to the engine here, so pass that one by position"
        )
        raise ArgumentsMismatch(error.name, error.signature, problem) from None


def _many(
    definition: Definition,
    calls: Iterable[tuple[Any, ...]],
    options: StartOptions | ActivityOptions,
    keys: Sequence[str | None] | None,
) -> tuple[list[tuple[uuid.UUID, str]], list[str | None]]:
    """Id and payload of each, and the keys."""
    if options.key is not None:
        raise OptionInvalid("key", options.key, "for one at a time; give `keys=`, one for each call")
    payloads = [
        (workflow_id, _payload_of_many(definition, number, call, workflow_id))
        for number, call in enumerate(calls)
        for workflow_id in [ids.new()]
    ]
    if keys is None:
        return payloads, [None] * len(payloads)
    if isinstance(keys, str) or len(keys) != len(payloads):
        raise OptionInvalid("keys", keys, f"a sequence with one key (or None) for each of the {len(payloads)} calls")
    return payloads, list(keys)


def _payload_of_many(definition: Definition, number: int, call: Any, workflow_id: uuid.UUID) -> str:
    if not isinstance(call, tuple | list):
        problem = f"call {number} is of {type(call).__name__}, not a tuple of positional arguments"
        raise ArgumentsMismatch(definition.name, definition.plan.shown_signature, problem)
    try:
        return _payload(definition, tuple(call), {}, {}, workflow_id)
    except ArgumentsMismatch as error:
        raise ArgumentsMismatch(error.name, error.signature, f"call {number}: {error.problem}") from None
    except PayloadTooLarge as error:
        raise PayloadTooLarge(f"call {number}: {error.path}", error.size, error.limit) from None
    except PayloadError as error:
        raise PayloadError(f"call {number}: {error.path}", error.problem, error.cure) from None


def _checked_key(key: str | None) -> str | None:
    if key is not None:
        check_key(key, settings.max_key_length)
    return key


# --- what is written -----------------------------------------------------------------------------------------------


def _new_workflow(
    definition: WorkflowDefinition[Any, Any],
    workflow_id: uuid.UUID,
    payload: str,
    options: StartOptions,
    key: str | None,
) -> starting.NewWorkflow:
    return starting.new_workflow(
        id=workflow_id,
        type=definition.name,
        payload=payload,
        key=_checked_key(key),
        queue=options.queue or definition.queue,
        priority=options.priority or 0,
        timeout=options.timeout or definition.timeout,
        start_at=options.start_at,
    )


def _new_activity(
    definition: ActivityDefinition[Any, Any],
    workflow_id: uuid.UUID,
    payload: str,
    options: ActivityOptions,
    terms: Terms,
    key: str | None,
) -> enqueueing.NewActivity:
    return enqueueing.new_activity(
        id=workflow_id,
        activity=definition.name,
        payload=payload,
        key=_checked_key(key),
        queue=terms.queue,
        priority=terms.priority or 0,
        start_at=options.start_at,
        options=terms.options,
        attempt_budget=terms.attempt_budget,
        delivery_budget=terms.delivery_budget,
    )


def _outcomes(
    definition: Startable[R], answers: Sequence[Started | KeyHeld], options: StartOptions | ActivityOptions
) -> list[StartOutcome[R]]:
    outcomes: list[StartOutcome[R]] = []
    for answer in answers:
        if isinstance(answer, Started):
            outcomes.append(Handle(answer.workflow_id, hint=definition.result_hint))
        elif options.on_conflict == "existing":
            outcomes.append(Handle(answer.holder, hint=definition.result_hint))
        else:
            outcomes.append(KeyTaken(definition.name, answer.key, answer.holder))
    return outcomes


def _handle(outcome: StartOutcome[R]) -> Handle[R]:
    if isinstance(outcome, KeyTaken):
        raise outcome
    return outcome

"""One attempt of one activity: decode, run, encode, and decide the outcome. No threads; of the database only its clock.

`run` is the whole of it, for callers without a pool (`durable.testing`). The worker's pools use its parts: `prepare`,
then `perform` or `perform_async`, with what `Call` says about errors and timeouts.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import structlog
from django.db import Error as DatabaseFault
from django.db import connections

from durable import clock, tracing
from durable.conf import settings
from durable.errors import AlreadyRegistered, NoRetry, NotRegistered, PayloadError, RetryAfter
from durable.errors.showing import is_a
from durable.kernel.codec import Codec, decode_arguments
from durable.kernel.context import activity_context
from durable.kernel.context.activity_context import ActivityInfo
from durable.kernel.definitions.definition import ActivityDefinition
from durable.kernel.definitions.options import resolve
from durable.kernel.definitions.registry import registry
from durable.kernel.definitions.retry import Retry
from durable.kernel.limits import MAX_SPAN
from durable.kernel.payloads import birthplace
from durable.kernel.texts.failure import describe
from durable.outcomes import (
    AckOutcome,
    Cancelled,
    Cause,
    Claim,
    Completed,
    Ending,
    Failed,
    Failure,
    RetryLater,
)
from durable.worker.handlers.delivery import Delivery
from durable.worker.threads.logs import of_claim

LONGEST_PUT_OFF = timedelta(seconds=5)
"""A row with an unknown handler is postponed by this, or by a tenth of `UNKNOWN_HANDLER_FOR` if that is less."""

PUT_OFF_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The handler was not run: a failed delivery, to be abandoned with its cause."""

    claim: Claim
    cause: Cause
    failure: Failure
    error: BaseException | None = field(default=None, compare=False, repr=False)


class Lacking(StrEnum):
    """What a postponed delivery lacked."""

    HANDLER = "unknown_handler"
    CONNECTION = "no_connection"


@dataclass(frozen=True, slots=True)
class PutOff:
    """The handler could not begin here yet: to be postponed uncounted."""

    claim: Claim
    delay: timedelta
    lacking: Lacking = Lacking.HANDLER


@dataclass(frozen=True, slots=True)
class Committed:
    """A transactional handler: its writes and its completion are committed (or the token was gone, and nothing is)."""

    claim: Claim
    outcome: AckOutcome


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """A transactional handler whose commit failed for good; nothing of it is written. To be abandoned."""

    claim: Claim
    failure: Failure
    error: BaseException | None = field(default=None, compare=False, repr=False)


Outcome = Ending | GiveUp | PutOff | Committed | CommitFailed


@dataclass(frozen=True, slots=True)
class Call:
    """A handler with its arguments, ready to be called once."""

    claim: Claim
    definition: ActivityDefinition[..., Any]
    args: tuple[Any, ...] = field(repr=False)
    kwargs: dict[str, Any] = field(repr=False)
    retry: Retry
    start_to_close: timedelta | None
    heartbeat_timeout: timedelta | None
    codec: Codec
    rng: random.Random

    def encoded(self, value: Any) -> str:
        """The result as payload. Raises `PayloadError` for what cannot be carried."""
        born = birthplace.result(self.claim.workflow_id, self.claim.ordinal)
        return self.codec.encode(value, self.definition.result_hint, path="result", birthplace=born)

    def failed(self, error: BaseException, delivery: Delivery) -> Ending:
        """The ending of an attempt that raised. A result that cannot be encoded is not tried again, nor is `NoRetry`;
        `RetryAfter` says itself when the next attempt is due.
        """
        wait = _wait_of(error)
        final = wait is None and (is_a(error, PayloadError, NoRetry) or self.retry.gives_up(type(error)))
        return self._ending(describe(error), error, Cause.APPLICATION_ERROR, delivery, final=final, wait=wait)

    def timed_out(self, delivery: Delivery) -> Ending:
        """The ending of an attempt that ran longer than `start_to_close`."""
        span = self.start_to_close or timedelta()
        text = f"{self.claim.activity} ran longer than its start_to_close of {span}."
        return self._too_late(text, Cause.TIMEOUT, delivery)

    def fell_silent(self, delivery: Delivery) -> Ending:
        """The ending of an attempt that sent no heartbeat for longer than `heartbeat_timeout`."""
        span = self.heartbeat_timeout or timedelta()
        text = f"{self.claim.activity} sent no heartbeat for longer than its heartbeat_timeout of {span}."
        return self._too_late(text, Cause.HEARTBEAT_TIMEOUT, delivery)

    def _too_late(self, text: str, cause: Cause, delivery: Delivery) -> Ending:
        error = TimeoutError(text)
        final = self.retry.gives_up(TimeoutError)
        return self._ending(Failure("TimeoutError", text), error, cause, delivery, final=final)

    def _ending(
        self,
        failure: Failure,
        error: BaseException,
        cause: Cause,
        delivery: Delivery,
        *,
        final: bool,
        wait: timedelta | None = None,
    ) -> Ending:
        claim, heartbeat = self.claim, delivery.heartbeat
        started_at = delivery.started_at or clock.host_now()
        if delivery.cancel_requested:
            return Cancelled(claim, heartbeat)  # no attempt starts after a request to stop
        is_last = claim.attempt_budget is not None and claim.attempt >= claim.attempt_budget
        if final or is_last:
            return Failed(claim, failure, cause, started_at, heartbeat, spent=not final, error=error)
        delay = self.retry.delay(claim.attempt, self.rng) if wait is None else wait
        return RetryLater(claim, failure, cause, started_at, delay // timedelta(microseconds=1), heartbeat)


def run(
    claim: Claim,
    *,
    rng: random.Random,
    delivery: Delivery | None = None,
    now: Callable[[], datetime] | None = None,
) -> Outcome:
    """Makes one attempt of a claim in this thread and returns the outcome to be written. Writes nothing.

    Async handlers run in an event loop of their own. A transactional handler runs here as a plain one: committing it
    is `transactional.run`.
    """
    delivery = delivery or Delivery(claim)
    call = prepare(claim, rng=rng, now=now)
    if not isinstance(call, Call):
        return call
    delivery.begin()
    if call.definition.is_async:
        return asyncio.run(perform_async(call, delivery))
    return perform(call, delivery)


def prepare(claim: Claim, *, rng: random.Random, now: Callable[[], datetime] | None = None) -> Call | GiveUp | PutOff:
    """Finds the handler and decodes its input.

    An input that does not decode, or does not match the handler, is a failed delivery; so is an unknown handler once
    `UNKNOWN_HANDLER_FOR` has passed since the row was staged, by the database's clock.
    """
    try:
        definition = registry.activity(claim.activity)
    except (NotRegistered, AlreadyRegistered) as unknown:
        return _unknown(claim, unknown, rng=rng, now=now or _database_now)
    codec = settings.codec()
    try:
        args, kwargs = decode_arguments(definition, claim.payload, codec=codec, workflow_id=claim.workflow_id)
        if claim.last_heartbeat is not None:
            # Read it now: inside the handler a missing key would fail the activity, not only its delivery.
            born = birthplace.heartbeat(claim.workflow_id, claim.ordinal)
            codec.unseal(claim.last_heartbeat, path="last_heartbeat", birthplace=born)
        terms = resolve(claim.options, definition, settings)
    # Decoding runs code of the user's: codecs, dataclasses, enums. Whatever it raises, the input does not decode.
    except BaseException as error:  # noqa: BLE001
        return GiveUp(claim, Cause.UNDECODABLE_INPUT, describe(error), error)
    return Call(
        claim=claim,
        definition=definition,
        args=args,
        kwargs=kwargs,
        retry=terms.retry,
        start_to_close=terms.start_to_close,
        heartbeat_timeout=terms.heartbeat_timeout,
        codec=codec,
        rng=rng,
    )


def perform(call: Call, delivery: Delivery) -> Ending:
    """Runs a sync handler in this thread and returns its ending."""
    try:
        return completed(call, delivery)
    # User code. SystemExit and KeyboardInterrupt raised by it are its own errors: signals reach the main thread only.
    except BaseException as error:  # noqa: BLE001
        return call.failed(error, delivery)


async def perform_async(call: Call, delivery: Delivery) -> Ending:
    """Runs an async handler in this loop and returns its ending."""
    try:
        with tracing.attempt(call.claim):
            _enter(call, delivery)
            value = await call.definition.fn(*call.args, **call.kwargs)
        payload = call.encoded(value)
    # User code, as above. A cancellation that was asked for becomes `Cancelled` in `failed`.
    except BaseException as error:  # noqa: BLE001
        return call.failed(error, delivery)
    return Completed(call.claim, payload, delivery.heartbeat)


def completed(call: Call, delivery: Delivery) -> Completed:
    """Runs a sync handler in this thread and returns its completion. Raises what the handler raised."""

    def handled() -> Any:
        with tracing.attempt(call.claim):
            _enter(call, delivery)
            return call.definition.fn(*call.args, **call.kwargs)

    # In a copy of the context: what one handler sets (a language, a context variable) must not reach the next one.
    value = contextvars.copy_context().run(handled)
    return Completed(call.claim, call.encoded(value), delivery.heartbeat)


def _unknown(
    claim: Claim, unknown: NotRegistered | AlreadyRegistered, *, rng: random.Random, now: Callable[[], datetime]
) -> GiveUp | PutOff:
    patience = settings.unknown_handler_for
    try:
        waiting = now() < claim.created_at + patience
    except DatabaseFault:  # the time is not available: nothing may be counted against the row
        waiting = True
    if waiting:
        return PutOff(claim, min(LONGEST_PUT_OFF, patience / 10) * rng.uniform(1 - PUT_OFF_JITTER, 1 + PUT_OFF_JITTER))
    return GiveUp(claim, Cause.UNKNOWN_HANDLER, describe(unknown), unknown)


def _enter(call: Call, delivery: Delivery) -> None:
    """Sets up a handler's context: `activity_info()`, and the fields of its log lines. Each handler has its own
    context, which ends with it.
    """
    claim = call.claim

    info = ActivityInfo(
        workflow_id=claim.workflow_id,
        ordinal=claim.ordinal,
        attempt=claim.attempt,
        delivery=claim.delivery,
        idempotency_key=claim.idempotency_key,
        codec=call.codec,
        cancel_requested=lambda: delivery.cancelled,
        beat=delivery.beat,
        last_heartbeat=claim.last_heartbeat,
    )
    activity_context.current.set(info)
    activity_context.claimed.set(claim)
    structlog.contextvars.bind_contextvars(**of_claim(claim))


def _wait_of(error: BaseException) -> timedelta | None:
    """The wait that a `RetryAfter` asks for, at most the longest span; None for other errors, and for one of a derived
    class that does not say.
    """
    if not is_a(error, RetryAfter):
        return None
    try:
        return min(RetryAfter.wait(error, clock.host_now()), MAX_SPAN)  # type: ignore[arg-type]  # is_a does not narrow
    except BaseException:  # noqa: BLE001 - a derived class is anybody's
        return None


def _database_now() -> datetime:
    return clock.database_now(connections[settings.database_alias])

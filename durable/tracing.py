"""The caller's trace goes on: through the start, each turn and each attempt, as spans of OpenTelemetry.

Imports nothing of OpenTelemetry. A process in which nobody else has imported its API has no trace and no exporter, so
there is nothing to do, and each function returns at once. Only the W3C trace context is stored, never the baggage,
which may hold anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final

from durable.conf import settings
from durable.errors.showing import class_name
from durable.kernel.history.events import TRACE
from durable.outcomes import Claim

Carrier = Mapping[str, str]
"""`traceparent` and, if there is one, `tracestate`: what is stored of a trace."""

Attributes = dict[str, str | int]

LONGEST_STATE: Final = 512
"""Characters of a `tracestate`; a longer one is not stored."""

FLUSH_MS: Final = 2_000

_NOTHING: AbstractContextManager[None] = nullcontext()


def current() -> Carrier | None:
    """The trace in which the calling code runs, to be stored; None if there is none."""
    api = sys.modules.get("opentelemetry.trace")
    return None if api is None else _carrier(api, api.get_current_span())


def asking(verb: str, name: str) -> AbstractContextManager[None]:
    """A span around a start or an enqueue, whose rows store it with `current`."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return _NOTHING
    return _within(api, f"{verb} {name}", api.SpanKind.PRODUCER, None, {"durable.name": name})


def attempt(claim: Claim) -> AbstractContextManager[None]:
    """A span around a handler, for which it is the current one."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return _NOTHING
    attributes: Attributes = {
        "durable.name": claim.activity,
        "durable.workflow.id": str(claim.workflow_id),
        "durable.run": claim.run,
        "durable.ordinal": claim.ordinal,
        "durable.attempt": claim.attempt,
        "durable.delivery": claim.delivery,
    }
    return _within(api, f"run {claim.activity}", api.SpanKind.CONSUMER, claim.options.get(TRACE), attributes)


class Turn:
    """One turn of a workflow: a span, if there is anybody for it, and what the rows that it stages store.

    `end` exports the span, after the commit; a turn that is rolled back, or whose plan did not stand, leaves none.
    A child of the workflow stores `carrier` as its rows do.
    """

    __slots__ = ("_span", "carrier")

    def __init__(self, type: str, *, trace: Carrier | None, workflow_id: str, run: int) -> None:
        self.carrier = trace
        self._span: Any = None
        api = sys.modules.get("opentelemetry.trace")
        if api is not None:
            self._span = _tracer(api).start_span(
                f"turn {type}",
                context=_context(trace),
                kind=api.SpanKind.CONSUMER,
                attributes={"durable.name": type, "durable.workflow.id": workflow_id, "durable.run": run},
            )
            self.carrier = _carrier(api, self._span) or trace

    def end(self, *, blocked_by: str = "", **attributes: str | int) -> None:
        """It is committed. `blocked_by` is the kind of error that has blocked the workflow."""
        if self._span is None:
            return
        for key, value in attributes.items():
            self._span.set_attribute(f"durable.{key}", value)
        if blocked_by:
            _fail(sys.modules["opentelemetry.trace"], self._span, blocked_by)
        self._span.end()


def flush() -> None:
    """Before a process ends without Python's farewell: exports what is left, for two seconds at most."""
    api: Any = sys.modules.get("opentelemetry.trace")
    export = None if api is None else getattr(api.get_tracer_provider(), "force_flush", None)
    if export is not None:
        with suppress(Exception):  # the project's exporter, and the process ends now
            export(FLUSH_MS)


@contextmanager
def _within(api: Any, name: str, kind: Any, trace: Carrier | None, attributes: Attributes) -> Iterator[None]:
    # Exceptions are recorded here and not by OpenTelemetry: their texts may quote payloads.
    with _tracer(api).start_as_current_span(
        name,
        context=_context(trace),
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            if span.is_recording():
                if settings.logs_texts_of_failures and isinstance(error, Exception):
                    span.record_exception(error)
                _fail(api, span, class_name(type(error)))
            raise


def _fail(api: Any, span: Any, description: str) -> None:
    span.set_status(api.Status(api.StatusCode.ERROR, description))


def _tracer(api: Any) -> Any:
    return api.get_tracer("durable", sys.modules["durable"].__version__)


def _context(trace: Carrier | None) -> Any:
    """The context that goes on with a stored trace. None: with the current one, if there is one."""
    if trace is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(trace)


def _carrier(api: Any, span: Any) -> Carrier | None:
    if not span.get_span_context().is_valid:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, context=api.set_span_in_context(span))
    if len(carrier.get("tracestate", "")) > LONGEST_STATE:
        del carrier["tracestate"]
    return carrier

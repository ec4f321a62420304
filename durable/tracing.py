"""The caller's trace goes on: through the start, each turn and each attempt, as spans of OpenTelemetry.

Imports nothing of OpenTelemetry. A process in which nobody else has imported its API has no trace and no exporter, so
there is nothing to do, and each function returns at once. Only the W3C trace context is stored, never the baggage,
which may hold anything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
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
    if api is None:
        return None
    with suppress(Exception):  # the project's provider and propagator
        return _carrier(api, api.get_current_span())
    return None


def asking(verb: str, name: str) -> AbstractContextManager[None]:
    """A span around a start or an enqueue, whose rows store it with `current`."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return _NOTHING
    return _Within(api, f"{verb} {name}", api.SpanKind.PRODUCER, None, {"durable.name": name})


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
    return _Within(api, f"run {claim.activity}", api.SpanKind.CONSUMER, claim.options.get(TRACE), attributes)


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
            with suppress(Exception):  # the project's provider and sampler
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
        with suppress(Exception):  # the project's provider and processors
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


class _Within:
    """A span around code of the project, current for it. The code's error passes as it is, whatever it may be like, and
    whatever the project's tracing does with it: a generator, which sets an error's traceback, would change some.
    """

    __slots__ = ("_api", "_arguments", "_detach", "_span")

    def __init__(self, api: Any, name: str, kind: Any, trace: Carrier | None, attributes: Attributes) -> None:
        self._api = api
        self._arguments = (name, kind, trace, attributes)
        self._span: Any = None
        self._detach: Callable[[], None] | None = None

    def __enter__(self) -> None:
        from opentelemetry import context

        name, kind, trace, attributes = self._arguments
        with suppress(Exception):  # the project's provider and sampler
            span = _tracer(self._api).start_span(name, context=_context(trace), kind=kind, attributes=attributes)
            self._detach = partial(context.detach, context.attach(self._api.set_span_in_context(span)))
            self._span = span

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._detach is not None:
            with suppress(Exception):
                self._detach()
        if self._span is None:
            return
        with suppress(Exception):
            # Errors are recorded here and not by OpenTelemetry: their texts may quote payloads.
            if kind is not None and self._span.is_recording():
                _fail(self._api, self._span, class_name(kind))
                if settings.logs_texts_of_failures and issubclass(kind, Exception):
                    with suppress(BaseException):  # whatever the error does when it is asked
                        self._span.record_exception(error)
        with suppress(Exception):
            self._span.end()


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

"""The caller's trace goes on through start, turn and activity, as a host's own exporter sees it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

import durable
from durable import activity, testing, tracing, workflow
from durable.kernel.history.events import TRACE
from durable.models import Event, OutboxRow
from tests import hostile
from tests.conftest import ROOT
from tests.worker.conftest import Plant
from tests.worker.launching import Launch, launch
from tests.worker.plant import activities, workflows
from tests.worker.processes import code_of

__all__ = ["launch"]

SECRET = "4111 1111 1111 1111"


class Exported:
    """What the host's exporter has got."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracer = self.provider.get_tracer("host")

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._memory.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def clear(self) -> None:
        self._memory.clear()


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    """A host whose SDK is set up. OpenTelemetry lets nobody set it up twice, so it is put there."""
    host = Exported()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: host.provider)
    monkeypatch.setattr(trace, "get_tracer", lambda *args, **kwargs: host.provider.get_tracer("durable"))
    yield host
    host.provider.shutdown()


def id_of(span: ReadableSpan) -> int:
    found = span.get_span_context()
    assert found is not None
    return found.span_id


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def traces(spans: list[ReadableSpan]) -> set[int]:
    return {found.trace_id for span in spans if (found := span.get_span_context())}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_start_turns_and_activities_are_one_trace_and_each_is_below_what_has_caused_it(
    plant: Plant, exported: Exported
) -> None:
    with exported.tracer.start_as_current_span("the view"):
        handle = workflows.three.start("a")
    plant.burst()
    assert handle.status() == "completed"
    assert len(traces(exported.spans)) == 1
    start = exported.one("start plant.three")
    assert parent_of(start) == id_of(exported.one("the view"))
    turns = exported.named("turn plant.three")
    assert len(turns) == 4
    assert {parent_of(turn) for turn in turns} == {id_of(start)}
    runs = exported.named("run plant.note_down")
    assert [parent_of(run) for run in runs] == [id_of(turn) for turn in turns[:3]]
    assert attributes(runs[1]) == {
        "durable.name": "plant.note_down",
        "durable.workflow.id": str(handle.id),
        "durable.run": 1,
        "durable.ordinal": 2,
        "durable.attempt": 1,
        "durable.delivery": 1,
    }
    assert attributes(turns[0])["durable.activities"] == 1
    assert SECRET not in str([span.to_json() for span in exported.spans])


def test_a_single_activity_and_what_its_handler_traces_itself(plant: Plant, exported: Exported) -> None:
    @activity(name="traced.inner")
    def inner() -> None:
        with exported.tracer.start_as_current_span("a request"):
            pass

    @activity(name="traced.inner_async")
    async def inner_async() -> None:
        await asyncio.sleep(0)
        with exported.tracer.start_as_current_span("an async request"):
            pass

    with exported.tracer.start_as_current_span("the view"):
        inner.enqueue()
        inner_async.enqueue_many([()])
    plant.burst()
    assert len(traces(exported.spans)) == 1
    assert parent_of(exported.one("a request")) == id_of(exported.one("run traced.inner"))
    assert parent_of(exported.one("an async request")) == id_of(exported.one("run traced.inner_async"))
    assert parent_of(exported.one("run traced.inner")) == id_of(exported.one("enqueue traced.inner"))


def test_a_child_goes_on_with_its_parents_trace(plant: Plant, exported: Exported) -> None:
    @workflow(name="traced.parent")
    async def parent() -> None:
        await workflows.three.execute("a")

    with exported.tracer.start_as_current_span("the view"):
        parent.start()
    testing.drain()
    assert len(traces(exported.spans)) == 1
    first = exported.named("turn traced.parent")[0]
    assert {parent_of(turn) for turn in exported.named("turn plant.three")} == {id_of(first)}


def test_replays_make_no_spans(plant: Plant, exported: Exported) -> None:
    with exported.tracer.start_as_current_span("the view"):
        handle = workflows.three.start("a")
    with testing.cold():
        testing.drain()
    assert len(exported.named("turn plant.three")) == 4
    exported.clear()
    testing.replay_here(testing.export_history(handle))
    assert exported.spans == []


def test_a_turn_that_is_rolled_back_leaves_no_span_and_its_activities_go_on_with_the_one_that_stands(
    plant: Plant, exported: Exported
) -> None:
    with exported.tracer.start_as_current_span("the view"):
        workflows.three.start("a")
    with testing.failing("turn", times=1):
        testing.drain()
    turns = exported.named("turn plant.three")
    assert len(turns) == 4
    assert {parent_of(run) for run in exported.named("run plant.note_down")} == {id_of(turn) for turn in turns[:3]}


def test_each_attempt_is_a_span_and_one_that_fails_says_so(plant: Plant, exported: Exported, settings: Any) -> None:
    with exported.tracer.start_as_current_span("the view"):
        activities.fail.enqueue(SECRET)
    plant.burst()
    runs = exported.named("run plant.fail")
    assert [attributes(run)["durable.attempt"] for run in runs] == [1, 2, 3]
    assert {run.status.description for run in runs} == {"RuntimeError"}
    assert [event.name for event in runs[0].events] == ["exception"]


@pytest.mark.parametrize("hiding", [{"LOG_FAILURES": "type"}, {"REDACT_PAYLOADS": True}], ids=str)
def test_texts_of_failures_stay_out_of_spans_as_they_stay_out_of_logs(
    plant: Plant, exported: Exported, settings: Any, hiding: dict[str, Any]
) -> None:
    settings.DURABLE = settings.DURABLE | hiding
    with exported.tracer.start_as_current_span("the view"):
        activities.fail.enqueue(SECRET)
    testing.drain()
    run = exported.named("run plant.fail")[0]
    assert (run.status.description, run.events) == ("RuntimeError", ())
    assert SECRET not in str([span.to_json() for span in exported.spans])


def test_a_blocked_turn_says_what_has_blocked_it(plant: Plant, exported: Exported) -> None:
    @workflow(name="traced.buggy")
    async def buggy() -> None:
        raise KeyError(SECRET)

    buggy.start()
    with pytest.raises(KeyError):
        testing.drain()
    turn = exported.one("turn traced.buggy")
    assert turn.status.description == "KeyError"
    assert SECRET not in turn.to_json()


def test_a_refused_start_fails_its_span(plant: Plant, exported: Exported) -> None:
    workflows.three.start("a", key="k")
    with pytest.raises(durable.KeyTaken):
        workflows.three.start("b", key="k")
    assert exported.named("start plant.three")[1].status.description == "KeyTaken"


def test_what_the_caller_rolls_back_is_gone_with_its_trace(plant: Plant, exported: Exported) -> None:
    class Back(Exception):
        pass

    def view() -> None:
        with transaction.atomic(), exported.tracer.start_as_current_span("the view"):
            workflows.three.start("a")
            raise Back

    with pytest.raises(Back):
        view()
    testing.drain()
    assert {span.name for span in exported.spans} == {"the view", "start plant.three"}


@pytest.mark.parametrize("processes", [[], ["--processes", "2"]], ids=["one", "two"])
def test_workers_of_other_processes_go_on_with_it_and_export_it_before_they_end(
    plant: Plant, exported: Exported, launch: Launch, tmp_path: Path, processes: list[str]
) -> None:
    """A child ends without Python's farewell, in which the SDK would export what it holds back."""
    with exported.tracer.start_as_current_span("the view"):
        workflows.three.start("a")
    file = tmp_path / "spans"
    assert code_of(launch("--burst", *processes, PLANT_TRACES=str(file))) == 0
    spans = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(span["name"] for span in spans) == ["run plant.note_down"] * 3 + ["turn plant.three"] * 4
    [view] = traces([exported.one("the view")])
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{view:032x}"}
    ids = {span["context"]["span_id"] for span in spans if span["name"].startswith("turn")}
    assert {span["parent_id"] for span in spans if span["name"].startswith("run")} < ids


# --- what is stored ---


def stored() -> list[Any]:
    return [event.data.get(TRACE) for event in Event.objects.filter(type="workflow_started")] + [
        row.options.get(TRACE) for row in OutboxRow.objects.order_by("id")
    ]


def within(state: list[tuple[str, str]]) -> context.Context:
    remote = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(0), trace_state=TraceState(state))
    return baggage.set_baggage("card", SECRET, trace.set_span_in_context(NonRecordingSpan(remote)))


def test_a_worker_without_an_exporter_passes_the_trace_on_and_the_decision_not_to_sample_too(plant: Plant) -> None:
    token = context.attach(within([("vendor", "x")]))
    try:
        workflows.three.start("a")
    finally:
        context.detach(token)
    testing.drain()
    carrier = {"traceparent": f"00-{0xABC:032x}-{0xDEF:016x}-00", "tracestate": "vendor=x"}
    assert stored() == [carrier] * 4
    assert SECRET not in str(stored()), "the baggage is the caller's"


def test_a_worker_in_which_nobody_has_opentelemetry_passes_the_trace_on(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = context.attach(within([]))
    try:
        workflows.three.start("a")
    finally:
        context.detach(token)
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    testing.drain()
    assert stored() == [{"traceparent": f"00-{0xABC:032x}-{0xDEF:016x}-00"}] * 4


def test_a_state_that_is_too_long_is_not_stored(plant: Plant) -> None:
    token = context.attach(within([(f"v{number}", "x" * 200) for number in range(5)]))
    try:
        activities.note.enqueue("a")
    finally:
        context.detach(token)
    assert stored() == [None, {"traceparent": f"00-{0xABC:032x}-{0xDEF:016x}-00"}]


def test_a_damaged_trace_hinders_nobody(plant: Plant, exported: Exported) -> None:
    workflows.three.start("a")
    for event in Event.objects.filter(type="workflow_started"):
        event.data[TRACE] = {"traceparent": "nonsense"}
        event.save()
    testing.drain()
    assert len(exported.named("turn plant.three")) == 4


def test_without_a_trace_nothing_is_stored_and_no_statement_is_added(plant: Plant, exported: Exported) -> None:
    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as caught:
            workflows.three.start("a")
            testing.drain()
        return [one["sql"].split()[0] for one in caught.captured_queries]

    with pytest.MonkeyPatch.context() as gone:
        gone.delitem(sys.modules, "opentelemetry.trace")
        statements()
        without = statements()
    assert stored() == [None] * 8
    with exported.tracer.start_as_current_span("the view"):
        assert statements() == without
    assert stored().count(None) == 8


def test_neither_a_caller_nor_a_worker_imports_opentelemetry(plant: Plant) -> None:
    code = (
        "import sys, django; from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'durable'],"
        " DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}}); django.setup()\n"
        "from django.core.management import call_command; call_command('migrate', verbosity=0)\n"
        "import durable; from durable import testing\n"
        "@durable.activity(name='a')\n"
        "def a(): pass\n"
        "@durable.workflow(name='w')\n"
        "async def w(): await a.execute()\n"
        "w.start(); a.enqueue(); testing.drain()\n"
        "print(*sorted(n for n in sys.modules if n.startswith(('opentelemetry', 'prometheus_client'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


def test_what_is_left_is_exported_before_a_process_ends_and_an_exporter_that_raises_hinders_nothing(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []

    def flush(millis: int) -> None:
        flushed.append(millis)
        raise ConnectionError

    monkeypatch.setattr(exported.provider, "force_flush", flush)
    tracing.flush()
    assert flushed == [2_000]


class TestTheCodesErrorIsItsOwn:
    """Whatever the tracing of the project does with it, and whatever it does when it is asked."""

    @pytest.fixture(params=["works", "raises at the start", "raises at the end"])
    def provider(self, request: pytest.FixtureRequest, exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("the project's provider")

        if request.param == "raises at the start":
            monkeypatch.setattr(type(exported.tracer), "start_span", broken)
        elif request.param == "raises at the end":
            for method in ("end", "set_status", "record_exception", "set_attribute"):
                monkeypatch.setattr("opentelemetry.sdk.trace.Span." + method, broken)

    @pytest.mark.parametrize("kind", [hostile.Liar, ValueError, SystemExit, asyncio.CancelledError])
    def test_an_error_leaves_the_span_as_it_came(self, provider: None, kind: type[BaseException]) -> None:
        error = kind()
        before = trace.get_current_span()
        try:
            with tracing.asking("start", "shop.checkout"):
                raise error
        except BaseException as caught:
            assert caught is error  # noqa: PT017 - `pytest.raises` asks more of an error than this one answers
        else:
            raise AssertionError("The error was lost.")
        assert trace.get_current_span() is before

    def test_turns_and_starts_go_on(self, plant: Plant, provider: None) -> None:
        handle = workflows.three.start("a")
        plant.burst()
        assert handle.status() == "completed"

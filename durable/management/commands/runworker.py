"""`manage.py runworker`: turns workflows and runs activities."""

from __future__ import annotations

import faulthandler
import logging
import os
import resource
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser, OutputWrapper

from durable import tracing
from durable.conf import settings
from durable.databases import refuse_unfit
from durable.errors import ConfigurationError, KeyInvalid
from durable.kernel.definitions.options import check_text
from durable.kernel.limits import MAX_QUEUE_LENGTH, MAX_WORKER_NAME_LENGTH
from durable.kernel.loop import asyncio_private
from durable.metrics.text import available as metrics_are_available
from durable.worker.process import forking, orphans, output, speaking
from durable.worker.process.health import HealthSocket, HealthThread, parse_address
from durable.worker.process.hurry import Hurry
from durable.worker.process.measuring import ChildMeasures, OwnMeasures, SharedMeasures
from durable.worker.process.modes import StoreAtStart, WorkerExit, WorkerMode
from durable.worker.process.pages import Pages
from durable.worker.process.reload import Code, CodeWatch, start_anew
from durable.worker.process.reports import Report, Reporter, State
from durable.worker.process.signals import StopSignals
from durable.worker.process.supervisor import Supervisor
from durable.worker.process.worker import Worker

SMALLEST_STACK = 2**20
"""Bytes of stack that each thread gets at least. Threads take the limit of the process (`ulimit -s`), and with a few
kilobytes a deep call ends the process."""


class Command(BaseCommand):
    """Parse, run a worker or a supervisor, exit with its code."""

    help = "Turn workflows, run activities. Exit codes: 0 clean, 2 wrong usage, 3 database not reached."

    def __init__(self, *args: Any, **options: Any) -> None:
        output.make_sure()  # before Django takes hold of the streams
        super().__init__(*args, **options)
        self.stderr = _Patient(options.get("stderr") or sys.stderr)
        self.stderr.style_func = self.style.ERROR

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queue", action="append", default=[], metavar="NAME", help="serve only this one; repeatable"
        )
        parser.add_argument("--concurrency", type=int, metavar="N", help="handlers at once, in each process")
        parser.add_argument("--processes", type=int, metavar="N", help="worker processes under a supervisor")
        parser.add_argument("--name", default="", help="the name of this worker (default: host, process and digits)")
        parser.add_argument("--burst", action="store_true", help="work until nothing is due now, then exit")
        parser.add_argument("--require-db", action="store_true", help="exit with 3 if the database is away at start")
        parser.add_argument(
            "--health", default="", metavar="ADDRESS:PORT", help="answer health checks, and scrapes, over HTTP"
        )
        parser.add_argument("--reload", action="store_true", help="restart when code changes")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("concurrency", "processes"):
            if options[name] is not None and options[name] < 1:
                raise CommandError(f"--{name} is {options[name]}; it has to be 1 or more.", returncode=WorkerExit.USAGE)
        try:
            asyncio_private.refuse_unfit()
            refuse_unfit(for_workers=True)
            for queue in options["queue"]:
                check_text("--queue", queue, MAX_QUEUE_LENGTH)
            if options["name"]:
                check_text("--name", options["name"], MAX_WORKER_NAME_LENGTH)
            if _owns_process():
                _prepare_process()
                if options["processes"] is None and orphans.adopts_orphans():
                    code_of_child = _as_first_process()
                    if code_of_child is not None:
                        _leave(code_of_child, flush_logs=True)
            health = HealthSocket(*parse_address(options["health"])) if options["health"] else None
            run = _one if options["processes"] is None else _many
            code = run(options, health)
        except (ConfigurationError, KeyInvalid) as wrong:
            raise CommandError(str(wrong), returncode=WorkerExit.USAGE) from wrong
        if code == WorkerExit.RESTART:
            start_anew()
        output.give_up()
        if code != WorkerExit.CLEAN:
            sys.exit(code)


def _one(options: dict[str, Any], health: HealthSocket | None) -> int:
    """One worker, in this process."""
    shown = _Progress()
    watch = CodeWatch() if options["reload"] else None

    def tick(worker: Worker) -> None:
        shown.show(_tally(worker), worker.complaints())
        if watch is not None and watch.look() is Code.CHANGED:
            worker.stop(WorkerExit.RESTART)

    worker = _worker(options, name=options["name"], on_tick=tick)
    measures = answering = None
    try:
        if health is not None:
            measures = OwnMeasures(worker) if metrics_are_available() else None
            pages = Pages(live=worker.faults, metrics=None if measures is None else measures.page)
            answering = HealthThread(health, worker.complaints, pages)
    except RuntimeError as full:
        text = f"No more threads on this machine ({full}). Raise `ulimit -u` or the pids limit of the container."
        raise CommandError(text, returncode=WorkerExit.MACHINE) from full
    try:
        hurry = Hurry(worker.cut_grace)
        with StopSignals(worker.stop, second=hurry) as signals:
            code = hurry.end(signals.code(worker.run()))
            if code != WorkerExit.RESTART and _owns_process():
                signals.stay_deaf()
    finally:
        shown.end()
        if answering is not None:
            answering.stop()
        if measures is not None:
            measures.stop()
    if code != WorkerExit.RESTART and (worker.has_handlers_running or not worker.is_heard) and _owns_process():
        # Python waits at its end for threads that asgiref made; a handler that never returns would hold it for ever.
        # So would a log handler that never returns: whoever flushes it waits for its lock.
        _leave(code, flush_logs=worker.is_heard)
    return code


def _many(options: dict[str, Any], health: HealthSocket | None) -> int:
    """A supervisor in this process, and workers in forked ones."""
    parent = os.getpid()
    shared = SharedMeasures(options["processes"]) if health is not None and metrics_are_available() else None

    def child(number: int, reporter: Reporter) -> int:
        def tick(worker: Worker) -> None:
            complaints = worker.complaints()
            state = State.WELL if not complaints else State.WAITING if worker.waits_for_store else State.RED
            reporter.tell(Report(state, "; ".join(complaints)))
            if measures is not None:
                measures.publish()
            if os.getppid() != parent:  # the supervisor is gone: nobody would forward a signal, or fill a gap
                worker.stop()

        name = f"{options['name']}-{number}" if options["name"] else ""
        worker = _worker(options, name=name, on_tick=tick)
        measures = None if shared is None else ChildMeasures(worker, number, shared)
        hurry = Hurry(worker.cut_grace)
        with StopSignals(worker.stop, second=hurry) as signals:
            code = hurry.end(signals.code(worker.run()))
            if measures is not None:
                measures.stop()
            signals.stay_deaf()
        tracing.flush()
        if (
            worker.is_heard
        ):  # this process ends without the farewell in which Python would write what handlers hold back
            logging.shutdown()
        return code

    shown = _Progress()
    watch = CodeWatch() if options["reload"] else None

    def tick(supervisor: Supervisor) -> None:
        shown.show(f"{len(supervisor.pids)} of {options['processes']} worker processes", supervisor.complaints())
        if watch is not None and watch.look() is Code.CHANGED:
            supervisor.stop(WorkerExit.RESTART)

    supervisor = Supervisor(
        child,
        processes=options["processes"],
        mode=_mode(options),
        grace=settings.grace_for,
        health=health,
        measures=shared,
        on_tick=tick,
        owns_process=_owns_process(),
    )
    try:
        code = supervisor.run()
    finally:
        shown.end()
        if health is not None:
            health.close()
    if code != WorkerExit.RESTART and not speaking.is_heard() and _owns_process():
        _leave(code, flush_logs=False)  # as for one worker: a flush would wait for the lock of what blocks
    return code


def _worker(options: dict[str, Any], *, name: str, on_tick: Any) -> Worker:
    return Worker(
        name=name,
        queues=options["queue"],
        concurrency=options["concurrency"],
        mode=_mode(options),
        at_start=StoreAtStart.REQUIRE if options["require_db"] else StoreAtStart.WAIT,
        on_tick=on_tick,
    )


def _mode(options: dict[str, Any]) -> WorkerMode:
    return WorkerMode.BURST if options["burst"] else WorkerMode.SERVE


def _tally(worker: Worker) -> str:
    tally = worker.tally
    return f"{worker.handlers.busy} running, {tally.done} done, {tally.failed} failed, {tally.retried} retried"


def _prepare_process() -> None:
    """What a worker needs of a process that is its own."""
    if not faulthandler.is_enabled():
        faulthandler.enable(file=2)  # a crash in a driver or in an extension says in which line of which thread
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if threading.stack_size() == 0 and 0 <= soft < SMALLEST_STACK:
        threading.stack_size(SMALLEST_STACK)


def _as_first_process() -> int | None:
    """In the first process of a container: run the worker in a child. None in that child."""
    forking.let_go()
    forking.tell_of_threads()
    output.flush()
    try:
        code = orphans.watch_over()
    except OSError as full:
        text = f"No more processes on this machine ({full}). Raise `ulimit -u` or the pids limit of the container."
        raise CommandError(text, returncode=WorkerExit.MACHINE) from full
    if code is None:
        forking.forget()
    return code


def _leave(code: int, *, flush_logs: bool) -> NoReturn:
    """Ends this process without waiting for threads."""
    tracing.flush()
    if flush_logs:
        logging.shutdown()
    output.flush()
    os._exit(code)


def _owns_process() -> bool:
    return threading.current_thread() is threading.main_thread() and Path(sys.argv[0]).name != "pytest"


class _Patient(OutputWrapper):
    """Standard error for the warnings of checks, which must not end a worker where nobody takes them."""

    def write(self, *args: Any, **options: Any) -> None:  # type: ignore[override] # as Django's own, which is no stream
        with suppress(OSError):
            super().write(*args, **options)


class _Progress:
    """One line on a terminal that says how far things are; nothing anywhere else."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last = ""

    def show(self, line: str, complaints: Sequence[str]) -> None:
        """Writes the line again if it has changed."""
        if not self._terminal:
            return
        if complaints:
            line = f"{line} ({complaints[0]})"
        if line != self._last:
            self._last = line
            self._write(f"\r\x1b[2K{line[:118]}")

    def end(self) -> None:
        """Ends the line."""
        if self._last:
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # the terminal has been closed; the worker goes on, or stops by SIGHUP
            self._terminal = False
            self._last = ""

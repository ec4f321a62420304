"""A thread that repeats one step, and survives database errors and bugs."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from django.db import Error as DatabaseFault
from django.db import connections

from durable.flow.transactions.faults import Fault, classify
from durable.flow.transactions.troubles import Trouble, trouble_of
from durable.kernel.texts.failure import for_log
from durable.logs import words
from durable.worker.threads import hygiene
from durable.worker.threads.logs import get_logger
from durable.worker.threads.wakeup import Wake

log = get_logger("durable.worker")

FIRST_REST = 0.1
LONGEST_REST = 5.0


class Pulse:
    """What health asks a loop: whether it is working, since when, and what is wrong with the database."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.busy_since: float | None = None
        self.trouble: str = ""
        self.is_bug = False
        """Whether the trouble is an error of ours and not the database's."""
        self.kind = Trouble.AWAY
        """If it is the database's: which kind."""
        self.troubled_since: float | None = None

    def begin(self) -> None:
        """A step begins."""
        self.busy_since = time.monotonic()

    def end(self) -> None:
        """The step is over."""
        self.busy_since = None

    def fail(self, trouble: str, *, kind: Trouble = Trouble.AWAY, is_bug: bool = False) -> None:
        """The step failed, because of the database or of a bug of ours."""
        self.trouble = trouble
        self.kind = kind
        self.is_bug = is_bug
        if self.troubled_since is None:
            self.troubled_since = time.monotonic()

    def recover(self) -> None:
        """A step succeeded."""
        self.trouble = ""
        self.is_bug = False
        self.troubled_since = None

    def complaint(self, *, stuck_after: float) -> str:
        """Why this loop is not well, in words; empty when it is."""
        if self.trouble and self.is_bug:
            return f"the {self.name} loop fails because of a bug of the engine: {self.trouble}"
        if self.trouble:
            cure = "" if self.kind.passes else f" ({self.kind.cure})"
            return f"the {self.name} loop {self.kind.says}: {self.trouble}{cure}"
        return self.stuck(stuck_after)

    def stuck(self, seconds: float) -> str:
        """Says so, if its step has not come back for longer than that; empty if it has."""
        since = self.busy_since
        if since is not None and time.monotonic() - since > seconds:
            return f"the {self.name} loop has been stuck for {time.monotonic() - since:.0f} s"
        return ""


class Loop:
    """Runs `step` on a separate thread until stopped. `step` returns how many seconds to rest (0: none).

    After an error the step is repeated with a jittered back-off, on a new connection each time. A database error is
    logged once for each kind of trouble, with its cure; any other is a bug of ours, and logged each time.
    The thread ends only by `stop`, and closes its connections when it does. `prepare` comes before each step.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float],
        *,
        wake: Wake | None = None,
        at_end: Callable[[], None] | None = None,
        prepare: Callable[[], None] = hygiene.connect,
    ) -> None:
        self.pulse = Pulse(name)
        self.wake = wake or Wake()
        self._step = step
        self._at_end = at_end
        self._prepare = prepare
        self._rng = random.Random()
        self._failures = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"durable-{name}", daemon=True)

    @property
    def stopping(self) -> bool:
        """Whether the loop was asked to end."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Asks the loop to end after its current step."""
        self._stopping.set()
        self.wake.ring()

    def join(self, seconds: float) -> None:
        """Waits for the end, `seconds` at most. `alive` says whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                rest = self._once()
                if rest > 0 and not self._stopping.is_set():
                    self.wake.wait(rest)
            if self._at_end is not None:
                self._at_end()
        finally:
            connections.close_all()

    def _once(self) -> float:
        self.pulse.begin()
        try:
            self._prepare()
            rest = self._step()
        except DatabaseFault as fault:
            return self._failed(fault)
        # A bug in our own code, or a SystemExit of user code, must not end the thread silently: a worker
        # without one of its loops looks alive and does nothing. It is logged, and retried.
        except BaseException as bug:
            log.error("loop_raised", loop=self.pulse.name, exc_info=for_log(bug))
            return self._failed(bug, is_bug=classify(bug) is Fault.PERMANENT)
        finally:
            self.pulse.end()
        if self._failures:
            if self.pulse.is_bug:
                log.info("loop_works_again", loop=self.pulse.name, failures=self._failures)
            else:
                log.info("store_answers_again", loop=self.pulse.name, failures=self._failures)
            self._failures = 0
            self.pulse.recover()
        return rest

    def _failed(self, fault: BaseException, *, is_bug: bool = False) -> float:
        kind = trouble_of(fault)
        if not is_bug and (not self._failures or self.pulse.is_bug or kind is not self.pulse.kind):
            self._say(kind, fault)
        self._failures += 1
        self.pulse.fail(words(fault), kind=kind, is_bug=is_bug)
        hygiene.drop()
        rest = min(FIRST_REST * 2.0 ** min(self._failures - 1, 16), LONGEST_REST)
        return rest * self._rng.uniform(0.8, 1.2)

    def _say(self, kind: Trouble, fault: BaseException) -> None:
        fields = {"loop": self.pulse.name, "trouble": kind.name.lower(), "error": words(fault)}
        if kind.passes:
            log.warning("store_trouble", **fields)
        else:
            log.error("store_refuses", **fields, cure=kind.cure)

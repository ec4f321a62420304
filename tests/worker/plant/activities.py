"""Handlers under test. What they did, they write as `Entry` rows, or pass through a `Gate` of the test."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_lazy

import durable
from durable import Retry, activity
from durable.worker.process import health
from tests.ledger.models import Entry
from tests.waiting import Gate

GATES: dict[str, Gate] = {}
"""Doors that handlers pass through, by name; in the test's own process only."""

health.REQUEST_SECONDS = float(os.environ.get("PLANT_REQUEST", health.REQUEST_SECONDS))

SOON = Retry(max_attempts=3, first=timedelta(milliseconds=1), jitter=0.0, no_retry=(ValueError,))


class Odd(Exception):
    """An exception that can not be made again from its arguments, and whose text raises."""

    def __init__(self, one: int, *, two: int) -> None:
        self.one, self.two = one, two

    def __str__(self) -> str:
        raise RuntimeError("no text")


@activity(name="plant.note_down")
def note(label: str) -> str:
    """Write an entry."""
    Entry.objects.create(label=label)
    return label


@activity(name="plant.note_async")
async def note_async(label: str) -> str:
    """Write an entry from the event loop."""
    await Entry.objects.acreate(label=label)
    return label


@activity(name="plant.add")
def add(one: int, two: int) -> int:
    """No database at all."""
    return one + two


@activity(name="plant.fail", retry=SOON)
def fail(label: str) -> None:
    """Fail each time."""
    Entry.objects.create(label=label)
    raise RuntimeError(f"no {label}")


@activity(name="plant.fail_once", retry=SOON)
def fail_once(label: str) -> int:
    """Fail the first attempt; answer the number of the one that succeeded."""
    attempt = durable.activity_info().attempt
    if attempt == 1:
        raise RuntimeError(f"no {label} yet")
    return attempt


@activity(name="plant.refuse", retry=SOON)
def refuse() -> None:
    """Fail with an error that is not tried again."""
    raise ValueError("never")


@activity(name="plant.odd", retry=Retry(max_attempts=1))
def odd() -> None:
    """Fail with an exception that fights back."""
    raise Odd(1, two=2)


@activity(name="plant.exit", retry=Retry(max_attempts=1))
def leave() -> None:
    """Ask the interpreter to exit."""
    raise SystemExit(3)


@activity(name="plant.nan", retry=SOON)
def nan(label: str) -> float:
    """Write an entry, and answer what JSON can not carry."""
    Entry.objects.create(label=label)
    return math.nan


@activity(name="plant.tell_session")
def tell_session() -> int:
    """Answer which session of the server this is; 0 where there are none."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()" if connection.vendor == "postgresql" else "SELECT 0")
        session: int = cursor.fetchone()[0]
    return session


@activity(name="plant.pass_gate")
def pass_gate(name: str) -> str:
    """Stand at a door until the test opens it."""
    Entry.objects.create(label=name)
    GATES[name].pass_through()
    return "through"


@activity(name="plant.pass_gate_holding")
def pass_gate_holding(name: str) -> str:
    """Stand at a door inside a transaction, on its connection."""
    from django.db import transaction

    with transaction.atomic():
        Entry.objects.create(label=name)
        GATES[name].pass_through()
    return "through"


@activity(name="plant.pass_gate_async")
async def pass_gate_async(name: str) -> str:
    """Block the event loop at a door."""
    await Entry.objects.acreate(label=name)
    GATES[name].pass_through()
    return "through"


@activity(name="plant.wait_forever_async")
async def wait_forever_async(name: str) -> None:
    """Wait until cancelled, and say that it happened."""
    GATES[name].pass_through()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await Entry.objects.acreate(label=name, note="cancelled")
        raise


@activity(name="plant.wait_for_cancel")
def wait_for_cancel(name: str) -> None:
    """Look again and again whether it shall stop, and fail when it shall."""
    info = durable.activity_info()
    GATES[name].pass_through()
    while not info.cancelled:
        time.sleep(0.005)
    Entry.objects.create(label=name, note="cancelled")
    raise RuntimeError("stopped")


@activity(name="plant.overrun", retry=SOON, start_to_close=timedelta(milliseconds=20))
def overrun(name: str) -> str:
    """Run longer than it may, but for the last attempt."""
    if durable.activity_info().attempt == 3:
        return "in time"
    GATES[name].pass_through()
    return "late"


@activity(name="plant.overrun_async", retry=Retry(max_attempts=1), start_to_close=timedelta(milliseconds=20))
async def overrun_async() -> None:
    """Wait for what never comes."""
    await asyncio.Event().wait()


@activity(name="plant.left_open", retry=Retry(max_attempts=1))
def left_open(label: str) -> None:
    """Begin a transaction and walk away."""
    from django.db import transaction

    transaction.atomic().__enter__()
    Entry.objects.create(label=label)


@activity(name="plant.left_open_by_hand", retry=Retry(max_attempts=1))
def left_open_by_hand(label: str) -> None:
    """Begin a transaction behind Django's back and walk away."""
    from django.db import connection

    connection.cursor().execute("BEGIN")
    Entry.objects.create(label=label)


@activity(name="plant.spoil", retry=Retry(max_attempts=1), transactional=True)
def spoil(how: str) -> None:
    """Leave a transaction that can not be committed."""
    from django.db import Error, connection, transaction

    Entry.objects.create(label=how)
    match how:
        case "entered":
            transaction.atomic().__enter__()
        case "closed":
            connection.close()
        case "marked":
            transaction.set_rollback(True)
        case "rolled back":
            connection.cursor().execute("ROLLBACK")
        case "aborted":
            with contextlib.suppress(Error):
                connection.cursor().execute("SELECT nothing_of_the_kind")
        case "SET search_path = nowhere" | "SET LOCAL ROLE pg_monitor" | "SET TRANSACTION READ ONLY":
            connection.cursor().execute(how)
        case "PRAGMA query_only = ON":
            connection.cursor().execute(how)
        case _:
            raise LookupError(how)


@activity(name="plant.entered_and_raised", retry=Retry(max_attempts=1), transactional=True)
def entered_and_raised(label: str) -> None:
    """Enter an atomic block, write, and raise without leaving it."""
    from django.db import transaction

    transaction.atomic().__enter__()
    Entry.objects.create(label=label)
    raise LookupError(label)


@activity(name="plant.loops")
def loops() -> str:
    """Use event loops inside a sync handler."""
    from asgiref.sync import async_to_sync

    async def answer(value: int) -> int:
        await asyncio.sleep(0)
        return value + await Entry.objects.acount()

    return f"{asyncio.run(answer(1))} {async_to_sync(answer)(2)}"


@activity(name="plant.heartbeat", retry=SOON)
def heartbeat() -> Any:
    """Leave a heartbeat behind for the next attempt, and answer what it found."""
    info = durable.activity_info()
    if info.attempt == 1:
        info.heartbeat({"page": 7})
        raise RuntimeError("again")
    return info.last_heartbeat


@activity(name="plant.heartbeat_nan", retry=SOON)
def heartbeat_nan() -> None:
    """Heartbeat details that can not be stored."""
    durable.activity_info().heartbeat(math.nan)


@activity(name="plant.write_once", transactional=True, retry=SOON)
def write_once(label: str) -> str:
    """Write in the transaction of the acknowledgement."""
    Entry.objects.create(label=label)
    return durable.activity_info().idempotency_key


@activity(name="plant.say_and_fail", transactional=True, retry=Retry(max_attempts=1))
def say_and_fail(label: str) -> None:
    """Log a line in the transaction of the acknowledgement, and fail."""
    durable.logger.warning("about to fail: %s", label)
    raise RuntimeError("rolled back")


@activity(name="plant.log")
def log(label: str) -> str:
    """Log a line."""
    durable.logger.warning("at work: %s", label)
    return label


@activity(name="plant.write_and_fail", transactional=True, retry=Retry(max_attempts=1))
def write_and_fail(label: str) -> None:
    """Write, then fail: nothing of it stays."""
    Entry.objects.create(label=label)
    raise RuntimeError("rolled back")


@activity(name="plant.die", retry=Retry(max_attempts=1))
def die(marker: str) -> None:
    """End the process without a word, each time; leave a line in a file."""
    with Path(marker).open("a") as file:
        file.write(f"{os.getpid()}\n")
    os._exit(1)


@activity(name="plant.limited", start_to_close=timedelta(minutes=10))
def limited(label: str) -> str:
    """Do nothing within ten minutes."""
    return label


@activity(name="plant.deep")
def deep(calls: int) -> int:
    """Go that many calls deep, each through C."""
    return 0 if not calls else 1 + max(map(deep_down, [calls - 1]))


def deep_down(calls: int) -> int:
    """One call further down."""
    return 0 if not calls else 1 + max(map(deep_down, [calls - 1]))


@activity(name="plant.exit_code")
def exit_code(code: int) -> int:
    """Answer what a process of the handler's own has ended with."""
    return subprocess.run(["/bin/sh", "-c", f"exit {code}"], check=False).returncode


@activity(name="plant.orphan")
def orphan(pipe: str) -> int:
    """Leave a process behind whose parent has ended. It waits at a named pipe. Answers its id."""
    done = subprocess.run(
        ["/bin/sh", "-c", '(read word < "$1") >/dev/null 2>&1 & echo $!', "sh", pipe], capture_output=True, check=True
    )
    return int(done.stdout)


@activity(name="plant.say")
def say(text: str) -> str:
    """Print to both streams."""
    sys.stdout.write(text)
    sys.stderr.write(text)
    return text


@activity(name="plant.hold_pipe")
def hold_pipe(arrived: str, opened: str, label: str) -> str:
    """Tell through one named pipe that it is here, and wait at another."""
    Entry.objects.create(label=label, amount=os.getpid())
    with Path(arrived).open("w") as file:
        file.write("here\n")
    with Path(opened).open() as file:
        file.read()
    return label


@activity(name="plant.stand")
def stand(folder: str, label: str) -> str:
    """Write an entry, tell by a pipe that this delivery is here, and wait at another pipe of this delivery."""
    number = durable.activity_info().delivery
    Entry.objects.create(label=label, amount=number)
    with Path(folder, f"arrived-{number}").open("w") as file:
        file.write("here\n")
    with Path(folder, f"opened-{number}").open() as file:
        file.read()
    return f"{label} of delivery {number}"


@activity(name="plant.end_the_loop", retry=Retry(max_attempts=1))
async def end_the_loop(how: str) -> None:
    """Stop the loop that runs it, or raise SystemExit through it from a task of its own."""

    async def leave_it() -> None:
        raise SystemExit(3)

    if how == "stop":
        asyncio.get_running_loop().stop()
    else:
        await asyncio.create_task(leave_it())


@activity(name="plant.speak")
def speak(text: str) -> list[Any]:
    """Beat with, and return, what is translated when it is read."""
    durable.activity_info().heartbeat({"said": gettext_lazy("Yes")})
    return [text, str(durable.activity_info().last_heartbeat["said"]), gettext_lazy("No")]

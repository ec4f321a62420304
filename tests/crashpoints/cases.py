"""The cast of the story: each workflow is there for the transitions that its docstring names."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import durable
from durable import Retry
from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.errors import ActivityError, KeyTaken, WorkflowClosed
from tests.ledger.models import Entry

SOON = Retry(max_attempts=2, first=timedelta(seconds=1), jitter=0.0)
AN_HOUR_LATER = Retry(max_attempts=3, first=timedelta(hours=1), cap=timedelta(hours=1), jitter=0.0)
PATIENCE = timedelta(days=3)
GIVEN_UP_AFTER = timedelta(hours=2)


@activity(name="crashpoints.book", transactional=True, retry=Retry(jitter=0.0))
def book(label: str) -> str:
    """Exactly one row of the ledger."""
    Entry.objects.create(label=label)
    return label


@activity(name="crashpoints.pack", retry=Retry(jitter=0.0))
def pack(label: str) -> str:
    """At least one row of the ledger: it and the completion are two commits."""
    Entry.objects.create(label=label)
    return label


@activity(name="crashpoints.flaky", retry=SOON)
def flaky(n: int) -> int:
    """Fails once."""
    return _failing(n, times=1)


@activity(name="crashpoints.late", retry=AN_HOUR_LATER)
def late(n: int) -> int:
    """Fails once, and waits so long that everybody can do something meanwhile."""
    return _failing(n, times=1)


@activity(name="crashpoints.spent", retry=SOON, on_exhausted="hold")
def spent(n: int) -> int:
    """Spends its application retries, then does its work for whoever gives it new ones."""
    return _failing(n, times=2)


@activity(name="crashpoints.broke")
def broke(n: int) -> int:
    """Fails for good at its first attempt."""
    raise ValueError(f"{n} is nothing that can be worked on")


@dataclass(frozen=True)
class Form:
    """An input that older code could make, and today's does not take."""

    text: str

    def __post_init__(self) -> None:
        raise ValueError(f"{self.text!r} is no form that is in use")

    @classmethod
    def old(cls) -> Form:
        """Made past today's rule."""
        form = object.__new__(cls)
        object.__setattr__(form, "text", "of last year")
        return form


@activity(name="crashpoints.doomed")
def doomed(form: Form) -> str:
    """Is given an input that does not decode, so that no delivery of it can succeed."""
    return form.text


@activity(name="crashpoints.vanishing")
def vanishing(n: int) -> int:
    """Is lost by every worker until somebody redrives it; see `shift.Shift`."""
    return n


@activity(name="crashpoints.told", on_dead_letter="deliver")
def told(n: int) -> int:
    """As `vanishing`, and its workflow hears of it."""
    return n


@activity(name="crashpoints.slow")
def slow(n: int) -> int:
    """Never ends by itself; see `shift.Shift`."""
    return n


@activity(name="crashpoints.report", queue="reports")
def report(n: int) -> int:
    """Sent, and begun where it was sent to."""
    return n


@activity(name="crashpoints.calm")
def calm(n: int) -> int:
    """Nothing happens to it."""
    return n


@activity(name="crashpoints.coming")
def coming(n: int) -> int:
    """The workers do not know it at first."""
    return n


def _failing(n: int, *, times: int) -> int:
    attempt = durable.activity_info().attempt
    if attempt <= times:
        raise ConnectionError(f"attempt {attempt} did not get through")
    return n


@workflow(name="crashpoints.journey")
async def journey(label: str) -> list[Any]:
    """Fan-out, a retry, transactional effects, a timer, a signal, a patch."""
    parts = await asyncio.gather(book.execute(f"{label} booked"), pack.execute(f"{label} packed"), flaky.execute(3))
    await durable.sleep(30)
    word = await durable.wait_for_signal("go")
    assert durable.patched("home"), "no history of this story is older than the patch"
    return [*parts, word, await book.execute(f"{label} home")]


@workflow(name="crashpoints.mended")
async def mended() -> int:
    """A dead letter of spent retries, redriven."""
    return await spent.execute(5)


@workflow(name="crashpoints.lost")
async def lost() -> int:
    """Lease expiry, re-arming, a suspect, a dead letter by the reconciler, redriven in bulk."""
    return await vanishing.execute(7)


@workflow(name="crashpoints.judged")
async def judged() -> str:
    """A dead letter that is delivered; a redrive that is refused, then forced; a result that nobody awaits."""
    try:
        await told.execute(9)
    except ActivityError as error:
        verdict = error.type
    else:
        verdict = "delivered after all"
    await durable.wait_for_signal("end")
    return verdict


@workflow(name="crashpoints.given_up")
async def given_up() -> str:
    """Abandoned until it is dead, discarded: the activity fails."""
    try:
        await doomed.execute(Form.old())
    except ActivityError as error:
        return f"{error.type}: {error.message}"
    return "unreached"


@workflow(name="crashpoints.called_off")
async def called_off() -> None:
    """The same, discarded in bulk: the workflow is cancelled."""
    await doomed.execute(Form.old())


@workflow(name="crashpoints.impatient")
async def impatient() -> str:
    """A dead letter that the code settles by itself; a discard that only closes it."""
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await doomed.execute(Form.old())
    except TimeoutError:
        return f"too late, {await durable.wait_for_signal('end')}"
    return "unreached"


@workflow(name="crashpoints.interrupted")
async def interrupted(label: str) -> None:
    """Cancelled while its activity is out, which is asked to stop; cleans up."""
    try:
        await slow.execute(1)
    finally:
        await book.execute(f"{label} cleaned up")


@workflow(name="crashpoints.halted")
async def halted() -> list[Any]:
    """Paused while a retry waits, signalled meanwhile, resumed."""
    return [await late.execute(2), await durable.wait_for_signal("on")]


@workflow(name="crashpoints.ended")
async def ended() -> None:
    """Terminated while its activity is out and a signal is unread."""
    await slow.execute(1)
    await durable.wait_for_signal("on")


@workflow(name="crashpoints.poisoned")
async def poisoned() -> str:
    """Blocked by workers that died over it, unblocked by staff."""
    return f"{await durable.wait_for_signal('on')} again"


@workflow(name="crashpoints.planned")
async def planned() -> str:
    """Starts later; a signal comes before."""
    return f"{await durable.wait_for_signal('on')} in time"


@workflow(name="crashpoints.undeployed")
async def undeployed() -> int:
    """Blocked since no worker knows it, taken up by a deploy."""
    return await calm.execute(11)


@workflow(name="crashpoints.overdue")
async def overdue() -> None:
    """Times out."""
    await durable.wait_for_signal("never")


@workflow(name="crashpoints.kid")
async def kid() -> str:
    """Started as a child; each of them ends in another way."""
    return f"{await durable.wait_for_signal('go')} grown up"


@workflow(name="crashpoints.family")
async def family() -> list[str]:
    """Starts children: one completes, one is refused, and by the end of this one, one is cancelled, one is terminated
    although it is paused, and one goes on.
    """
    first, taken = (kid.options(key="first kid").execute() for _ in range(2))
    said = []
    try:
        await taken
    except KeyTaken as error:
        said.append(error.key)
    kid.options(key="second kid", parent_close="terminate").execute()
    kid.options(key="third kid").execute()
    kid.options(key="kept kid", parent_close="abandon").execute()
    given_up = asyncio.create_task(kid.options(key="fourth kid").execute())
    said.append(await durable.wait_for_signal("on"))
    given_up.cancel()
    await first.signal("go", "first")
    said.append(await first)
    try:
        await first.signal("go", "too late")
    except WorkflowClosed as error:
        said.append(error.status)
    kid.signal("kept kid", "go", "kept")
    return said


KNOWN = (
    *(book, pack, flaky, late, spent, broke, doomed, vanishing, told, slow, calm, report),
    *(
        journey,
        mended,
        lost,
        judged,
        given_up,
        called_off,
        impatient,
        interrupted,
        halted,
        ended,
        poisoned,
        planned,
        overdue,
        family,
        kid,
    ),
)
COMES_SOON = coming
"""Known to the workers a moment after it was enqueued."""
COMES_LATER = undeployed
"""Known to them when its workflow has been blocked for it."""

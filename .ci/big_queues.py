# ruff: noqa: S603, S608 - statements are put together from this file's own literals
"""Queues on big tables: claims among 1,000,000 due rows, and work beside 1,000,000 closed workflows.

`python .ci/big_queues.py [PART] [DATABASE] [FACTOR]`: PART is `due`, `closed` or `all` (default), DATABASE `postgresql`
(default), `sqlite` or `both`, FACTOR below 1 makes smaller tables. Prints what it found, exits 1 if a stated figure is
missed. Needs some five minutes a database. The rows are copies of rows that the product itself has left behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"

ALIAS = "default"
DUE, OF_ONE, WAITING, CLOSED, DEAD = 1_000_000, 50_000, 200_000, 1_000_000, 1_000
CLAIMS, BATCH, SKIPPED, PASSES = 50, 100, 5_000, 3
CLAIM_MS, LOOK_MS = 20.0, 50.0
ROUNDS, SINGLES, WORKFLOWS = 9, 1_500, 300
MOST_TIMES = 1.2
LEASE = timedelta(minutes=10)

missed: list[str] = []


def tell(line: str) -> None:
    """A line for whoever reads the output."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def judge(name: str, value: float, most: float, unit: str, more: str = "") -> None:
    """Say a figure, and keep it in mind if it is too high."""
    late = value > most
    if late:
        missed.append(name)
    tell(f"{value:9.2f} {unit}  {name}{more} (at most {most:g}){'  <- missed' if late else ''}")


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds, and the answer."""
    begun = time.perf_counter()
    answer = call()
    return 1000 * (time.perf_counter() - begun), answer


def spread(samples: Sequence[float]) -> str:
    """The range behind a median."""
    return f", {min(samples):.2f} to {max(samples):.2f}"


def p95(samples: Sequence[float]) -> float:
    """The value that 95 of 100 do not exceed."""
    return sorted(samples)[int(0.95 * (len(samples) - 1))]


# --- making rows ---


def run(statement: str, params: Sequence[Any] = ()) -> int:
    """One statement."""
    from django.db import connections

    with connections[ALIAS].cursor() as cursor:
        cursor.execute(statement, params)
        count: int = cursor.rowcount
    return count


def is_postgresql() -> bool:
    """Which database this is about."""
    from django.db import connections

    return connections[ALIAS].vendor == "postgresql"


def copies(model: Any, template: Any, count: int, **changes: str) -> None:
    """Copy the rows of the workflow `template` `count` times, as of other workflows; `n` counts them. `changes` are
    SQL for columns, in which the row is called `x`.
    """
    owner = "id" if model.__name__ == "Workflow" else "workflow_id"
    columns = [field.column for field in model._meta.concrete_fields if field.get_internal_type() != "BigAutoField"]
    values = [changes.get(column, f"x.{column}") for column in columns]
    table = model._meta.db_table
    run(
        f"INSERT INTO {table} ({', '.join(columns)}) "
        f"WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < {count}) "
        f"SELECT {', '.join(values)} FROM series, {table} AS x WHERE x.{owner} = %s",
        [template if is_postgresql() else template.hex],
    )


def identity(kind: int) -> str:
    """SQL for the id of copy `n`; each kind of copies has its own."""
    if is_postgresql():
        return f"('018{kind:x}0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
    return f"'018{kind:x}0000000070008000' || printf('%%012x', n)"


def earlier(column: str, pace: int = 1) -> str:
    """SQL for a moment before the template's, so many seconds from copy to copy."""
    if is_postgresql():
        return f"x.{column} - n * {pace} * interval '1 second'"
    return f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', x.{column}, '-' || (n * {pace}) || ' seconds') || '000'"


def workflows_like(template: Any, count: int, *, kind: int, **outbox: str) -> None:
    """So many workflows as the template, with all that belongs to them."""
    from durable.models import Event, Message, OutboxRow, Workflow

    own = {"workflow_id": identity(kind)}
    copies(Workflow, template, count, id=identity(kind))
    copies(Event, template, count, **own)
    copies(OutboxRow, template, count, **own, **outbox)
    copies(Message, template, count, **own, visible_at=earlier("visible_at"))


def tidy() -> None:
    """What a database does by itself after a while. SQLite has no statistics unless a project asks for them."""
    run("VACUUM (ANALYZE)" if is_postgresql() else "PRAGMA wal_checkpoint(TRUNCATE)")


def count(condition: str, table: str = "durable_outboxrow") -> int:
    """How many rows there are."""
    from django.db import connections

    with connections[ALIAS].cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table} WHERE {condition}")
        found: int = cursor.fetchone()[0]
    return found


# --- among due rows ---


def due(factor: float) -> None:
    """Claims, turns, looks and lists with a million rows due."""
    from durable.bench.scratch import scratch

    with scratch(ALIAS):
        took, giant = timed(lambda: fill_due(factor))
        rows, of_one = count("status = 'pending'"), count(f"status = 'pending' AND workflow_id = '{key_of(giant)}'")
        tell(f"{rows:,} due rows, {of_one:,} of them of one workflow; made in {took / 1000:.0f} s")
        claims(int(SKIPPED * factor))
        looks(giant)
        turns()


def key_of(workflow_id: Any) -> str:
    """An id as it stands in the table."""
    return str(workflow_id) if is_postgresql() else workflow_id.hex


def fill_due(factor: float) -> Any:
    """Single activities, and among them, at an even pace, the rows of one large workflow."""
    from durable.bench import work
    from durable.flow.turns import turn
    from durable.kernel.replay.cache import Cache
    from durable.models import OutboxRow

    giant = work.fan_out.start(1).id
    cache = Cache(10)
    turn.turn(cache=cache, queues=None, limit=1, note=lambda owner: None)
    cache.drop_all()
    single = work.nothing.enqueue(1).id
    of_one = int(OF_ONE * factor)
    singles = int(DUE * factor) - of_one
    workflows_like(single, singles, kind=0, visible_after=earlier("visible_after"))
    moment = earlier("visible_after", singles // of_one)
    copies(OutboxRow, giant, of_one, ordinal="x.ordinal + n", workflow_id="x.workflow_id", visible_after=moment)
    dead = max(1, int(DEAD * factor))
    workflows_like(
        single, dead, kind=1, status="'dead'", cause="'worker_died'", dead_lettered_at=earlier("visible_after")
    )
    workflows_like(work.steps.start(3).id, int(WAITING * factor), kind=2)
    tidy()
    return giant


def claims(skipped: int) -> None:
    """Claims of 100 on the way through the backlog. A pass that other work of the machine disturbed is repeated."""
    steady: list[float] = []
    for number in range(PASSES):
        if number:
            tidy()  # each pass begins behind what the database would have swept away by then
        steady, first = one_pass(skipped)
        tell(
            f"pass {number + 1}: {CLAIMS} claims of {BATCH}: p50 {median(steady):.1f} ms, p95 {p95(steady):.1f} ms; "
            f"the first ones behind {skipped:,} rows that left the queue at once: "
            f"p50 {median(first):.1f} ms, p95 {p95(first):.1f} ms"
        )
        if p95(steady) <= CLAIM_MS:
            break
    judge(f"a claim of {BATCH}, p50", median(steady), CLAIM_MS, "ms")
    judge(f"a claim of {BATCH}, p95", p95(steady), CLAIM_MS, "ms")


def one_pass(skipped: int) -> tuple[list[float], list[float]]:
    """Milliseconds of claims, each at another place of the backlog: as they are, and right behind rows that left."""
    from durable.flow.delivery import acknowledge, claim
    from durable.outcomes import Completed

    def once(into: list[float]) -> None:
        took, claimed = timed(lambda: claim.claim(worker="big", limit=BATCH, queues=None, lease_for=LEASE))
        assert len(claimed) == BATCH
        into.append(took)
        acknowledge.acknowledge([Completed(delivery, "null") for delivery in claimed])

    steady: list[float] = []
    first: list[float] = []
    for _ in range(CLAIMS):
        run(
            "UPDATE durable_outboxrow SET status = 'done' WHERE id IN (SELECT id FROM durable_outboxrow "
            "WHERE status = 'pending' AND NOT paused AND NOT suspect AND NOT waiting "
            f"ORDER BY priority DESC, visible_after, id LIMIT {skipped})"
        )
        once(first)
        once(steady)
    return steady, first


def looks(giant: Any) -> None:
    """What idle workers and staff ask for, with the same rows in the tables."""
    from durable.flow.delivery import claim
    from durable.flow.looks import look
    from durable.models import OutboxRow
    from durable.outcomes import DeadLetterFilter

    def claim_of(*queues: str) -> Any:
        return claim.claim(worker="big", limit=BATCH, queues=queues, lease_for=LEASE)

    newest = OutboxRow.objects.dead_letters().order_by("-dead_lettered_at", "-id")
    asked: list[tuple[str, Callable[[], Any]]] = [
        ("a claim of one queue", lambda: claim_of("default")),
        ("a claim of a queue that has nothing, beside them", lambda: claim_of("elsewhere")),
        ("a claim of two queues, of which one has nothing", lambda: claim_of("default", "elsewhere")),
        ("a look for suspects", lambda: claim.suspects_due(None)),
        ("a claim of a suspect", lambda: claim.claim_suspect(worker="big", queues=None, lease_for=LEASE)),
        ("the dead letters of the large workflow", lambda: look.dead_letters(giant)),
        ("the first dead letters of all", lambda: look.dead_letters_matching(DeadLetterFilter(), limit=100)),
        ("the admin's first page of them", lambda: list(newest[:100])),
    ]  # fmt: skip
    for name, call in asked:
        call()
        samples = [timed(call)[0] for _ in range(7)]
        judge(name, median(samples), LOOK_MS, "ms", spread(samples))
    # What a burst asks at its end, when little waits. Told, not judged.
    samples = [timed(lambda: look.next_due(None))[0] for _ in range(3)]
    tell(f"{median(samples):9.2f} ms  when something is due next{spread(samples)} (not judged)")


def turns() -> None:
    """Batches of turns with many more workflows waiting for theirs, against the same when nobody else waits."""
    from durable.bench import work
    from durable.bench.scratch import scratch

    waiting = count("NOT parked", "durable_message")
    many = [turn_of_100() for _ in range(8)]
    with scratch(ALIAS):
        few = []
        for _ in range(8):
            work.steps.start_many([(3,)] * 100)
            few.append(turn_of_100())
    judge(
        f"a batch of 100 turns with {waiting:,} waiting, against one with 100",
        median(many[1:]) / median(few[1:]),
        2.0,
        "times",
        f", {median(many[1:]):.0f} and {median(few[1:]):.0f} ms",
    )


def turn_of_100() -> float:
    """Milliseconds a 100 turns."""
    from durable.flow.turns import turn
    from durable.kernel.replay.cache import Cache

    cache = Cache(1000)
    took, report = timed(lambda: turn.turn(cache=cache, queues=None, limit=100, note=lambda owner: None))
    cache.drop_all()
    assert report.workflows
    return took * 100 / report.workflows


# --- beside closed workflows ---


def closed(factor: float) -> None:
    """What an activity costs beside a million closed workflows, against the same in empty tables."""
    from durable.bench.scratch import scratch

    with scratch(ALIAS) as full:
        took, _ = timed(lambda: fill_closed(factor))
        there = count("closed_at IS NOT NULL", "durable_workflow")
        tell(
            f"{there:,} closed workflows, {count('true', 'durable_event'):,} events, {count('true'):,} outbox rows; "
            f"made in {took / 1000:.0f} s"
        )
        with scratch(ALIAS) as empty:
            # The first round finds everything cold, and tables of which the planner knows nothing.
            costs = {name: [first_round_on(name)] for name in (full, empty)}
            for _ in range(PASSES):
                for number in range(ROUNDS):
                    for name in (full, empty) if number % 2 else (empty, full):
                        costs[name].append(round_on(name))
                if max(ratio(costs[full], costs[empty], at) for at in (0, 1)) <= MOST_TIMES:
                    break
    for at, shape in enumerate(("single activities", "three-step workflows")):
        ratios = [ours[at] / theirs[at] for ours, theirs in zip(costs[full][1:], costs[empty][1:], strict=True)]
        each = [f"{1e6 * median([cost[at] for cost in costs[name][1:]]):.0f}" for name in (full, empty)]
        judge(
            f"the cost of {shape} beside closed ones",
            ratio(costs[full], costs[empty], at),
            MOST_TIMES,
            "times",
            f"{spread(ratios)}; {' and '.join(each)} µs each, medians of {len(ratios)} rounds; "
            f"{1e6 * costs[empty][0][at]:.0f} µs in the first round on empty tables, without statistics",
        )


def ratio(full: list[tuple[float, float]], empty: list[tuple[float, float]], at: int) -> float:
    """The median of the ratios of rounds that stood beside each other; the first round does not count."""
    return median([ours[at] / theirs[at] for ours, theirs in zip(full[1:], empty[1:], strict=True)])


def fill_closed(factor: float) -> None:
    """Half of them single activities, half three-step workflows."""
    from durable.bench import work
    from durable.bench.running import running

    with running(ALIAS) as worker:
        single, steps = work.nothing.enqueue(1).id, work.steps.start(3).id
        worker.wait_done(4)
        worker.wait_closed()
    for kind, template in enumerate((single, steps)):
        workflows_like(template, int(CLOSED * factor) // 2, kind=kind)
    tidy()


def first_round_on(name: str) -> tuple[float, float]:
    """A round, and statistics behind it."""
    from durable.bench.scratch import entered

    costs = round_on(name)
    with entered(ALIAS, name):
        tidy()
    return costs


def round_on(name: str) -> tuple[float, float]:
    """Seconds of a single activity, and of a three-step workflow, drained by a running worker."""
    from durable.bench import shapes
    from durable.bench.running import running
    from durable.bench.scratch import entered

    with entered(ALIAS, name), running(ALIAS) as worker:
        shapes.drain_singles(worker, 100)
        singles, _ = timed(lambda: shapes.drain_singles(worker, SINGLES))
        workflows, _ = timed(lambda: shapes.drain_workflows(worker, WORKFLOWS))
    return singles / 1000 / SINGLES, workflows / 1000 / WORKFLOWS


PARTS = {"due": [due], "closed": [closed], "all": [due, closed]}


def main(part: str = "all", database: str = "postgresql", factor: str = "1") -> int:
    """Make, measure, judge."""
    if database == "both":
        calls = [[sys.executable, __file__, part, one, factor] for one in ("postgresql", "sqlite")]
        return max([subprocess.run(call, check=False).returncode for call in calls])
    os.environ["DURABLE_TEST_DATABASE"] = database
    import django

    django.setup()
    for measure in PARTS[part]:
        tell(f"--- {measure.__name__}, {database}, load {os.getloadavg()[0]:.1f}")
        measure(float(factor))
    tell(f"missed: {', '.join(missed) or 'nothing'}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

"""The cost of a statement does not depend on what lies in the tables: none of the hot ones reads a table whole."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from durable.flow.delivery import acknowledge, claim, renew
from durable.flow.looks import look
from durable.flow.operator import unblock
from durable.flow.upkeep import beat, reconcile, settle
from durable.models import Message, Workflow
from durable.outcomes import Completed, DeadLetterFilter, HeldDelivery
from durable.store.runs import due
from tests.flow import cases
from tests.flow.driver import LEASE, Driver

pytestmark = pytest.mark.django_db(transaction=True)
on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL rightly reads small tables whole.")
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite plans without a look at sizes.")

DUE, OTHERS = 20_000, 20_000

_PLANNED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_GIVEN = re.compile(r"SCAN (json_each|given|told|latest|woken|starts|\(subquery|value)")


def _lines(statement: str) -> list[str]:
    with connection.cursor() as cursor:
        return [line for *_, line in cursor.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()]


def _scans(statement: str) -> list[str]:
    lines = _lines(statement)
    return [line for line in lines if line.startswith("SCAN ") and "USING" not in line and not _GIVEN.match(line)]


@on_sqlite
def test_no_statement_of_the_way_through_reads_a_table_whole(driver: Driver) -> None:
    """Claims, turns, acknowledgements and renewals with any number of closed workflows in the tables."""
    with CaptureQueriesContext(connection) as captured:
        driver.enqueue(cases.step, 1)
        driver.start(cases.fan_out, 3)
        driver.turn()
        claims = driver.claim()
        renew.renew([HeldDelivery(claim.row_id, claim.token) for claim in claims], lease_for=LEASE)
        acknowledge.acknowledge([Completed(claim, '{"paid":"9.90"}') for claim in claims])
        driver.turn()
    statements = [query["sql"] for query in captured if _PLANNED.match(query["sql"])]
    assert len(statements) > 20
    found = {statement[:200]: scans for statement in statements if (scans := _scans(statement))}
    assert not found


@on_sqlite
def test_a_claim_reads_its_rows_from_the_index_in_claim_order(driver: Driver) -> None:
    """Faults G2. The look before the lock, and the one under it; of one queue, by an index that begins with it."""
    for queues, index in ((None, "INDEX durable_outbox_claim"), (("default",), "durable_outbox_claim_queue (queue=?)")):
        driver.enqueue(cases.step, 1)
        with CaptureQueriesContext(connection) as captured:
            assert claim.claim(worker="w", limit=9, queues=queues, lease_for=LEASE)
        statements = [query["sql"] for query in captured if "ORDER BY priority DESC" in query["sql"]]
        assert len(statements) == 2
        for plan in map(_lines, statements):
            assert [line for line in plan if index in line]
            assert not [line for line in plan if "TEMP B-TREE" in line]


@on_sqlite
def test_a_claim_that_leaves_a_queue_out_finds_the_others_by_steps_in_the_index(driver: Driver) -> None:
    driver.enqueue(cases.step, 1)
    driver.enqueue(cases.step, 2, queue="reports")
    with CaptureQueriesContext(connection) as captured:
        assert len(claim.claim(worker="w", limit=9, queues=None, lease_for=LEASE, but=("reports",))) == 1
    [looking] = [query["sql"] for query in captured if "RECURSIVE" in query["sql"]]
    assert any("durable_outbox_claim_queue (queue>?)" in line for line in _lines(looking))
    assert not [line for line in _lines(looking) if "TEMP B-TREE" in line]
    [_, claiming] = [query["sql"] for query in captured if "ORDER BY priority DESC" in query["sql"]]
    assert any("durable_outbox_claim_queue (queue=?)" in line for line in _lines(claiming))


def _begin_and_keep_house() -> None:
    """What a worker does at its start, and again and again afterwards."""
    settle.settle_closed()
    unblock.after_deploy("2")
    beat.beat(name="w", queues=["default"], version="2")
    reconcile.reconcile()


_BOUNDED = (
    "durable_outbox_",
    "durable_dead_letters_",
    "durable_workflow_status (status=?",
    "(id=?)",
    "(rowid=?)",
)
_WALKS = re.compile(r"(SCAN|SEARCH) (r|w|e|durable_outboxrow|durable_workflow|durable_event)\b")


@on_sqlite
def test_a_workers_start_and_its_rounds_look_at_no_closed_row(driver: Driver) -> None:
    """Faults G3: settling, reconciling, offers after a deploy and signs of life go by key, or by an index that holds
    open rows only. A range of the primary key would be everything that was ever done.
    """
    driver.start(cases.fan_out, 3)
    driver.turn()
    driver.claim(limit=1)
    with CaptureQueriesContext(connection) as captured:
        _begin_and_keep_house()
    statements = [query["sql"] for query in captured if _PLANNED.match(query["sql"])]
    assert len(statements) >= 6
    walks = [line for statement in statements for line in _lines(statement) if _WALKS.match(line)]
    assert walks
    assert [line for line in walks if not any(way in line for way in _BOUNDED)] == []


FILLED = {"durable_workflow", "durable_outboxrow", "durable_event", "durable_message"}

_MANY = """
INSERT INTO durable_{table} ({columns})
SELECT {values} FROM generate_series(1, {count}) AS n, durable_{table} AS x WHERE x.{owner} = %s
"""


def _copies(table: str, count: int, owner: str, given: Any, **changes: str) -> None:
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, f"durable_{table}")
        columns = [column.name for column in described if column.name != "id" or "id" in changes]
        values = [changes.get(column, f"x.{column}") for column in columns]
        statement = _MANY.format(
            table=table, columns=", ".join(columns), values=", ".join(values), count=count, owner=owner
        )
        cursor.execute(statement, [given])


@pytest.fixture
def backlog(driver: Driver) -> Any:
    """Due rows, every second one of the workflow that this answers; workflows that wait for a turn, and closed ones."""
    wide, single, waiting = driver.start(cases.fan_out, 1), driver.enqueue(cases.step, 1), driver.start(cases.nothing)
    driver.turn(limit=1)
    id = "('01800000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
    of_closed, of_waiting = id.replace("018", "017", 1), id.replace("018", "016", 1)
    due = "x.visible_after - n * interval '1 second'"
    _copies("workflow", DUE // 2, "id", single, id=id)
    _copies("outboxrow", DUE // 2, "workflow_id", single, workflow_id=id, visible_after=due)
    _copies("outboxrow", DUE // 2, "workflow_id", wide, ordinal="n + 1", visible_after=due)
    _copies("workflow", OTHERS, "id", waiting, id=of_waiting)
    _copies("event", OTHERS, "workflow_id", waiting, workflow_id=of_waiting)
    _copies("event", 4 * OTHERS, "workflow_id", waiting, seq="n + 1", workflow_id="gen_random_uuid()")
    _copies("message", OTHERS, "workflow_id", waiting, workflow_id=of_waiting)
    _copies("workflow", OTHERS, "id", single, id=of_closed, status="'completed'", closed_at="x.created_at")
    _copies("outboxrow", OTHERS, "workflow_id", single, workflow_id=of_closed, status="'done'")
    # What ended workflows have not read: one of many of them, and many of one.
    unread = {"kind": "'signal'", "parked": "true", "visible_at": "x.visible_at - n * interval '1 second'"}
    _copies("message", OTHERS, "workflow_id", waiting, workflow_id=of_closed, **unread)
    _copies("message", OTHERS, "workflow_id", waiting, workflow_id="'01700000-0000-7000-8000-000000000001'", **unread)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return wide


@pytest.fixture
def past(driver: Driver) -> None:
    """A few open rows, and many closed ones."""
    single = driver.enqueue(cases.step, 1)
    driver.start(cases.fan_out, 3)
    driver.turn()
    id = "('01800000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
    _copies("workflow", DUE, "id", single, id=id, status="'completed'", closed_at="x.created_at")
    _copies("event", DUE, "workflow_id", single, workflow_id=id)
    _copies("outboxrow", DUE, "workflow_id", single, workflow_id=id, status="'done'")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _plans(call: Callable[[], Any]) -> list[tuple[str, dict[str, Any]]]:
    """The plan of each statement on the engine's tables that a call makes, as it makes it, parameters included."""
    found = []

    def explained(execute: Any, sql: str, params: Any, many: Any, context: dict[str, Any]) -> Any:
        if _PLANNED.match(sql) and "durable_" in sql:
            with context["connection"].connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", params)
                [plan] = cursor.fetchone()
            found.append((sql, (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explained):
        call()
    return found


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _costly(plan: dict[str, Any]) -> list[str]:
    """Nodes that read one of the filled tables whole, or sort or hold more than a batch of rows."""
    return [
        f"{node['Node Type']} {node.get('Relation Name', '')} of {node['Plan Rows']}"
        for node in _nodes(plan)
        if (node["Node Type"] == "Seq Scan" and node["Relation Name"] in FILLED)
        or (node["Node Type"] in ("Sort", "Incremental Sort", "Hash", "Materialize") and node["Plan Rows"] > 1_000)
    ]


_CLAIMS: list[tuple[tuple[str, ...] | None, list[str]]] = [
    (None, ["durable_outbox_claim"]),
    (("default",), ["durable_outbox_claim_queue"]),
    (("empty",), ["durable_outbox_claim_queue"]),
    (("default", "empty"), ["durable_outbox_claim_queue"] * 2),
]


@on_postgresql
def test_a_claim_walks_its_index_however_many_rows_are_due_and_whosever_they_are(backlog) -> None:
    """Faults G2: no sequential scan, and no sort of all that is due."""
    for queues, indexes in _CLAIMS:
        plans = _plans(partial(claim.claim, worker="w", limit=100, queues=queues, lease_for=LEASE))
        assert len(plans) == (1 if queues == ("empty",) else 2)
        assert not {sql[:100]: nodes for sql, plan in plans if (nodes := _costly(plan))}
        looking = list(_nodes(plans[0][1]))
        used = [node["Index Name"] for node in looking if "Index Name" in node]
        # Of the queue that all rows are in, one index is as good as the other.
        assert len(used) == len(indexes)
        assert all(found in (index, "durable_outbox_claim") for found, index in zip(used, indexes, strict=True))
        assert queues is None or "empty" not in queues or "durable_outbox_claim_queue" in used
        assert len(indexes) > 1 or not [node for node in looking if "Sort" in node["Node Type"]]


@on_postgresql
@pytest.mark.parametrize("but", [("default",), ("elsewhere",)])
def test_a_claim_that_leaves_a_queue_out_does_not_walk_past_its_rows(backlog, but: tuple[str, ...]) -> None:
    """One step in the index for each queue, then the index of those that are left."""
    plans = _plans(partial(claim.claim, worker="w", limit=100, queues=None, lease_for=LEASE, but=but))
    assert len(plans) == (1 if but == ("default",) else 3)
    assert not {sql[:100]: nodes for sql, plan in plans if (nodes := _costly(plan))}
    steps = [node for node in _nodes(plans[0][1]) if "Index Name" in node]
    assert {node["Index Name"] for node in steps} == {"durable_outbox_claim_queue"}
    assert not [node for node in _nodes(plans[0][1]) if "Sort" in node["Node Type"] or node["Node Type"] == "Aggregate"]


@on_postgresql
def test_turns_acknowledgements_and_lists_of_dead_letters_find_theirs_by_an_index(backlog, driver: Driver) -> None:
    """Faults G2."""
    claims = driver.claim(limit=100)
    plans = _plans(lambda: driver.turn(limit=100))
    plans += _plans(lambda: renew.renew([HeldDelivery(claim.row_id, claim.token) for claim in claims], lease_for=LEASE))
    plans += _plans(lambda: acknowledge.acknowledge([Completed(claim, "null") for claim in claims]))
    plans += _plans(lambda: look.dead_letters(backlog))
    plans += _plans(lambda: look.dead_letters_matching(DeadLetterFilter(), limit=100))
    plans += _plans(lambda: claim.suspects_due(None))
    plans += _plans(lambda: claim.claim_suspect(worker="w", queues=None, lease_for=LEASE))
    assert len(plans) > 12
    found = {sql[:100]: nodes for sql, plan in plans if (nodes := _costly(plan))}
    assert not found, json.dumps(found, indent=2)


@on_postgresql
def test_a_look_for_what_goes_on_walks_past_no_start_and_asks_for_what_is_in_memory_by_key(backlog) -> None:
    """However many starts are due, and however many workflows are in memory."""
    ids = list(Message.objects.filter(kind="start").values_list("workflow_id", flat=True)[:200])
    plans = _plans(lambda: due.owners(connection, messages=400, timers=200, starts=200, queues=None))
    plans += _plans(lambda: due.among(connection, ids, limit=200))
    assert len(plans) == 2
    assert not {sql[:100]: nodes for sql, plan in plans if (nodes := _costly(plan))}
    used = {node.get("Index Name") for node in _nodes(plans[0][1])}
    assert {"durable_message_due", "durable_message_start"} <= used


@on_sqlite
def test_a_look_has_an_index_for_starts_and_one_for_what_goes_on(driver: Driver) -> None:
    driver.start(cases.signalled)
    with CaptureQueriesContext(connection) as captured:
        due.owners(connection, messages=4, timers=2, starts=2, queues=None)
        due.among(connection, [uuid.uuid4()], limit=2)
        look.next_due(None)
    plans = [line for query in captured if _PLANNED.match(query["sql"]) for line in _lines(query["sql"])]
    for index in ("durable_message_due", "durable_message_start", "durable_message_of_workflow"):
        assert [line for line in plans if index in line]
    assert not [line for line in plans if re.match(r"SCAN (m|durable_message)\b", line) and "USING" not in line]


@on_postgresql
def test_what_ended_workflows_have_not_read_is_not_looked_at(backlog, driver: Driver) -> None:
    """Neither by whoever looks for work, nor by the turn that meets one more message for such a workflow."""
    late = uuid.UUID("01700000-0000-7000-8000-000000000001")
    message = Message.objects.filter(workflow_id=late)[0]
    Message.objects.create(
        workflow_id=late, run=1, kind="signal", payload=message.payload, visible_at=message.visible_at,
        created_at=message.created_at,
    )  # fmt: skip
    plans = _plans(lambda: driver.turn(limit=100))
    plans += _plans(lambda: look.next_due(None))
    plans += _plans(lambda: look.unread(late))
    whole = [sql[:100] for sql, plan in plans if any("durable_message" in node for node in _costly(plan))]
    assert not whole
    assert not Message.objects.filter(workflow_id=late, parked=False).exists()
    with CaptureQueriesContext(connection) as captured:
        assert driver.turn(limit=100).workflows == 100
    asked = [query["sql"] for query in captured if "SELECT id, workflow_id, run, kind" in query["sql"]]
    assert not [statement for statement in asked if str(late) in statement or late.hex in statement]


@on_postgresql
def test_a_workers_start_and_its_rounds_read_no_table_of_closed_rows_whole(past) -> None:
    """Faults G3."""
    plans = _plans(_begin_and_keep_house)
    assert len(plans) >= 6
    assert not {sql[:100]: nodes for sql, plan in plans if (nodes := _whole(plan))}


def _whole(plan: dict[str, Any]) -> list[str]:
    """Tables of closed rows that are read whole, or walked by their primary key."""
    return [
        f"{node['Node Type']} of {node['Relation Name']} by {node.get('Index Name')}"
        for node in _nodes(plan)
        if node.get("Relation Name") in ("durable_outboxrow", "durable_workflow", "durable_event")
        and (node["Node Type"] == "Seq Scan" or (node.get("Index Name", "").endswith("_pkey") and not _by_key(node)))
    ]


def _by_key(node: dict[str, Any]) -> bool:
    return "=" in node.get("Index Cond", "").replace(">=", "").replace("<=", "")


GROUP = "0123456789abcdef"


def _lists_of_one_group() -> None:
    look.dead_letters_matching(DeadLetterFilter(error_group=GROUP), limit=100)
    list(Workflow.objects.of_error_group(GROUP).order_by("-pk").only("type")[:101])


@on_sqlite
def test_lists_of_one_group_of_errors_are_read_from_their_indexes_in_their_order(driver: Driver) -> None:
    with CaptureQueriesContext(connection) as captured:
        _lists_of_one_group()
    letters, workflows = ([line for line in _lines(query["sql"]) if "TEMP B-TREE" in line or "durable_" in line]
                          for query in captured)  # fmt: skip
    assert ["durable_dead_letters_error (error_group=?)" in line for line in letters[:1]] == [True], letters
    assert ["durable_workflow_error (error_group=?)" in line for line in workflows] == [True], workflows
    assert not [line for line in letters + workflows if "TEMP B-TREE" in line]


@on_postgresql
def test_lists_of_one_group_of_errors_walk_their_indexes_however_many_others_have_failed(backlog) -> None:
    """A few among twenty thousand of another group."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE durable_workflow SET error_group = 'f' || lpad(to_hex(last_seq), 15, '0') "
                       "WHERE closed_at IS NOT NULL")  # fmt: skip
        cursor.execute(
            "UPDATE durable_outboxrow SET status = 'dead', dead_lettered_at = created_at, "
            "error_group = 'f' || lpad(to_hex(ordinal), 15, '0') WHERE status = 'done'"
        )
        for table, condition in (("workflow", "closed_at IS NOT NULL"), ("outboxrow", "status = 'dead'")):
            cursor.execute(
                f"UPDATE durable_{table} SET error_group = %s WHERE id IN "
                f"(SELECT id FROM durable_{table} WHERE {condition} LIMIT 20)",
                [GROUP],
            )
        cursor.execute("ANALYZE")
    plans = _plans(_lists_of_one_group)
    assert len(plans) == 2
    assert not {sql[:100]: nodes for sql, plan in plans if (nodes := _costly(plan))}
    used = {node.get("Index Name") for _, plan in plans for node in _nodes(plan)}
    assert {"durable_dead_letters_error", "durable_workflow_error"} <= used

"""The warm cache: by weight, what has long been idle first, and what leaves is closed."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
import uuid
from datetime import timedelta
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.kernel.history.events import Event, EventType
from durable.kernel.replay.cache import Cache
from durable.kernel.replay.execution import Execution
from tests.kernel.harness import EPOCH, begun, echo


async def waits() -> None:
    await durable.wait_for_signal("n")


def suspended(number: int, code: Any = waits) -> Execution:
    execution = begun(code, workflow_id=uuid.UUID(int=number))
    execution.activate(Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH))
    return execution


def put(cache: Cache, execution: Execution, *, at: int = 0, used_at: int | None = None) -> None:
    """After a turn at a second; the one before it was at the same, unless said."""
    moment = EPOCH + timedelta(seconds=at)
    cache.put(execution, at=moment, used_at=moment if used_at is None else EPOCH + timedelta(seconds=used_at))


def closed(execution: Execution) -> bool:
    return execution.loop.is_closed()


def test_what_was_put_is_found_and_stays() -> None:
    cache, one = Cache(10), suspended(1)
    put(cache, one)
    assert cache.get(one.workflow_id) is one
    assert cache.get(one.workflow_id) is one
    assert cache.get(uuid.UUID(int=2)) is None
    cache.drop_all()


def test_least_recently_used_leaves_first_and_is_closed() -> None:
    cache = Cache(2)
    one, two, three = (suspended(number) for number in (1, 2, 3))
    put(cache, one, at=1)
    put(cache, two, at=2)
    put(cache, one, at=3)
    put(cache, three, at=4)
    assert [closed(one), closed(two), closed(three)] == [False, True, False]
    assert len(cache) == 2
    cache.drop_all()


def test_weight_counts_and_not_only_number() -> None:
    async def heavy() -> None:
        for value in range(50):
            echo.execute(value)
        await durable.wait_for_signal("n")

    light, big = suspended(1), suspended(2, heavy)
    cache = Cache(100, max_weight=light.weight + big.weight - 1)
    put(cache, light, at=1)
    put(cache, big, at=2)
    assert closed(light)
    assert cache.weight == big.weight
    cache.drop_all()
    assert cache.weight == 0


def test_one_that_is_heavier_than_the_whole_cache_is_closed() -> None:
    one = suspended(1)
    cache = Cache(10, max_weight=one.weight - 1)
    put(cache, one)
    assert closed(one)
    assert len(cache) == 0


def test_nobody_leaves_for_the_sake_of_one_that_does_not_fit_in_anyway() -> None:
    async def heavy() -> None:
        for value in range(500):
            echo.execute(value)
        await durable.wait_for_signal("n")

    sleeping, giant = [suspended(number) for number in (1, 2, 3)], suspended(4, heavy)
    cache = Cache(100, max_weight=giant.weight - 1)
    for one in sleeping:
        put(cache, one)
    put(cache, giant, at=1000)
    assert closed(giant)
    assert [closed(one) for one in sleeping] == [False] * 3
    assert cache.weight == sum(one.weight for one in sleeping)
    cache.drop_all()


def test_one_is_weighed_anew_at_each_put() -> None:
    cache, one = Cache(10), suspended(1)
    put(cache, one)
    before = cache.weight
    one.activate(Event(2, EventType.SIGNAL_RECEIVED, {"name": "other", "payload": '"' + "x" * 500 + '"'}, EPOCH))
    put(cache, one)
    assert cache.weight >= before + 500
    assert len(cache) == 1
    cache.drop_all()


async def collects() -> list[Any]:
    return [await durable.wait_for_signal("n") for _ in range(1_000)]


async def calls_many() -> None:
    text = await durable.wait_for_signal("n")
    for number in range(200):
        echo.execute(f"{number} {text}")
    await durable.wait_for_signal("end")


@pytest.mark.parametrize(
    ("code", "names", "payloads"),
    [
        (waits, [f"other {number}" for number in range(2_000)], ["1"] * 2_000),
        (waits, ["other"] * 5_000, ["1"] * 5_000),
        (collects, ["n"] * 20, [f"[{'[],' * 5_000}1]"] * 20),
        (calls_many, ["n"], [f'"{"x" * 9_999}"']),
    ],
    ids=["many names", "many small ones", "nothing but brackets", "arguments of calls"],
)
def test_whoever_sends_signals_puts_no_more_into_memory_than_is_weighed(
    code: Any, names: list[str], payloads: list[str]
) -> None:
    """Else a few workflows take all the memory of a worker, and none of them ever gives way."""
    one = suspended(1, code)
    gc.collect()
    tracemalloc.start()
    for seq, (name, payload) in enumerate(zip(names, payloads, strict=True), start=2):
        one.activate(Event(seq, EventType.SIGNAL_RECEIVED, {"name": name, "payload": f"{payload} "}, EPOCH))
    gc.collect()
    taken, _most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    weight = one.weight
    one.close()
    assert taken > 50_000
    assert weight > taken / 3


def test_signals_that_the_code_has_seen_and_let_go_weigh_nothing() -> None:
    """Else a workflow that has lived for long is replayed for each signal."""
    one = suspended(1, collects)
    before = one.weight
    for seq in range(2, 200):
        payload = json.dumps({"order": seq, "lines": [{"article": "tea", "pieces": 2}], "note": "x" * 100})
        one.activate(Event(seq, EventType.SIGNAL_RECEIVED, {"name": "n", "payload": payload}, EPOCH))
    assert one.weight == before
    one.close()


def test_finished_one_is_not_kept() -> None:
    cache, one = Cache(10), suspended(1)
    put(cache, one)
    one.activate(Event(2, EventType.SIGNAL_RECEIVED, {"name": "n", "payload": "1"}, EPOCH))
    put(cache, one)
    assert cache.get(one.workflow_id) is None
    assert cache.weight == 0


def test_another_execution_of_the_same_workflow_takes_the_place_and_the_former_is_closed() -> None:
    cache, old, new = Cache(10), suspended(1), suspended(1)
    put(cache, old)
    put(cache, new)
    assert closed(old)
    assert cache.get(new.workflow_id) is new
    cache.drop_all()


def test_drop_closes_and_does_nothing_for_what_is_not_there() -> None:
    cache, one = Cache(10), suspended(1)
    put(cache, one)
    cache.drop(one.workflow_id)
    cache.drop(one.workflow_id)
    assert closed(one)
    assert cache.weight == 0


def test_cache_of_size_zero_keeps_nothing() -> None:
    cache, one = Cache(0), suspended(1)
    put(cache, one)
    assert closed(one)


def test_cache_that_goes_closes_what_it_holds() -> None:
    cache, one = Cache(10), suspended(1)
    put(cache, one)
    del cache
    gc.collect()
    assert closed(one)


def test_error_in_the_finally_of_an_evicted_workflow_does_not_reach_the_turn() -> None:
    async def flow() -> None:
        try:
            await durable.wait_for_signal("n")
        finally:
            raise LookupError("in the user's clean-up")

    cache, one = Cache(1), suspended(1, flow)
    put(cache, one, at=1)
    put(cache, suspended(2), at=2)
    assert closed(one)
    cache.drop_all()


def go_round(cache: Cache, count: int, rounds: int) -> int:
    """So many workflows take a turn each, again and again in the same order. How often one was in memory, in all
    rounds but the first.
    """
    hits = 0
    for at in range(count * rounds):
        number = at % count
        one = cache.get(uuid.UUID(int=number))
        hits += one is not None and at >= count
        put(cache, one or suspended(number), at=at, used_at=at - count)
    return hits


@pytest.mark.parametrize(("count", "share"), [(64, 1.0), (80, 0.8), (128, 0.5), (640, 0.1)])
def test_of_work_that_goes_round_as_much_is_found_as_there_is_room_for(count: int, share: float) -> None:
    """Faults K13: by least-recently-used alone, half of the room for all is hit by none."""
    cache = Cache(64)
    hits = go_round(cache, count, rounds=5)
    assert hits >= 0.9 * share * count * 4
    cache.drop_all()


def test_as_much_is_found_when_turns_do_not_come_in_strict_order() -> None:
    """Whoever is a little late in its round keeps its place."""
    cache, chance = Cache(64), random.Random(1)
    used, hits, count, rounds = dict.fromkeys(range(128), 0), 0, 128, 8
    for turn in range(rounds):
        order = sorted(range(count), key=lambda number: number + chance.uniform(0, 30))
        for place, number in enumerate(order):
            at = turn * count + place
            one = cache.get(uuid.UUID(int=number))
            hits += one is not None and turn > 0
            put(cache, one or suspended(number), at=at, used_at=used[number])
            used[number] = at
    assert hits >= 0.45 * count * (rounds - 1)
    cache.drop_all()


def test_as_much_is_found_where_weight_is_the_bound() -> None:
    one = suspended(1000)
    cache = Cache(1000, max_weight=64 * one.weight)
    one.close()
    hits = go_round(cache, 128, rounds=5)
    assert hits >= 0.9 * 0.5 * 128 * 4
    cache.drop_all()


@pytest.mark.parametrize("most", [1, 4, 64])
def test_what_sleeps_gives_way_to_what_is_busy_at_its_second_turn(most: int) -> None:
    cache = Cache(most)
    for number in range(most):
        put(cache, suspended(number), at=number)
    busy = [suspended(1000 + number) for number in range(most)]
    for one in busy:
        put(cache, one, at=5000, used_at=0)  # as long idle as anybody
    for one in [one if not closed(one) else suspended(one.workflow_id.int) for one in busy]:
        put(cache, one, at=5001, used_at=5000)
    assert [one.workflow_id in cache for one in busy] == [True] * most
    cache.drop_all()


def test_one_that_wakes_up_among_busy_ones_is_found_for_a_while() -> None:
    """It has slept for long, and goes on for a few steps now."""
    cache, awake = Cache(64), suspended(1000)
    for number in range(64):
        put(cache, suspended(number), at=900 + number)
    put(cache, awake, at=1000, used_at=0)
    assert cache.get(awake.workflow_id) is awake
    assert len(cache) <= 64
    cache.drop_all()


def test_nothing_that_is_closed_stays_however_batches_are_made_up() -> None:
    """Of one that was closed and is found again, the next message is lost."""
    cache, chance, used = Cache(40), random.Random(3), dict.fromkeys(range(100), 0)
    for at in range(1, 300):
        batch = chance.sample(range(100), chance.randrange(1, 60))
        one = {number: cache.get(uuid.UUID(int=number)) or suspended(number) for number in batch}
        assert not any(map(closed, one.values()))
        moment = EPOCH + timedelta(seconds=at)
        cache.put_all([(one[n], EPOCH + timedelta(seconds=used[n])) for n in batch], at=moment)
        used.update(dict.fromkeys(batch, at))
        assert len(cache) <= 40
    cache.drop_all()


def test_a_cache_of_one_keeps_one_that_goes_on() -> None:
    cache, one, two = Cache(1), suspended(1), suspended(2)
    put(cache, one, at=1)
    put(cache, one, at=2)
    put(cache, two, at=3, used_at=0)
    assert [closed(one), closed(two)] == [False, True]
    cache.drop_all()


def test_room_is_what_those_that_wait_for_activities_leave() -> None:
    async def works() -> None:
        await echo.execute(1)

    cache, one = Cache(3), suspended(1, works)
    assert cache.room == 3
    put(cache, one)
    put(cache, suspended(2))
    assert cache.room == 2
    done = {"result": "1"}
    one.activate(Event(one.last_seq + 1, EventType.ACTIVITY_COMPLETED, done, EPOCH, ordinal=1))
    put(cache, one)
    assert cache.room == 3
    put(cache, suspended(3, works))
    cache.drop_all()
    assert (cache.room, cache.weight, len(cache)) == (3, 0, 0)


def test_there_is_no_room_for_more_than_may_be_weighed() -> None:
    async def works() -> None:
        await echo.execute(1)

    one = suspended(1, works)
    cache = Cache(1000, max_weight=one.weight)
    put(cache, one)
    assert cache.room == 0
    cache.drop_all()

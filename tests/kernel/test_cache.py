"""The warm cache: by weight, least recently used first, and what leaves is closed."""

from __future__ import annotations

import gc
import uuid
from typing import Any

import durable.kernel.context as durable
from durable.kernel.cache import Cache
from durable.kernel.events import Event, EventType
from durable.kernel.execution import Execution
from tests.kernel.harness import EPOCH, begun, echo


async def waits() -> None:
    await durable.wait_for_signal("n")


def suspended(number: int, code: Any = waits) -> Execution:
    execution = begun(code, workflow_id=uuid.UUID(int=number))
    execution.activate(Event(1, EventType.WORKFLOW_STARTED, {"input": "{}"}, EPOCH))
    return execution


def closed(execution: Execution) -> bool:
    return execution.loop.is_closed()


def test_what_was_put_is_found_and_stays() -> None:
    cache, one = Cache(10), suspended(1)
    cache.put(one)
    assert cache.get(one.workflow_id) is one
    assert cache.get(one.workflow_id) is one
    assert cache.get(uuid.UUID(int=2)) is None
    cache.drop_all()


def test_least_recently_used_leaves_first_and_is_closed() -> None:
    cache = Cache(2)
    one, two, three = (suspended(number) for number in (1, 2, 3))
    cache.put(one)
    cache.put(two)
    cache.get(one.workflow_id)
    cache.put(three)
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
    cache.put(light)
    cache.put(big)
    assert closed(light)
    assert cache.weight == big.weight
    cache.drop_all()
    assert cache.weight == 0


def test_one_that_is_heavier_than_the_whole_cache_is_closed() -> None:
    one = suspended(1)
    cache = Cache(10, max_weight=one.weight - 1)
    cache.put(one)
    assert closed(one)
    assert len(cache) == 0


def test_one_is_weighed_anew_at_each_put() -> None:
    cache, one = Cache(10), suspended(1)
    cache.put(one)
    before = cache.weight
    one.activate(Event(2, EventType.SIGNAL_RECEIVED, {"name": "other", "payload": '"' + "x" * 500 + '"'}, EPOCH))
    cache.put(one)
    assert cache.weight >= before + 500
    assert len(cache) == 1
    cache.drop_all()


def test_finished_one_is_not_kept() -> None:
    cache, one = Cache(10), suspended(1)
    cache.put(one)
    one.activate(Event(2, EventType.SIGNAL_RECEIVED, {"name": "n", "payload": "1"}, EPOCH))
    cache.put(one)
    assert cache.get(one.workflow_id) is None
    assert cache.weight == 0


def test_another_execution_of_the_same_workflow_takes_the_place_and_the_former_is_closed() -> None:
    cache, old, new = Cache(10), suspended(1), suspended(1)
    cache.put(old)
    cache.put(new)
    assert closed(old)
    assert cache.get(new.workflow_id) is new
    cache.drop_all()


def test_drop_closes_and_does_nothing_for_what_is_not_there() -> None:
    cache, one = Cache(10), suspended(1)
    cache.put(one)
    cache.drop(one.workflow_id)
    cache.drop(one.workflow_id)
    assert closed(one)
    assert cache.weight == 0


def test_cache_of_size_zero_keeps_nothing() -> None:
    cache, one = Cache(0), suspended(1)
    cache.put(one)
    assert closed(one)


def test_cache_that_goes_closes_what_it_holds() -> None:
    cache, one = Cache(10), suspended(1)
    cache.put(one)
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
    cache.put(one)
    cache.put(suspended(2))
    assert closed(one)
    cache.drop_all()

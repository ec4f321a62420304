"""The longest texts of callers, in characters of several bytes each, fit into every index that holds them.

They are random: PostgreSQL compresses what repeats itself before it finds an index entry too large.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import durable
from durable import activity, clock, workflow
from durable.errors import ConfigurationError, KeyInvalid
from durable.kernel import limits
from durable.kernel.definitions.registry import registry
from durable.models import OutboxRow, Worker, Workflow
from durable.testing import drain

pytestmark = pytest.mark.django_db

THREE, FOUR = (0x4E00, 0x9FA5), (0x20000, 0x2A6D6)
"""Chinese characters: of three bytes in UTF-8, and of four."""


def text(most: int, *, of: tuple[int, int], within: int = 10**6) -> str:
    """So many characters, or as many as go into so many bytes."""
    chance = random.Random(most)
    count = min(most, within // len(chr(of[0]).encode()))
    return "".join(chr(chance.randint(*of)) for _ in range(count))


@pytest.fixture(autouse=True)
def own_registry(settings: Any) -> Iterator[None]:
    settings.DURABLE = {"MAX_KEY_LENGTH": 1_000}
    with registry.isolated():
        yield


@pytest.mark.parametrize("of", [THREE, FOUR], ids=["three bytes", "four bytes"])
def test_the_longest_names_and_keys_go_through_a_whole_life(of: tuple[int, int]) -> None:
    name = text(limits.MAX_NAME_LENGTH, of=of, within=limits.MAX_NAME_BYTES)
    key = text(limits.MAX_KEY_LENGTH_CEILING, of=of, within=limits.MAX_KEY_BYTES)
    queue = text(limits.MAX_QUEUE_LENGTH, of=of)
    signal = text(limits.MAX_SIGNAL_NAME_LENGTH, of=of)

    @activity(name=name, queue=queue, on_exhausted="hold", retry=durable.Retry(max_attempts=1))
    def breaks() -> None:
        raise type(text(300, of=(0x4E00, 0x9FA5)), (Exception,), {})(text(2_000, of=of))

    @workflow(name=name, queue=queue)
    async def waits() -> Any:
        await durable.wait_for_signal(signal)
        return await breaks.execute()

    started = waits.start(key=key)
    started.signal(signal, 1, dedup=text(limits.MAX_DEDUP_LENGTH, of=of))
    single = breaks.enqueue(key=key[::-1])
    assert waits.get(key).id == started.id
    drain()
    assert set(OutboxRow.objects.values_list("workflow_id", "status", "activity", "queue")) == {
        (handle.id, "dead", name, queue) for handle in (started, single)
    }
    started.cancel(reason=text(limits.MAX_REASON_LENGTH, of=of))
    drain()
    assert Workflow.objects.get(pk=started.id).status == "cancelled"
    now = clock.host_now()
    Worker.objects.create(name=text(limits.MAX_WORKER_NAME_LENGTH, of=of), started_at=now, beat_at=now, version="1")


@pytest.mark.parametrize(
    "begin",
    [lambda flow, key: flow.start(key=key), lambda flow, key: flow.start_many([(), ()], keys=["short", key])],
    ids=["one", "many"],
)
def test_a_key_that_no_index_takes_is_refused_before_anything_is_written(
    begin: Callable[[Any, str], Any], django_assert_num_queries: Any
) -> None:
    """On both databases: a project can move from one to the other."""

    @workflow(name="long.waits")
    async def waits() -> None:
        await durable.wait_for_signal("go")

    key = text(limits.MAX_KEY_BYTES // 4 + 1, of=FOUR)
    with django_assert_num_queries(0), pytest.raises(KeyInvalid) as refused:
        begin(waits, key)
    assert key[:40] in str(refused.value)
    assert "its 2,004 bytes of UTF-8 are more than the 2,000 that fit into an index" in str(refused.value)
    assert "Take a shorter one, or a digest of it" in str(refused.value)


def test_a_name_that_no_index_takes_beside_a_key_is_refused_where_it_is_given() -> None:
    with pytest.raises(ConfigurationError, match=r"its 604 bytes of UTF-8 are more than the 600"):

        @activity(name=text(151, of=FOUR))
        def charge() -> None: ...


def test_a_function_whose_own_name_is_too_long_has_to_be_given_one() -> None:
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(f"def {'f' * 250}(): ...", namespace)
    named = activity(namespace["f" * 250])
    with pytest.raises(ConfigurationError, match=r"more than the limit of 200\. Give it a shorter one with name="):
        named.enqueue()

"""When a pool of connections counts as empty, and when it is well again."""

from __future__ import annotations

from typing import Any

from durable.worker.handlers.pools import REMEMBERED_FOR, STARVED_AFTER, PoolWatch


class Pool:
    """A pool that says what the test lets it say."""

    def __init__(self) -> None:
        self.stats: dict[str, int] = {}

    def get_stats(self) -> dict[str, int]:
        return self.stats


class Watched:
    """One pool, and a clock that the test moves."""

    def __init__(self) -> None:
        self.at = 100.0
        self.pool = Pool()
        self._watch = PoolWatch(pools=self._pools, now=lambda: self.at)
        self.see()

    def _pools(self) -> dict[str, Any]:
        return {"shop": self.pool}

    def see(self, *, asked: int = 0, errors: int = 0, waiting: int = 0, later: float = 0.0) -> list[str]:
        self.at += later
        self.pool.stats = {
            "pool_max": 4,
            "requests_num": asked,
            "requests_errors": errors,
            "requests_waiting": waiting,
        }
        self._watch.look()
        return self._watch.complaints()


def test_a_pool_that_serves_is_well_however_many_wait() -> None:
    watched = Watched()
    for round in range(1, 20):
        assert watched.see(asked=50 + 10 * round, waiting=12, later=STARVED_AFTER) == []


def test_a_pool_that_serves_nobody_for_a_while_is_empty_until_it_serves_again() -> None:
    watched = Watched()
    assert watched.see(asked=20, waiting=12) == []
    assert watched.see(asked=20, waiting=12, later=STARVED_AFTER - 1) == []
    [told] = watched.see(asked=22, waiting=14, later=STARVED_AFTER)
    assert told == (
        "the connection pool of the database 'shop' is empty (4 at most): "
        "14 handlers are waiting for a connection, 0 requests for one have failed so far"
    )
    assert watched.see(asked=23, waiting=14) == []


def test_a_request_that_got_nothing_is_told_until_the_next_one_is_served() -> None:
    watched = Watched()
    assert watched.see(asked=8) == []
    [told] = watched.see(asked=9, errors=1)
    assert "1 requests for one have failed so far" in told
    assert len(watched.see(asked=10, errors=1, waiting=1, later=1)) == 1
    assert watched.see(asked=10, errors=1, later=1) == []


def test_a_request_that_got_nothing_is_forgotten_after_a_while_where_nobody_asks_any_more() -> None:
    watched = Watched()
    assert len(watched.see(asked=9, errors=1)) == 1
    assert len(watched.see(asked=9, errors=1, later=REMEMBERED_FOR)) == 1
    assert watched.see(asked=9, errors=1, later=1) == []


def test_what_was_told_before_the_watch_began_is_none_of_its_complaints() -> None:
    pool = Pool()
    pool.stats = {"requests_num": 9, "requests_errors": 3, "pool_max": 4}
    watch = PoolWatch(pools=lambda: {"shop": pool}, now=lambda: 1.0)
    watch.look()
    assert watch.complaints() == []

"""Ids of new workflows."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta

from durable import clock
from durable.client import ids


def test_ids_are_version_seven_and_sort_by_creation():
    made = [ids.new() for _ in range(5_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {(one.version, one.variant) for one in made} == {(7, "specified in RFC 4122")}


def test_ids_go_on_growing_when_the_clock_is_set_back(frozen_clock):
    generator = ids.Ids()
    before = generator.new()
    assert before.int >> 80 == int(frozen_clock.now.timestamp() * 1000)
    frozen_clock.move(timedelta(hours=-1))
    assert generator.new() > before


def test_a_millisecond_that_is_full_borrows_from_the_next(frozen_clock):
    generator = ids.Ids()
    before = generator.new()
    generator._random = (1 << 74) - 1  # a full millisecond comes once in 2**74 draws
    after = generator.new()
    assert after > before
    assert after.int >> 80 == (before.int >> 80) + 1
    assert after.version == 7


def test_threads_never_get_one_id_twice():
    made: list[object] = []

    def make() -> None:
        made.extend(ids.new() for _ in range(2_000))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8_000


def test_a_forked_child_does_not_go_on_with_its_parents_numbers(frozen_clock):
    ids.new()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, ids.new().bytes)
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 16)
    os.close(reader)
    os.close(writer)
    mine = ids.new()
    # Going on from the parent's number, the two would differ in the last four bytes or so at most.
    assert theirs[6:11] != mine.bytes[6:11]


def test_ids_made_after_a_frozen_clock_carry_the_real_time_again(frozen_clock):
    """A test in 2030 gives its year to no id of the tests that follow."""
    frozen_clock.move(timedelta(days=365))
    frozen = [ids.new(), ids.new()]
    clock.unfreeze()
    after = [ids.new(), ids.new()]
    assert frozen == sorted(frozen)
    assert after == sorted(after)
    assert after[-1] < frozen[0]
    clock.freeze(datetime(2031, 1, 1, tzinfo=UTC))
    assert ids.new() > after[-1]

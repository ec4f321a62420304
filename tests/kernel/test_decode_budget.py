"""Whoever sends a value does not choose how long it is read: members of unions, chosen numbers, depth, sizes."""

from __future__ import annotations

import json
import sys
import uuid
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import pytest

from durable.errors import PayloadError, PayloadTooLarge
from durable.kernel.codec import JsonCodec
from durable.kernel.limits import DECODE_STEPS, DECODE_STEPS_PER_VALUE, MAX_PAYLOAD_DEPTH, MAX_STORED_DEPTH
from durable.kernel.payloads.birthplace import NOWHERE, Birthplace
from durable.kernel.payloads.steps import Steps, is_deeper, values_in
from tests.kernel.budgets import Counted, Leaf, Left, Long, Right
from tests.kernel.kinds import Line, Point, Tree

CODEC = JsonCodec()
PRIME = sys.hash_info.modulus


@dataclass
class All(Counted):
    all: list[All | Some | Leaf]


@dataclass
class Some(Counted):
    any: list[All | Some | Leaf]


@dataclass
class Card:
    kind: Literal["card"]
    number: str


@dataclass
class Cash:
    kind: Literal["cash"]
    number: str


@dataclass
class Short:
    x: int


@dataclass(frozen=True)
class Key:
    number: int


class Pair(NamedTuple):
    left: int
    right: int


def refused(text: str, hint: Any) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        CODEC.decode(text, hint, path="value")
    return caught.value


def test_a_recursive_union_that_nothing_tells_apart_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "made", 0)
    error = refused('{"inner":' * 40 + '{"number":"x"}' + "}" * 40, Left | Right)
    assert "takes more than" in error.problem
    assert "differ in their fields" in error.cure
    assert error.path.startswith("value.inner.inner")
    assert Counted.made <= DECODE_STEPS + DECODE_STEPS_PER_VALUE * 100


def test_members_of_a_union_that_differ_in_their_fields_are_read_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "made", 0)
    open_, close = '{"all":[{"any":[', "]}]}"
    assert CODEC.decode(open_ * 25 + '{"number":1}' + close * 25, All | Some, path="value")
    assert Counted.made == 51
    error = refused(open_ * 25 + '{"number":"x"}' + close * 25, All | Some)
    assert error.path == "value" + ".all[0].any[0]" * 25 + ".number"
    assert error.problem == "the stored str is not a whole number"


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ('{"kind":"cash","number":"1"}', Card | Cash, Cash("cash", "1")),
        ('{"x":1,"y":2}', Short | Long, Long(1, 2)),
        ('{"x":1}', Short | Long, Long(1)),
        ('{"sku":"a","price":"1"}', dict[str, str] | Line, Line("a", Decimal(1))),
        ('{"other":"a"}', dict[str, str] | Line, {"other": "a"}),
        ('{"x":1,"y":2.5,"z":3}', Line | Point, Point(1, 2.5)),
        ('["a"]', list[int] | list[str], ["a"]),
        ('"2026-01-02"', Decimal | uuid.UUID | str, "2026-01-02"),
        ('"1.5"', Decimal | uuid.UUID, Decimal("1.5")),
    ],
)
def test_untagged_data_is_read_by_the_member_whose_fields_it_has(text: str, hint: Any, value: Any) -> None:
    read = CODEC.decode(text, hint, path="value")
    assert read == value
    assert type(read) is type(value)


COLLIDING = [PRIME * number for number in range(1, 5_001)]


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (COLLIDING, set[int]),
        (COLLIDING, frozenset[int]),
        ({str(number): 1 for number in COLLIDING}, dict[int, int]),
        ([str(number) for number in COLLIDING], set[Decimal]),
        ([str(uuid.UUID(int=number)) for number in COLLIDING], set[uuid.UUID]),
        ({str(uuid.UUID(int=number)): 1 for number in COLLIDING}, dict[uuid.UUID, int]),
        ([[number, 1] for number in COLLIDING], set[tuple[int, int]]),
        ([{"left": number, "right": 1} for number in COLLIDING], set[Pair]),
        ([{"number": number} for number in COLLIDING], set[Key]),
        ([[number] for number in COLLIDING], frozenset[frozenset[int]]),
    ],
    ids=lambda value: "" if isinstance(value, list | dict) else str(value),
)
def test_keys_of_one_chosen_hash_end_with_the_budget(data: Any, hint: Any) -> None:
    error = refused(json.dumps(data), hint)
    assert "takes more than" in error.problem


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (list(range(60_000)), set[int]),
        ([1] * 60_000, set[int]),
        (COLLIDING[:300], set[int]),
        ([str(number) for number in range(60_000)], set[str]),
        ({str(number): 1 for number in range(60_000)}, dict[int, int]),
        ({str(number): 1 for number in range(60_000)}, dict[str, int]),
    ],
    ids=["numbers", "one number", "few of one hash", "texts", "numbers as keys", "texts as keys"],
)
def test_large_sets_and_mappings_are_read(data: Any, hint: Any) -> None:
    read = CODEC.decode(json.dumps(data), hint, path="value")
    assert len(read) == len(set(data))


def test_a_record_with_many_fields_that_are_not_there_is_within_its_budget_when_it_has_been_written_itself() -> None:
    wide: Any = __import__("dataclasses").make_dataclass("Wide", [(f"field_{n}", int, 0) for n in range(50)])
    written = CODEC.encode([wide() for _ in range(1_500)], list[wide], path="value")
    assert len(CODEC.decode(written, list[wide], path="value")) == 1_500
    before = json.dumps([{"field_1": 1, "field_2": 2} for _ in range(20_000)])
    assert len(CODEC.decode(before, list[wide], path="value")) == 20_000
    assert "takes more than" in refused("[" + ",".join(["{}"] * 100_000) + "]", list[wide]).problem


def test_the_steps_of_a_decode_grow_with_its_data_only() -> None:
    steps = Steps([[1, 2], {"a": 3}])
    steps.spend(DECODE_STEPS + DECODE_STEPS_PER_VALUE * 6)
    assert not steps.are_spent
    with pytest.raises(Exception, match="takes more than 100,192 steps"):
        steps.spend(1)
    assert steps.are_spent
    assert values_in("a") == 1
    assert values_in({"a": [1, {"b": []}]}) == 5


def test_data_that_is_nested_deeper_than_anything_that_may_be_written_is_refused() -> None:
    deepest = MAX_PAYLOAD_DEPTH // 2
    tree = '{"name":"","children":[' * deepest + "]}" * deepest
    assert CODEC.decode(tree, Tree, path="value").name == ""
    for levels in (MAX_STORED_DEPTH + 1, 900, 5_000, 100_000):
        for hint in (Any, Tree, list[Any]):
            assert refused("[" * levels + "]" * levels, hint).path == "value"
        assert refused('{"children":' * levels + "1" + "}" * levels, Tree).path == "value"
    broad = "[" + ",".join(["[]"] * 1_000) + "]"
    assert len(CODEC.decode(broad, list[Any], path="value")) == 1_000
    assert not is_deeper([[]], 2)
    assert is_deeper([[[]]], 2)


class Squeezed(JsonCodec):
    """Compresses what it stores."""

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        return b64encode(zlib.compress(text.encode())).decode()

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        return zlib.decompress(b64decode(text)).decode()


def test_a_compressing_codec_is_bounded_by_the_plain_text_on_both_ways() -> None:
    codec = Squeezed(max_bytes=1_000)
    fits, over = "a" * 998, "a" * 999
    stored = codec.encode(fits, str, path="text")
    assert len(stored) < 100
    assert codec.decode(stored, str, path="text") == fits
    with pytest.raises(PayloadTooLarge) as caught:
        codec.encode(over, str, path="text")
    assert (caught.value.path, caught.value.size, caught.value.limit) == ("text", 1_001, 1_000)
    for bomb in ("a" * 999, "é" * 500, " " * 50_000_000):
        with pytest.raises(PayloadTooLarge):
            codec.decode(codec.wrap(f'"{bomb}"', NOWHERE), str, path="text")


def test_a_bomb_is_measured_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(text: str) -> Any:
        raise AssertionError("it was parsed")

    monkeypatch.setattr("durable.kernel.codec.parsed", parsed)
    codec = Squeezed(max_bytes=1_000)
    with pytest.raises(PayloadTooLarge):
        codec.decode(codec.wrap("[" + "1," * 1_000 + "1]", NOWHERE), path="text")


def test_a_limit_that_was_lowered_since_does_not_make_what_is_stored_unreadable() -> None:
    stored = JsonCodec().encode("a" * 5_000, str, path="text")
    assert JsonCodec(max_bytes=1_000).decode(stored, str, path="text") == "a" * 5_000


@pytest.mark.parametrize("bad", [b"bytes", None, 7, "a\0b", "\ud800"])
def test_a_hook_that_returns_no_storable_text_is_named(bad: Any) -> None:
    class Odd(JsonCodec):
        def wrap(self, text: str, birthplace: Birthplace) -> str:
            return bad  # type: ignore[no-any-return]

        def unwrap(self, text: str, birthplace: Birthplace) -> str:
            return bad  # type: ignore[no-any-return]

    with pytest.raises(PayloadError, match="wrap returned"):
        Odd().encode(1, path="value")
    with pytest.raises(PayloadError):
        Odd().decode("1", path="value")

"""Payloads: what is carried, and that the same value always gives the same bytes."""
# ruff: noqa: DTZ001, UP006, UP007, UP035, UP045 - naive moments and old spellings of annotations are carried, too

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Dict,
    List,
    Literal,
    Optional,
    Tuple,
    Union,
)

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable.errors import PayloadError, PayloadTooLarge
from durable.kernel.codec import JsonCodec, digest
from tests.kernel.kinds import (
    Address,
    Box,
    Colour,
    Level,
    Line,
    OrderId,
    Point,
    Receipt,
    Right,
    Shape,
    Tree,
    Word,
)

CODEC = JsonCodec()


def there_and_back(value, hint):
    return CODEC.decode(CODEC.encode(value, hint, path="value"), hint, path="value")


CARRIED: list[tuple[Any, Any, str | None]] = [
    (None, None, "null"),
    (True, bool, "true"),
    (42, int, "42"),
    (10**400, int, "1" + "0" * 400),
    (OrderId(4), OrderId, "4"),
    (0.1, float, "0.1"),
    ("käse €", str, '"käse €"'),
    ("\\u0000 as text", str, '"\\\\u0000 as text"'),
    (Decimal("9.90"), Decimal, '"9.90"'),
    (Decimal("1E+2"), Decimal, '"1E+2"'),
    (uuid.UUID(int=7), uuid.UUID, '"00000000-0000-0000-0000-000000000007"'),
    (datetime(2026, 1, 2, 3, 4, 5, 6), datetime, '"2026-01-02T03:04:05.000006"'),
    (datetime(2026, 1, 2, tzinfo=UTC), datetime, '"2026-01-02T00:00:00+00:00"'),
    (datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30))), datetime, None),
    (date(2026, 1, 2), date, '"2026-01-02"'),
    (time(3, 4, tzinfo=UTC), time, '"03:04:00+00:00"'),
    (timedelta(days=-1, microseconds=1), timedelta, None),
    (timedelta(days=30), timedelta, '"P30DT0S"'),
    (timedelta.max, timedelta, None),
    (timedelta.min, timedelta, None),
    (b"\x00\xff", bytes, '"AP8="'),
    (Colour.RED, Colour, '"red"'),
    (Word.YES, Word, '"yes"'),
    (Level.LOW, Level, "1"),
    (Right.READ | Right.WRITE, Right, "3"),
    (Shape.SQUARE, Shape, '"SQUARE"'),
    ([1, 2], list[int], "[1,2]"),
    ([1, "a", None, {"b": [1.5]}], list, '[1,"a",null,{"b":[1.5]}]'),
    ((1, "a"), tuple[int, str], '[1,"a"]'),
    ((), tuple[()], "[]"),
    ((1, "a"), tuple, '[1,"a"]'),
    ((1, "a"), Tuple, '[1,"a"]'),
    ([1, "a"], List, '[1,"a"]'),
    ({"a": 1}, Dict, '{"a":1}'),
    ((Decimal(1), Decimal(2)), tuple[Decimal, ...], '["1","2"]'),
    ({3, 1, 2}, set[int], "[1,2,3]"),
    (frozenset({"b", "a"}), frozenset[str], '["a","b"]'),
    ({"b": 1, "a": 2}, dict[str, int], '{"b":1,"a":2}'),
    ({1: "x", -2: "y"}, dict[int, str], '{"1":"x","-2":"y"}'),
    ({uuid.UUID(int=1): 1}, dict[uuid.UUID, int], None),
    ({Colour.RED: 1}, Mapping[Colour, int], '{"red":1}'),
    ([date(2026, 1, 2)], Sequence[date], '["2026-01-02"]'),
    (Line("a", Decimal("1.10"), 2), Line, '{"sku":"a","price":"1.10","count":2}'),
    (Receipt("7", [Line("a", Decimal(1))], datetime(2026, 1, 1)), Receipt, None),
    (Tree("a", [Tree("b", [Tree("c")])]), Tree, None),
    (Box(Decimal("1.5")), Box[Decimal], '{"inside":"1.5"}'),
    (Point(1, 2.0), Point, '{"x":1,"y":2.0}'),
    ({"town": "Ulm"}, Address, '{"town":"Ulm"}'),
    ({"town": "Ulm", "zip": "89073"}, Address, None),
    (None, Optional[Decimal], "null"),
    (Decimal(1), Decimal | None, '"1"'),
    (3, int | str, "3"),
    ("3", int | str, '"3"'),
    (3, Union[int, float], "3"),
    (3.0, Union[int, float], "3.0"),
    (True, int | bool, "true"),
    ("x", str | uuid.UUID, '{"str":"x"}'),
    (uuid.UUID(int=1), str | uuid.UUID, None),
    (Point(1), Point | Line, None),
    (Line("a", Decimal(1)), Point | Line | None, None),
    (None, Point | Line | None, "null"),
    (["a"], list[int] | list[str], None),
    ({"Line": 1}, dict[str, int] | Line, None),
    ("slow", Literal["slow", "fast"], '"slow"'),
    (Colour.BLUE, Literal[Colour.BLUE], '"blue"'),
    (5, Annotated[int, {"unhashable": []}], "5"),
    ({"any": [1, None]}, Any, '{"any":[1,null]}'),
    ("x", object, '"x"'),
]


@pytest.mark.parametrize(("value", "hint", "text"), CARRIED, ids=range(len(CARRIED)))
def test_annotated_values_come_back_equal_and_of_their_type(value, hint, text):
    written = CODEC.encode(value, hint, path="value")
    if text is not None:
        assert written == text
    back = CODEC.decode(written, hint, path="value")
    assert back == value
    assert type(back) is type(value)


@settings(deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
       | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
       lambda inner: st.lists(inner) | st.dictionaries(st.text("ab\\u0"), inner), max_leaves=20))  # fmt: skip
def test_json_natives_are_carried_without_an_annotation(value):
    assert there_and_back(value, Any) == value


@settings(deadline=None)
@given(st.timedeltas())
def test_every_span_comes_back_to_the_microsecond(span):
    assert there_and_back(span, timedelta) == span


def test_tuples_without_annotation_are_lists():
    assert there_and_back({"a": (1, (2,))}, Any) == {"a": [1, [2]]}


def test_fields_that_came_and_went_since_it_was_written_do_not_stop_the_reading():
    assert CODEC.decode('{"sku":"a","price":"1","gone":true}', Line, path="line") == Line("a", Decimal(1), 1)


def test_a_value_written_before_its_annotation_became_a_union_can_be_read():
    assert CODEC.decode('{"sku":"a","price":"1"}', Line | Point, path="line") == Line("a", Decimal(1))


def test_the_order_of_a_unions_members_does_not_change_the_bytes():
    one = CODEC.encode([], list[int] | list[str], path="value")
    assert CODEC.encode([], list[str] | list[int], path="value") == one


def test_a_size_over_the_limit_is_refused_with_size_and_limit():
    """Faults P6."""
    small = JsonCodec(max_bytes=10)
    assert small.encode("12345678", str, path="text") == '"12345678"'
    with pytest.raises(PayloadTooLarge) as caught:
        small.encode("éééé1", str, path="text")
    assert (caught.value.size, caught.value.limit, caught.value.path) == (11, 10, "text")


class Backwards(JsonCodec):
    def wrap(self, text, birthplace):
        return text[::-1]

    def unwrap(self, text, birthplace):
        return text[::-1]


class Broken(JsonCodec):
    def wrap(self, text, birthplace):
        raise OSError("no key")

    def unwrap(self, text, birthplace):
        raise OSError("no key")


def test_hooks_wrap_and_unwrap_the_text():
    assert Backwards().encode("ab", str, path="value") == '"ba"'
    assert Backwards().decode('"ba"', str, path="value") == "ab"


def test_a_hook_that_fails_is_a_payload_error_with_its_cause():
    """Faults P3."""
    with pytest.raises(PayloadError, match="wrap failed with OSError: no key"):
        Broken().encode(1, int, path="value")
    with pytest.raises(PayloadError, match="unwrap failed with OSError: no key"):
        Broken().decode("1", int, path="value")


def test_sets_have_the_same_bytes_under_another_hash_seed():
    code = (
        "from durable.kernel.codec import JsonCodec\n"
        "print(JsonCodec().encode({'a', 'b', 'c', 'd', 'e'}, set[str], path='value'))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert outputs == {'["a","b","c","d","e"]\n'}


def test_a_digest_is_sixteen_hexadecimal_digits_that_stand_for_the_text():
    assert digest("a") == digest("a") != digest("b")
    assert len(digest("a")) == 16
    int(digest("a"), 16)

"""All converters, both ways, against values and stored texts of any kind: only `PayloadError`, in bounded work."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable.errors import PayloadError
from durable.kernel.codec import JsonCodec
from durable.kernel.limits import DECODE_STEPS, DECODE_STEPS_PER_VALUE
from durable.kernel.payloads.steps import values_in
from tests import hostile
from tests.kernel.kinds import Address, Box, Colour, Level, Line, OrderId, Picky, Point, Receipt, Right, Shape, Tree

CODEC = JsonCodec()
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # of long reprs


class Nowhere(tzinfo):
    """A time zone that raises."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        raise ArithmeticError("nowhere")

    tzname = dst = utcoffset  # type: ignore[assignment]


LEAVES: list[Any] = [
    Any, object, None, bool, int, float, str, bytes, Decimal, uuid.UUID, datetime, date, time, timedelta, complex,
    OrderId, Colour, Level, Right, Shape, Literal["a", 1, True], Literal[Colour.RED], Line, Receipt, Tree, Picky, Point,
    Address, hostile.Record, list, dict, set, tuple, Annotated[int, "a mark"], "missing",
]  # fmt: skip


ONE: list[Any] = [list, Sequence, set, frozenset, Box]
TWO: list[Any] = [Mapping, tuple, typing.Union]
EACH: Any = tuple
NAMED: Any = dict


def _compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    one = st.builds(lambda kind, hint: kind[hint], st.sampled_from(ONE), inner)
    two = st.builds(lambda kind, left, right: kind[left, right], st.sampled_from(TWO), inner, inner)
    many = inner.map(lambda hint: EACH[hint, ...])
    named = inner.map(lambda hint: NAMED[str, hint])
    return one | two | many | named


hints = st.recursive(st.sampled_from(LEAVES), _compound, max_leaves=4)


def one_of(*cases: Any) -> st.SearchStrategy[Any]:
    """One of the cases, by its place: some of them are too long to be shown."""
    return st.integers(0, len(cases) - 1).map(cases.__getitem__)


texts = st.text() | one_of(
    *[
        "", "a", "a\0b", "\ud800", "-", "0" * 5_000, "9" * 5_000, "1e400", "1e999999999999999999", "-Infinity", "NaN",
        "sNaN123", "P1DT2S", f"P{'9' * 5_000}DT0S", "P1DT0.5S", "2026-01-02", "2026-01-02T03:04:05+99:99", "24:00",
        "2026-W53-1", "0001-01-01T00:00:00+23:59", "٣", "-٣", "--1", "AP8=", "=", "é", str(uuid.UUID(int=7)),
        "{" + "0" * 32 + "}", "red", "SQUARE", "missing", "Line", "1", "-1",
    ]
)  # fmt: skip
numbers = st.integers() | one_of(10**400, -(10**400), 10**4_299, 2**63, 2**64, 2**61 - 1, 4_096, -1)
floats = st.floats(allow_nan=False, allow_infinity=False)
names = texts | st.sampled_from(["sku", "price", "count", "name", "children", "number", "lines", "x", "y", "inside"])
data = st.recursive(
    st.none() | st.booleans() | numbers | floats | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(hints, data)
def test_stored_data_of_any_kind_is_read_or_refused_in_bounded_work(hint: Any, data: Any) -> None:
    text = json.dumps(data)
    allowed = 20 * (DECODE_STEPS + DECODE_STEPS_PER_VALUE * values_in(data))
    with Counted() as calls:
        try:
            CODEC.decode(text, hint, path="value")
        except PayloadError as error:
            assert_is_fit_for_a_log(error)
    assert calls[0] < allowed


@settings(max_examples=80, deadline=None)
@given(hints, texts | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_stored_text_of_any_kind_is_read_or_refused(hint: Any, text: str) -> None:
    try:
        CODEC.decode(text, hint, path="value")
    except PayloadError as error:
        assert_is_fit_for_a_log(error)


values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats() | texts | st.binary() | st.decimals() | st.uuids()
    | st.datetimes(timezones=st.none() | st.just(UTC)) | st.dates() | st.times() | st.timedeltas()
    | st.sampled_from([
        Decimal("NaN"), Decimal("1E+999999"), 1j, object(), Colour.RED, Level.LOW, Right(3), Shape.SQUARE,
        Line("a", Decimal(1)), Line(1, "a"), Point(1), Picky(1), Tree("a"), Tree(["a"], "b"), Box(object()), int,  # type: ignore[arg-type]
        {"town": "a"}, bytearray(b"a"), range(3), Ellipsis,
    ])
    | one_of(10**5_000, -(10**5_000)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | numbers | st.none(), inner, max_size=4)
    | st.tuples(inner, inner) | st.builds(Tree, st.text(), st.lists(inner, max_size=2)) | st.builds(Box, inner),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(hints, values)
def test_values_of_any_kind_are_written_so_that_they_can_be_stored_and_read_or_refused(hint: Any, value: Any) -> None:
    try:
        stored = CODEC.encode(value, hint, path="value")
    except PayloadError as error:
        assert_is_storable(str(error))
        return
    assert_is_storable(stored)
    assert "\\u0000" not in stored.replace("\\\\", "")
    CODEC.decode(stored, hint, path="value")


@settings(max_examples=80, deadline=None)
@given(values)
def test_what_was_written_without_an_annotation_is_read_as_what_it_is(value: Any) -> None:
    try:
        stored = CODEC.encode(value, path="value")
    except PayloadError:
        return
    assert CODEC.encode(CODEC.decode(stored, path="value"), path="value") == stored


def test_a_moment_whose_time_zone_raises_is_refused() -> None:
    with pytest.raises(PayloadError, match="ArithmeticError: nowhere"):
        CODEC.encode([datetime(2026, 1, 1, tzinfo=Nowhere())], list[datetime], path="value")


def assert_is_fit_for_a_log(error: PayloadError) -> None:
    """It is short, storable, and begins with its path."""
    text = str(error)
    assert_is_storable(text)
    assert text.startswith("value")
    assert len(text) < 4_000


def assert_is_storable(text: str) -> None:
    text.encode("utf-8")
    assert "\0" not in text


class Counted:
    """Counts the calls that this thread makes meanwhile, those of C included."""

    def __enter__(self) -> list[int]:
        self.calls = [0]
        self.before = sys.getprofile()

        def count(frame: Any, event: str, arg: Any) -> None:
            if event in ("call", "c_call"):
                self.calls[0] += 1

        sys.setprofile(count)
        return self.calls

    def __exit__(self, *error: object) -> None:
        sys.setprofile(self.before)


ALONE = """
import json, resource, sys
from datetime import timedelta
from decimal import Decimal
from typing import Any
from tests.kernel import budgets, kinds
from durable.errors import PayloadError
from durable.kernel.codec import JsonCodec

resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
sys.set_int_max_str_digits({digits})
codec = JsonCodec()
most = 256 * 1024
P = sys.hash_info.modulus
attacks = {{
    "numbers of many digits": ("1" * most, int),
    "a fraction of many digits": ("0." + "1" * most, float),
    "digits as a span": (json.dumps("P" + "9" * most + "DT0S"), timedelta),
    "digits as a number in text": (json.dumps("9" * most), Decimal),
    "digits as a key": (json.dumps({{"9" * most: 1}}), dict[int, int]),
    "digits as an exponent": ("1e" + "9" * most, float),
    "numbers of one hash": (json.dumps([P * n for n in range(1, 12_000)]), set[int]),
    "keys of one hash": (json.dumps({{P * n: 1 for n in range(1, 10_000)}}), dict[int, int]),
    "empty records": ("[" + ",".join(["{{}}"] * (most // 3)) + "]", list[budgets.Long]),
    "empty lists": ("[" + ",".join(["[]"] * (most // 3)) + "]", list[list[int]]),
    "depth": ("[" * most, Any),
    "depth of records": ('{{"name":"","children":[' * (most // 30), kinds.Tree),
    "a union in depth": ('{{"inner":' * 110 + '{{"number":"x"}}' + "}}" * 110, budgets.Left | budgets.Right),
    "a union in breadth": (
        "[" + ",".join(['{{"inner":' * 20 + '{{"number":"x"}}' + "}}" * 20] * 1_000) + "]",
        list[budgets.Left | budgets.Right],
    ),
    "a flag": (str(1 << 10_000), kinds.Right),
}}
for name, (text, hint) in attacks.items():
    try:
        codec.decode(text, hint, path="value")
        print(name, "read")
    except PayloadError as error:
        print(name, "refused")
print("done")
"""


@pytest.mark.parametrize("digits", [0, 4_300])
def test_256_kib_that_mean_harm_are_refused_within_512_mib_and_two_minutes_of_computing(digits: int) -> None:
    """Also in a process that has lifted Python's limit for the digits of numbers."""
    ran = subprocess.run(
        [sys.executable, "-c", ALONE.format(digits=digits)], capture_output=True, text=True, check=False
    )
    lines = ran.stdout.splitlines()
    assert lines[-1:] == ["done"], ran.stderr[-2_000:]
    told = dict(line.rsplit(" ", 1) for line in lines[:-1])
    read = {name for name, outcome in told.items() if outcome == "read"}
    assert read == {"a fraction of many digits", "digits as a number in text", "empty lists"}

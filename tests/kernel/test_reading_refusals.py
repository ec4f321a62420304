"""What is said of stored data that cannot be read: where it is and of which type, and never what it is."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict

import pytest

from durable import activity
from durable.errors import PayloadError
from durable.kernel.codec import JsonCodec, decode_arguments
from durable.kernel.payloads.birthplace import NOWHERE
from tests.kernel.kinds import Address, Colour, Line, Point, Right

CODEC = JsonCodec()
CANARY = "canary-078-05-1120"


class Chatty(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        raise ValueError(f"no such member: {value}")


class Loud(enum.Flag):
    ONE = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        raise LookupError(f"no such member: {value} {CANARY}")


@dataclass
class Quoting:
    number: str

    def __post_init__(self) -> None:
        raise ValueError(f"{self.number} is no number of ours")


@dataclass(frozen=True)
class Unhashable:
    number: str

    def __hash__(self) -> int:
        raise TypeError(f"{self.number} cannot be hashed")


class Pair(NamedTuple):
    left: int
    right: Quoting


class Keyed(TypedDict):
    number: int


HINTS: list[Any] = [
    int, float, bool, None, Decimal, uuid.UUID, datetime, date, time, timedelta, bytes, Colour, Right, Chatty, Loud,
    Literal["a", 3], Line, Point, Address, Quoting, Pair, Keyed, list[int], set[int], tuple[int, ...], tuple[int, int],
    dict[str, int], dict[int, int], set[Unhashable], int | Decimal, Line | Point, list[int] | list[bool], complex,
]  # fmt: skip
DATA: list[Any] = [
    f'"{CANARY}"',
    f'["{CANARY}"]',
    f'["{CANARY}", "{CANARY}"]',
    f'{{"{CANARY}": "{CANARY}"}}',
    f'{{"{CANARY}": 1}}',
    f'{{"sku": "{CANARY}", "price": "{CANARY}", "town": ["{CANARY}"], "number": "{CANARY}", "left": "{CANARY}"}}',
    f'{{"left": 1, "right": {{"number": "{CANARY}"}}}}',
    f'{{"Line": {{"sku": "{CANARY}", "price": "{CANARY}"}}}}',
    f'[{{"number": "{CANARY}"}}]',
    f'{{"{CANARY}',
    "4096",
]


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_a_refusal_of_stored_data_names_path_and_type_and_never_the_data(hint: Any) -> None:
    refused = [error for text in DATA if (error := _refused(text, hint)) is not None]
    assert len(refused) >= 5
    for error in refused:
        assert CANARY not in f"{error} {error.path} {error.problem} {error.cure} {error!r}"
        assert error.path.startswith("value")


def _refused(text: str, hint: Any) -> PayloadError | None:
    try:
        CODEC.decode(text, hint, path="value")
    except PayloadError as error:
        return error
    return None


def test_the_path_into_a_mapping_counts_its_keys_and_does_not_show_them() -> None:
    with pytest.raises(PayloadError) as refused:
        CODEC.decode(f'{{"a": [1], "{CANARY}": [1, "x"]}}', dict[str, list[int]], path="value")
    assert refused.value.path == "value[key no. 2][1]"
    assert refused.value.problem == "the stored str is not a whole number"


def test_an_error_of_the_users_class_is_named_by_its_class_and_kept_as_the_cause() -> None:
    with pytest.raises(PayloadError) as refused:
        CODEC.decode(f'[{{"number": "{CANARY}"}}]', list[Quoting], path="value")
    assert refused.value.path == "value[0]"
    assert refused.value.problem == "Quoting refused its stored fields by ValueError"
    assert CANARY in str(refused.value.__cause__)


@activity(name="reading.take")
def take(number: int, *more: int, **named: int) -> None:
    """Take numbers."""


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (f'{{"number": "{CANARY}"}}', "number"),
        (f'{{"number": 1, "*more": [2, "{CANARY}"]}}', "more[1]"),
        (f'{{"number": 1, "*more": "{CANARY}"}}', "more"),
        (f'{{"number": 1, "**named": {{"a": 1, "{CANARY}": "{CANARY}"}}}}', "named[key no. 2]"),
        (f'{{"number": 1, "**named": "{CANARY}"}}', "named"),
    ],
)
def test_a_refusal_of_stored_arguments_shows_none_of_them(text: str, path: str) -> None:
    with pytest.raises(PayloadError) as refused:
        decode_arguments(take, text, codec=CODEC, workflow_id=NOWHERE.workflow_id)
    assert refused.value.path == path
    assert CANARY not in str(refused.value)


def test_the_name_of_a_stored_argument_that_no_handler_has_is_bounded() -> None:
    with pytest.raises(PayloadError) as refused:
        decode_arguments(take, f'{{"number": 1, "{"x" * 100_000}": 1}}', codec=CODEC, workflow_id=NOWHERE.workflow_id)
    assert len(str(refused.value)) < 1_000

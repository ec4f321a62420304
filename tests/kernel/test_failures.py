"""Failures as they are stored: sealed and opened, whatever the codec does, and grouped without being read."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from durable.errors import PayloadError
from durable.kernel import failures
from durable.kernel.codec import JsonCodec
from durable.kernel.payloads.birthplace import Birthplace, failure
from durable.outcomes import Failure

BORN = failure(uuid.UUID(int=7), 1)
FAILED = Failure("shop.Refused", "no money on 4111", "Traceback: 4111")


class Bound(JsonCodec):
    """Wraps a text together with its birthplace, and unwraps it at no other."""

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        return f"{birthplace}|{text[::-1]}"

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        place, _, rest = text.partition("|")
        if place != str(birthplace):
            raise ValueError("of another place")
        return rest[::-1]


class Broken(JsonCodec):
    """Has lost its key."""

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        raise RuntimeError("no key")


def test_a_sealed_failure_has_its_class_alone_and_opens_where_it_was_born() -> None:
    data = failures.sealed(FAILED, BORN, codec=Bound())
    assert data.keys() == {"type", "sealed"}
    assert data["type"] == "shop.Refused"
    assert "no money" not in data["sealed"]
    assert failures.opened(data, BORN, codec=Bound()) == FAILED


def test_one_that_was_moved_elsewhere_does_not_open() -> None:
    data = failures.sealed(FAILED, BORN, codec=Bound())
    other = failure(uuid.UUID(int=8), 1)
    with pytest.raises(PayloadError):
        failures.opened(data, other, codec=Bound())
    assert failures.readable(data, other, codec=Bound()).type == "shop.Refused"
    assert "cannot be read" in failures.readable(data, other, codec=Bound()).message


def test_a_plain_one_of_before_opens_under_any_codec() -> None:
    assert failures.opened(FAILED.as_data(), BORN, codec=Bound()) == FAILED
    assert failures.readable_reason("as it was", BORN, codec=Bound()) == "as it was"
    assert failures.readable_block({"reason": "as it was"}, BORN, codec=Bound()) == {"reason": "as it was"}


def test_what_the_codec_cannot_wrap_is_kept_without_its_text() -> None:
    data = failures.sealed(FAILED, BORN, codec=Broken())
    assert failures.opened(data, BORN, codec=Broken()) == Failure(
        "shop.Refused", "(not kept: the codec could not wrap it)"
    )
    reason = failures.sealed_reason("4111", BORN, codec=Broken())
    assert reason
    assert "4111" not in reason
    assert "4111" not in str(failures.sealed_block({"reason": "4111", "version": "a"}, BORN, codec=Broken()))


def test_a_traceback_for_which_there_is_no_room_is_left_out_before_the_message() -> None:
    long = Failure("shop.Refused", "no money", "x" * 400)
    data = failures.sealed(long, BORN, codec=JsonCodec(max_bytes=200))
    assert failures.opened(data, BORN, codec=JsonCodec()) == Failure("shop.Refused", "no money")


def test_a_block_keeps_its_place_and_seals_its_texts() -> None:
    told: dict[str, Any] = {"reason": "R", "recorded": "S", "asked": "T", "position": 4, "version": "a"}
    data = failures.sealed_block(told, BORN, codec=Bound())
    assert data.keys() == {"position", "version", "sealed"}
    assert failures.readable_block(data, BORN, codec=Bound()) == told
    column = failures.sealed_reason("R", BORN, codec=Bound())
    assert failures.readable_reason(column, BORN, codec=Bound()) == "R"


@pytest.mark.parametrize("sealed", [7, "nonsense", "|", "[]"])
def test_damaged_ones_are_payload_errors_and_readable_words(sealed: Any) -> None:
    data = {"type": "shop.Refused", "sealed": sealed}
    with pytest.raises(PayloadError):
        failures.opened(data, BORN, codec=JsonCodec())
    assert "cannot be read" in failures.readable(data, BORN, codec=JsonCodec()).message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 42 is late", "order 43 is late"),
        ("no 'anna' here", "no 'bert' here"),
        ('no "anna" here', 'no "bert" here'),
        (f"row {uuid.UUID(int=1)} is gone", f"row {uuid.UUID(int=2)} is gone"),
        ("object at 0x7f01ab", "object at 0x7f02cd"),
        ("took 1.50 s", "took 22.75 s"),
        ("one\nand 'this'", "one\nand that"),
    ],
)
def test_what_differs_from_case_to_case_makes_no_other_group(one: str, other: str) -> None:
    assert failures.normalised(Failure("E", one)) == failures.normalised(Failure("E", other))


def test_class_and_words_make_another_group() -> None:
    groups = {failures.normalised(Failure(*one)) for one in (("E", "late"), ("F", "late"), ("E", "lost"), ("E", ""))}
    assert len(groups) == 4

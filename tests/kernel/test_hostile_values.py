"""Values that raise what ends programs when they are written or read: refused with their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from durable import activity
from durable.errors import KeyInvalid, OptionInvalid, PayloadError
from durable.kernel.codec import JsonCodec, decode_arguments, encode_arguments
from durable.kernel.payloads.birthplace import NOWHERE, Birthplace
from tests import hostile
from tests.kernel.kinds import Tree

CODEC = JsonCodec()


@activity(name="hostile.take")
def take(value: Any, *more: Any, **named: Any) -> None:
    """Take anything."""


@activity(name="hostile.take_record")
def take_record(records: dict[str, list[hostile.Record]]) -> None:
    """Take records."""


@activity(name="hostile.take_reborn")
def take_reborn(it: hostile.Reborn) -> None:
    """Take what is written and does not come back."""


@activity(name="hostile.default")
def with_default(needed: int, value: Any = hostile.silent(SystemExit)()) -> None:  # noqa: B008
    """Its signature can not be shown."""


@pytest.mark.parametrize("kind", sorted(hostile.VALUES))
@pytest.mark.parametrize(
    "hint", [Any, str, int, float, list[str], dict[str, int], set[int], tuple[int, str], int | None, hostile.Record]
)
def test_a_value_that_raises_when_it_is_written_is_refused(kind: str, hint: Any) -> None:
    with pytest.raises(PayloadError) as refused:
        CODEC.encode(hostile.VALUES[kind](), hint, path="value")
    assert str(refused.value).startswith("value")
    str(refused.value).encode("utf-8")


@pytest.mark.parametrize("kind", sorted(hostile.VALUES))
def test_an_argument_that_raises_when_it_is_written_is_refused_with_its_place(kind: str) -> None:
    value = hostile.VALUES[kind]()
    for args, named, place in (((value,), {}, "value"), ((1, 2, value), {}, "more[1]"), ((1,), {"it": value}, "named")):
        with pytest.raises(PayloadError) as refused:
            encode_arguments(take, args, named, codec=CODEC, workflow_id=NOWHERE.workflow_id)
        assert refused.value.path.startswith(place)


@pytest.mark.parametrize("end", hostile.ENDS)
def test_a_field_that_raises_is_named(end: type[BaseException]) -> None:
    with pytest.raises(PayloadError) as refused:
        encode_arguments(
            take_record, ({"a": [hostile.Record("a", 1, end)]},), {}, codec=CODEC, workflow_id=NOWHERE.workflow_id
        )
    assert refused.value.path == "records.a[0].price"
    assert f"reading it raised {end.__name__}: no price" in str(refused.value)
    assert type(refused.value.__cause__).__name__ == end.__name__


class Full(list[Any]):
    """A list that raises when it is read."""

    error: BaseException = MemoryError()

    def __iter__(self) -> Any:
        raise self.error


def test_what_says_nothing_about_the_value_passes() -> None:
    with pytest.raises(MemoryError):
        CODEC.encode({"full": Full([1])}, path="value")


@pytest.mark.parametrize("deep", [False, True])
def test_a_value_whose_own_code_has_no_end_is_refused_however_deep_the_caller_stands(
    monkeypatch: pytest.MonkeyPatch, *, deep: bool
) -> None:
    monkeypatch.setattr(Full, "error", RecursionError())
    monkeypatch.setattr(Endless, "ends", False)

    def check() -> None:
        for act in (
            lambda: CODEC.encode({"full": Full([1])}, path="value"),
            lambda: CODEC.decode('{"name":"a"}', Endless, path="value"),
            lambda: encode_arguments(take, (Full([1]),), {}, codec=CODEC, workflow_id=NOWHERE.workflow_id),
            lambda: decode_arguments(take_endless, '{"it":{"name":"a"}}', codec=CODEC, workflow_id=NOWHERE.workflow_id),
        ):
            with pytest.raises(PayloadError, match="calls itself without end"):
                act()

    at_depth(check, 400 if deep else 0)


def test_deep_data_is_read_however_deep_the_caller_stands() -> None:
    stored = '{"name":"","children":[' * 45 + '{"name":"leaf"}' + "]}" * 45
    read: list[Tree] = []
    at_depth(lambda: read.append(CODEC.decode(stored, Tree, path="value")), 850)
    leaf = read[0]
    for _ in range(45):
        leaf = leaf.children[0]
    assert leaf.name == "leaf"


def at_depth(act: Callable[[], None], frames: int) -> None:
    """Act with so many frames more on the stack."""
    if frames:
        at_depth(act, frames - 1)
    else:
        act()


@dataclass
class Endless:
    """It calls itself without end when it is made, while it has none."""

    name: str
    ends: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.ends:
            self.__post_init__()


@activity(name="hostile.take_endless")
def take_endless(it: Endless) -> None:
    """Take what has no end."""


def test_a_stored_value_that_its_class_refuses_by_an_exit_is_no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = encode_arguments(take_reborn, (hostile.Reborn("fine"),), {}, codec=CODEC, workflow_id=NOWHERE.workflow_id)
    monkeypatch.setattr(hostile.Reborn, "refuses", True)
    with pytest.raises(PayloadError, match="Reborn refused its stored fields by SystemExit"):
        decode_arguments(take_reborn, stored, codec=CODEC, workflow_id=NOWHERE.workflow_id)
    with pytest.raises(PayloadError, match="Reborn refused its stored fields by SystemExit"):
        CODEC.decode('{"name":"fine"}', hostile.Reborn, path="value")


def test_a_signature_that_can_not_be_shown_keeps_nobody_from_the_error() -> None:
    with pytest.raises(TypeError, match=r"hostile\.default.*cannot be called"):
        encode_arguments(with_default, (), {}, codec=CODEC, workflow_id=NOWHERE.workflow_id)
    with pytest.raises(PayloadError):
        decode_arguments(with_default, '{"other":1}', codec=CODEC, workflow_id=NOWHERE.workflow_id)


@pytest.mark.parametrize("end", hostile.ENDS)
def test_a_codec_whose_hooks_exit_is_named(end: type[BaseException]) -> None:
    class Broken(JsonCodec):
        def wrap(self, text: str, birthplace: Birthplace) -> str:
            raise hostile.silent(end, end)

        unwrap = wrap

    with pytest.raises(PayloadError, match="wrap failed with Silent"):
        Broken().encode(1, path="value")
    with pytest.raises(PayloadError, match="unwrap failed with Silent"):
        Broken().decode("1", path="value")


def test_classes_that_write_themselves_as_anything_are_written_as_what_they_are() -> None:
    class Number(int):
        def __int__(self) -> int:
            raise SystemExit

        def __str__(self) -> str:
            return "hostile"

    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            raise SystemExit

    assert CODEC.encode([Number(3), Text("a")], path="value") == '[3,"a"]'
    assert CODEC.encode(Number(3), int, path="value") == "3"
    assert CODEC.encode(Text("a"), str, path="value") == '"a"'


def test_errors_of_usage_can_be_about_any_value() -> None:
    for value in (hostile.silent(SystemExit)(), hostile.Liar(), hostile.Thing()):
        assert "raised" in str(KeyInvalid("key", value, "it has to be text"))
        assert "raised" in str(OptionInvalid("priority", value, "a whole number"))

"""Payloads: what is refused, at writing and at reading, with the path to it and a cure."""
# ruff: noqa: DTZ001 - naive moments and both spellings of unions are carried, too

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import (
    Any,
    Literal,
)

import pytest
from django.contrib.auth.models import User

from durable.errors import PayloadError
from durable.kernel.codec import JsonCodec
from durable.kernel.limits import MAX_PAYLOAD_DEPTH
from tests.kernel.kinds import (
    Address,
    Colour,
    Hidden,
    Line,
    Picky,
    Point,
    Receipt,
    Right,
    Tree,
    Word,
)

CODEC = JsonCodec()


REFUSED: list[tuple[Any, Any, str, str]] = [
    (float("nan"), float, "value", "nan"),
    ([1.0, float("inf")], list[float], "value[1]", "inf"),
    ({"a": float("-inf")}, Any, "value.a", "inf"),
    (Decimal("NaN"), Decimal, "value", "NaN"),
    (Decimal("-Infinity"), Decimal, "value", "Infinity"),
    ("a\0b", str, "value", "NUL"),
    ({"items": [{"name": "a\0"}]}, Any, "value.items[0].name", "NUL"),
    ({"b\0": 1}, Any, "value['b\\x00']", "NUL"),
    ("\ud800", str, "value", "surrogate"),
    (["ok", "\udfff"], list[str], "value[1]", "surrogate"),
    (10**5000, int, "value", "digits"),
    ({1: 2}, Any, "value", "key 1"),
    ({(1, 2): 2}, dict[tuple[int, int], int], "value[(1, 2)]", "key"),
    (Decimal(1), Any, "value", "Decimal"),
    (datetime(2026, 1, 1), Any, "value", "datetime"),
    (Word.YES, Any, "value", "Word"),
    (Point(1), Any, "value", "Point"),
    ({1, 2}, Any, "value", "set"),
    (object(), Any, "value", "object"),
    (object(), object, "value", "object"),
    ("1", int, "value", "whole number"),
    (1, str, "value", "text"),
    (1.5, int, "value", "whole number"),
    (2**60 + 1, float, "value", "loss"),
    (10**400, float, "value", "loss"),
    (1, bool, "value", "True or False"),
    (0, None, "value", "None"),
    (datetime(2026, 1, 1), date, "value", "date"),
    ("2026-01-01", date, "value", "date"),
    (["a"], list[int], "value[0]", "whole number"),
    ("abc", list[str], "value", "list"),
    ((1, 2, 3), tuple[int, int], "value", "tuple of 2"),
    ({"a": "b"}, dict[str, int], "value.a", "whole number"),
    ("green", Literal["red"], "value", "'red'"),
    (True, Literal[1], "value", "1"),
    (Colour.RED, Literal[Colour.BLUE], "value", "BLUE"),
    ("red", Colour, "value", "Colour"),
    (1.5, int | str, "value", "not one of"),
    ({"town": 1}, Address, "value.town", "text"),
    ({}, Address, "value", "'town'"),
    ({"town": "x", "planet": "y"}, Address, "value", "'planet'"),
    (Receipt("1", [Line("a", "1")]), Receipt, "value.lines[0].price", "Decimal"),  # type: ignore[arg-type]
    ({"sku": "a"}, Line, "value", "Line"),
    (1j, complex, "value", "complex"),
]


@pytest.mark.parametrize(("value", "hint", "path", "words"), REFUSED, ids=range(len(REFUSED)))
def test_what_can_not_be_carried_is_refused_with_its_path_and_a_cure(value, hint, path, words):
    """Faults P2."""
    with pytest.raises(PayloadError) as caught:
        CODEC.encode(value, hint, path="value")
    assert caught.value.path == path
    assert words in caught.value.problem
    assert caught.value.cure


def test_a_refusal_puts_the_right_article_before_a_type():
    with pytest.raises(PayloadError, match="42 is an int, not text"):
        CODEC.encode(42, str, path="value")
    with pytest.raises(PayloadError, match="is an object, which JSON cannot carry"):
        CODEC.encode(object(), Any, path="value")
    with pytest.raises(PayloadError, match="is a str, not an Address"):
        CODEC.encode("Main Street", Address, path="value")


def test_model_instances_and_querysets_are_refused_with_the_advice_to_pass_the_key():
    """Faults P10."""
    for hint in (Any, User):
        with pytest.raises(PayloadError, match=r"instance of the model User\. Pass its key"):
            CODEC.encode(User(), hint, path="user")
    with pytest.raises(PayloadError, match=r"QuerySet\. Pass a list of keys"):
        CODEC.encode({"users": [User.objects.all()]}, Any, path="data")
    with pytest.raises(PayloadError, match="Pass a list of keys"):
        CODEC.encode(User.objects, Any, path="data")
    with pytest.raises(PayloadError, match="Pass its key"):
        CODEC.encode(User(), int, path="user_id")


def test_values_that_contain_themselves_and_deep_ones_are_refused():
    circle: list[Any] = []
    circle.append(circle)
    tree = Tree("a")
    tree.children.append(tree)
    deep: Any = 1
    for _ in range(MAX_PAYLOAD_DEPTH + 5):
        deep = [deep]
    for value, hint in ((circle, Any), (tree, Tree), (deep, Any), (deep, list[Any])):
        with pytest.raises(PayloadError, match="nested more than"):
            CODEC.encode(value, hint, path="value")


def test_a_subclass_that_would_lose_its_own_fields_is_refused():
    @dataclass(frozen=True)
    class Special(Line):
        extra: str = ""

    with pytest.raises(PayloadError, match="would come back as a Line"):
        CODEC.encode(Special("a", Decimal(1)), Line, path="line")


def test_an_annotation_for_type_checkers_only_is_named_in_the_refusal():
    with pytest.raises(PayloadError, match="'Fraction' has no meaning at run time"):
        CODEC.encode(Hidden(object()), Hidden, path="value")  # type: ignore[arg-type]


def test_a_value_whose_repr_raises_is_refused_all_the_same():
    class Mute:
        def __repr__(self):
            raise RuntimeError

    with pytest.raises(PayloadError, match="repr"):
        CODEC.encode([Mute()], Any, path="value")


@pytest.mark.parametrize(
    ("text", "hint", "path", "words"),
    [
        ("{", Any, "value", "not JSON"),
        ("[" * 100_000, Any, "value", "not JSON"),
        ('"x"', int, "value", "whole number"),
        ("true", int, "value", "whole number"),
        ('"x"', Decimal, "value", "Decimal"),
        ('"NaN"', Decimal, "value", "finite"),
        ('"x"', datetime, "value", "moment"),
        ('"x"', uuid.UUID, "value", "UUID"),
        ('"é"', bytes, "value", "base64"),
        ('"x"', timedelta, "value", "span"),
        ('"P9999999999DT0S"', timedelta, "value", "span"),
        ('"green"', Colour, "value", "Colour"),
        ("8", Right, "value", "Right"),
        ("[1]", Line, "value", "Line"),
        ('{"sku":"a"}', Line, "value", "'price'"),
        ('{"lines":[{"sku":"a","price":1}],"number":"1"}', Receipt, "value.lines[0].price", "Decimal"),
        ('{"number":9}', Picky, "value", "Picky refused its stored fields by RuntimeError"),
        ("[1,2,3]", tuple[int, int], "value", "list of 2"),
        ('[["a"]]', list[list[int]], "value[0][0]", "whole number"),
        ('{"a":1}', dict[str, str], "value[key no. 1]", "text"),
        ("1.5", int | str, "value", "not one of"),
        ('{"Line":{}}', Line | Point, "value", "'sku'"),
        ("7", Line | Point, "value", "stored int is not one of"),
        ("1", complex, "value", "read back"),
    ],
)
def test_stored_text_that_does_not_fit_is_refused_by_name(text, hint, path, words):
    """Faults P9."""
    with pytest.raises(PayloadError) as caught:
        CODEC.decode(text, hint, path="value")
    assert caught.value.path == path
    assert words in str(caught.value)

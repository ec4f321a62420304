"""Django's lazy texts, and what it wraps lazily, are written as what they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

import pytest
from django.contrib.auth.models import User
from django.utils.functional import SimpleLazyObject, lazy, lazystr
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy, ngettext_lazy, override, pgettext_lazy

from durable import activity
from durable.errors import PayloadError
from durable.kernel.codec import JsonCodec, encode_arguments
from durable.kernel.payloads.birthplace import NOWHERE

CODEC = JsonCodec()


@dataclass
class Parcel:
    label: str
    notes: dict[str, list[str | None]]


class Pair(NamedTuple):
    label: str


class Sent(TypedDict):
    label: str


LAZY: dict[str, tuple[Any, str]] = {
    "gettext": (lambda: gettext_lazy("Yes"), "Yes"),
    "pgettext": (lambda: pgettext_lazy("context", "Yes"), "Yes"),
    "format": (lambda: format_lazy("{}!", gettext_lazy("Yes")), "Yes!"),
    "plural": (lambda: ngettext_lazy("%d thing", "%d things", 2) % 2, "2 things"),
    "str": (lambda: lazystr("Yes"), "Yes"),
    "of a lazy one": (lambda: lazy(lambda: lazystr("Yes"), str)(), "Yes"),
    "object": (lambda: SimpleLazyObject(lambda: "Yes"), "Yes"),
}


@pytest.mark.parametrize("kind", LAZY)
def test_a_lazy_text_is_written_as_text_wherever_it_stands(kind: str) -> None:
    make, text = LAZY[kind]
    assert CODEC.encode(make(), path="value") == f'"{text}"'
    for hint in (str, str | None, str | int, Any, object):
        assert CODEC.encode(make(), hint, path="value") == f'"{text}"'
    assert CODEC.encode([{"a": (make(),)}], path="value") == f'[{{"a":["{text}"]}}]'
    assert CODEC.encode({make(): 1}, path="value") == f'{{"{text}":1}}'
    assert CODEC.encode({make(): make()}, dict[str, str], path="value") == f'{{"{text}":"{text}"}}'
    assert CODEC.encode([make()], list[str], path="value") == f'["{text}"]'
    assert CODEC.encode((make(), 1), tuple[str, int], path="value") == f'["{text}",1]'
    assert CODEC.encode(Pair(make()), Pair, path="value") == f'{{"label":"{text}"}}'
    assert CODEC.encode({"label": make()}, Sent, path="value") == f'{{"label":"{text}"}}'
    parcel = Parcel(make(), {make(): [make(), None]})
    assert CODEC.encode(parcel, Parcel, path="value") == f'{{"label":"{text}","notes":{{"{text}":["{text}",null]}}}}'
    assert CODEC.encode(make(), Literal["Yes", "2 things", "Yes!"], path="value") == f'"{text}"'


def test_arguments_may_be_lazy_and_are_texts_in_the_language_that_is_active() -> None:
    @activity(name="lazy.take")
    def take(label: str, *more: Any, **named: Any) -> None:
        """Take them."""

    with override("de"):
        payload = encode_arguments(
            take,
            (gettext_lazy("Yes"), gettext_lazy("No")),
            {"n": gettext_lazy("Yes")},
            codec=CODEC,
            workflow_id=NOWHERE.workflow_id,
        )
    assert payload == '{"label":"Ja","*more":["Nein"],"**named":{"n":"Ja"}}'


def test_what_is_lazy_and_no_text_is_what_it_stands_for() -> None:
    assert CODEC.encode(lazy(lambda: 5, int)(), path="value") == "5"
    assert CODEC.encode(SimpleLazyObject(lambda: [1, {"a": 2}]), path="value") == '[1,{"a":2}]'
    assert CODEC.encode(SimpleLazyObject(lambda: [1]), list[int], path="value") == "[1]"
    with pytest.raises(PayloadError, match="instance of the model User"):
        CODEC.encode(SimpleLazyObject(lambda: User(pk=1)), path="value")
    with pytest.raises(PayloadError, match="not text"):
        CODEC.encode(lazy(lambda: 5, int)(), str, path="value")


def test_a_lazy_text_that_can_not_be_worked_out_is_refused_with_its_place() -> None:
    def fail() -> str:
        raise SystemExit("no text")

    with pytest.raises(PayloadError, match=r"value\.a\[0\]: reading it raised SystemExit: no text"):
        CODEC.encode({"a": [lazy(fail, str)()]}, path="value")
    with pytest.raises(PayloadError, match="plural"):
        CODEC.encode(ngettext_lazy("%(n)d thing", "%(n)d things", "n"), path="value")

    def itself() -> Any:
        return lazy(itself, str)()

    with pytest.raises(PayloadError):
        CODEC.encode(lazy(itself, str)(), path="value")

"""How lists, tuples, sets and mappings are written as JSON and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from durable.kernel.limits import MAX_INT_DIGITS, MAX_PAYLOAD_DEPTH
from durable.kernel.payloads.scalars import ANY_SHAPE, SCALARS, Converter, check_digits, too_deep
from durable.kernel.payloads.steps import CROWD, Crowds, Steps, filled
from durable.kernel.payloads.unwritable import Refusal, at, entry, misfit, mismatch, read_at, short, step

ARRAY = frozenset({"array"})


def _encoded_items(item: Converter, value: Any, depth: int) -> list[Any]:
    if depth > MAX_PAYLOAD_DEPTH:
        raise too_deep()
    encode, deeper = item.encode, depth + 1
    items: list[Any] = []
    try:
        for element in value:
            items.append(encode(element, deeper))  # noqa: PERF401 - its length says which was refused
    except BaseException as error:  # noqa: BLE001 - the value's own code runs in there
        raise at(f"[{len(items)}]", error) from None
    return items


def _decoded_items(item: Converter, data: Any, steps: Steps, wanted: str) -> list[Any]:
    if type(data) is not list:
        raise misfit(data, wanted)
    steps.spend(len(data))
    decode = item.decode
    items: list[Any] = []
    try:
        for element in data:
            items.append(decode(element, steps))  # noqa: PERF401 - as above
    except BaseException as error:  # noqa: BLE001 - `__init__`, `_missing_` and `__eq__` of the user's classes
        raise read_at(f"[{len(items)}]", error) from None
    return items


def of_list(item: Converter, label: str) -> Converter:
    """Lists, and what is annotated as a sequence; tuples are taken too."""

    def encode(value: Any, depth: int) -> Any:
        if not isinstance(value, list | tuple):
            raise mismatch(value, "a list")
        return _encoded_items(item, value, depth)

    def decode(data: Any, steps: Steps) -> Any:
        return _decoded_items(item, data, steps, "a list")

    return Converter(encode, decode, (list,), ARRAY, label, (list, tuple))


def of_set(kind: type, item: Converter, label: str) -> Converter:
    """Sets and frozen sets, written sorted."""

    def encode(value: Any, depth: int) -> Any:
        if not isinstance(value, set | frozenset):
            raise mismatch(value, "a set")
        # The order of a set differs from process to process, and its bytes must not.
        return sorted(_encoded_items(item, value, depth), key=_canonical)

    def decode(data: Any, steps: Steps) -> Any:
        return filled(kind, _decoded_items(item, data, steps, "a list of a set's members"), steps)

    return Converter(encode, decode, (kind,), ARRAY, label, (set, frozenset))


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True)


def of_tuple(item: Converter, label: str) -> Converter:
    """`tuple[X, ...]`."""

    def encode(value: Any, depth: int) -> Any:
        if not isinstance(value, tuple | list):
            raise mismatch(value, "a tuple")
        return _encoded_items(item, value, depth)

    def decode(data: Any, steps: Steps) -> Any:
        return tuple(_decoded_items(item, data, steps, "a list of a tuple's items"))

    return Converter(encode, decode, (tuple,), ARRAY, label, (tuple, list))


def of_places(places: list[Converter], label: str) -> Converter:
    """`tuple[X, Y]`: one converter for each place."""

    def encode(value: Any, depth: int) -> Any:
        if not isinstance(value, tuple | list) or len(value) != len(places):
            raise mismatch(value, f"a tuple of {len(places)}")
        if depth > MAX_PAYLOAD_DEPTH:
            raise too_deep()
        items: list[Any] = []
        try:
            for place, element in zip(places, value, strict=True):
                items.append(place.encode(element, depth + 1))
        except BaseException as error:  # noqa: BLE001 - as above
            raise at(f"[{len(items)}]", error) from None
        return items

    def decode(data: Any, steps: Steps) -> Any:
        if type(data) is not list or len(data) != len(places):
            raise misfit(data, f"a list of {len(places)}")
        steps.spend(len(data))
        items: list[Any] = []
        try:
            for place, element in zip(places, data, strict=True):
                items.append(place.decode(element, steps))
        except BaseException as error:  # noqa: BLE001 - as above
            raise read_at(f"[{len(items)}]", error) from None
        return tuple(items)

    return Converter(encode, decode, (tuple,), ARRAY, label, (tuple, list))


def of_mapping(key: Converter, item: Converter, label: str) -> Converter:
    """Mappings, in their own order. Keys are text, or whatever is written as text or as a whole number."""
    if ANY_SHAPE in key.shapes:
        key = SCALARS[str]

    def encode(value: Any, depth: int) -> Any:
        if not isinstance(value, Mapping):
            raise mismatch(value, "a mapping")
        if depth > MAX_PAYLOAD_DEPTH:
            raise too_deep()
        pairs: dict[str, Any] = {}
        for name, element in value.items():
            try:
                pairs[_encode_key(key, name)] = item.encode(element, depth + 1)
            except BaseException as error:  # noqa: BLE001 - as above
                raise at(step(name), error) from None
        if len(pairs) != len(value):
            raise Refusal("two of its keys are written as the same text", "Annotate the keys with one type.")
        return pairs

    def decode(data: Any, steps: Steps) -> Any:
        if type(data) is not dict:
            raise misfit(data, "an object")
        return _decoded_pairs(key, item, data, steps)

    return Converter(encode, decode, (dict,), frozenset({"object"}), label, (Mapping,))


def _decoded_pairs(key: Converter, item: Converter, data: dict[str, Any], steps: Steps) -> dict[Any, Any]:
    steps.spend(len(data))
    # The hashes of texts are a secret of the process.
    crowds = None if key is SCALARS[str] or len(data) <= CROWD else Crowds(steps)
    pairs: dict[Any, Any] = {}
    read = 0
    try:
        for text, element in data.items():
            name = _decode_key(key, text, steps)
            mark = 0 if crowds is None else crowds.meet(name)
            before = len(pairs)
            pairs[name] = item.decode(element, steps)
            if crowds is not None and len(pairs) > before:
                crowds.grow(mark)
            read += 1
    except BaseException as error:  # noqa: BLE001 - as above
        raise read_at(entry(read + 1), error) from None
    return pairs


def _encode_key(key: Converter, value: Any) -> str:
    written = key.encode(value, 0)
    if type(written) is int:
        check_digits(written)
        return str(written)
    if type(written) is not str:
        problem = "cannot be the key of a JSON object"
        raise Refusal(
            f"{short(value)} {problem}",
            "Use text, whole numbers or ids.",
            unquoted=f"the value, which is hidden, {problem}",
        )
    return written


def _decode_key(key: Converter, text: str, steps: Steps) -> Any:
    if "int" in key.shapes and len(text) <= MAX_INT_DIGITS and text.removeprefix("-").isdecimal():
        return key.decode(int(text), steps)
    return key.decode(text, steps)

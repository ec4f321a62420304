"""Which converter writes and reads the values of an annotation: one per annotation, made once and kept.

Same value, same bytes, in every process: mappings keep their order, sets are written sorted, unions do not depend on
the order in which their members are written down.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import threading
import types
import typing
from typing import Any

from durable.kernel.payloads import containers, records
from durable.kernel.payloads.choices import of_enum, of_literal
from durable.kernel.payloads.hints import Unresolved, label
from durable.kernel.payloads.scalars import ANY_SHAPE, NONE, SCALARS, SHAPE_OF, Converter, native
from durable.kernel.payloads.secrets import is_secret
from durable.kernel.payloads.steps import TRIED_IN_VAIN, Steps
from durable.kernel.payloads.unwritable import (
    ANNOTATE,
    USE_PLAIN,
    Refusal,
    is_lazy,
    misfit,
    mismatch,
    refusal_of,
    unknown,
    unreadable,
    worked_out,
)

UNANNOTATED = native(ANNOTATE)
_made: dict[Any, Converter] = {}
_LISTS = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Collection,
    collections.abc.Iterable,
)
_SETS = {set: set, collections.abc.Set: set, collections.abc.MutableSet: set, frozenset: frozenset}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def converter(hint: Any) -> Converter:
    """The converter of an annotation. An annotation that cannot be carried gets one that refuses every value."""
    try:
        return _made[hint]
    except KeyError:
        made = _made[hint] = _make(hint)
        return made
    except TypeError:  # an annotation with unhashable parts
        return _make(hint)


def _make(hint: Any) -> Converter:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        return _make_plain(hint)
    if origin is typing.Annotated:
        made = converter(arguments[0])
    elif origin is typing.Literal:
        made = of_literal(arguments, label(hint))
    elif origin in (typing.Union, types.UnionType):
        made = _union(arguments, label(hint))
    else:
        made = _make_class(origin, arguments, label(hint))
    return _secret(made) if is_secret(hint) else made


def _secret(plain: Converter) -> Converter:
    """The same, but that no refusal quotes the value."""

    def encode(value: Any, depth: int) -> Any:
        try:
            return plain.encode(value, depth)
        except BaseException as error:  # noqa: BLE001 - the value's own code runs in there
            refusal_of(error)  # raised again, if it says nothing about the value
            problem = f"the value, which is hidden, cannot be carried as {plain.label}"
        raise Refusal(problem, "Pass such a value, or change the annotation.")

    return dataclasses.replace(plain, encode=encode)


def _make_plain(hint: Any) -> Converter:  # noqa: PLR0911 - one return a kind of annotation
    if hint is Any or hint is object:
        return UNANNOTATED
    if isinstance(hint, Unresolved):
        return native(f"Its annotation {hint.text!r} has no meaning at run time; import its names for real.")
    if isinstance(hint, typing.TypeVar):
        return converter(hint.__bound__ or Any)
    if isinstance(hint, typing.NewType):
        return converter(hint.__supertype__)
    if hasattr(hint, "__value__"):  # a `type` alias of Python 3.12
        return _of_alias(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    if isinstance(hint, type):
        return _make_class(hint, (), label(hint))
    return _refusing(hint)


class _Open(threading.local):
    """The aliases whose converters this thread is making."""

    def __init__(self) -> None:
        self.aliases: set[Any] = set()


_open = _Open()


def _of_alias(alias: Any) -> Converter:
    if alias in _open.aliases:
        return _refusing(f"{label(alias)} (an alias that contains itself; use a dataclass)")
    _open.aliases.add(alias)
    try:
        return converter(alias.__value__)
    finally:
        _open.aliases.discard(alias)


def _make_class(kind: Any, arguments: tuple[Any, ...], name: str) -> Converter:  # noqa: PLR0911 - as above
    first = arguments[0] if arguments else Any
    if kind in _LISTS:
        return containers.of_list(converter(first), name)
    if kind in _SETS:
        return containers.of_set(_SETS[kind], converter(first), name)
    if kind in _MAPPINGS:
        return containers.of_mapping(converter(first), converter(arguments[1] if arguments else Any), name)
    if kind is tuple:
        if name in ("tuple", "Tuple"):
            return containers.of_tuple(UNANNOTATED, name)
        if len(arguments) == 2 and arguments[1] is ...:
            return containers.of_tuple(converter(first), name)
        return containers.of_places([converter(argument) for argument in arguments], name)
    if not isinstance(kind, type):
        return _refusing(kind)
    if issubclass(kind, enum.Enum):
        return of_enum(kind)
    if typing.is_typeddict(kind):
        return records.of_typed_dict(kind, name, converter)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return records.of_named_tuple(kind, name, converter)
    if dataclasses.is_dataclass(kind):
        return records.of_dataclass(kind, arguments, name, converter)
    return _refusing(kind)


def _refusing(hint: Any) -> Converter:
    name = label(hint)

    def encode(value: Any, depth: int) -> Any:
        raise unknown(value, USE_PLAIN)

    def decode(data: Any, steps: Steps) -> Any:
        raise Refusal(f"values annotated as {name} cannot be read back", USE_PLAIN)

    kinds = (hint,) if isinstance(hint, type) else ()
    return Converter(encode, decode, kinds, frozenset({ANY_SHAPE}), name, kinds)


def _union(hints: tuple[Any, ...], name: str) -> Converter:
    members = sorted({id(made): made for made in map(converter, hints)}.values(), key=lambda member: member.label)
    if UNANNOTATED in members:
        members = [member for member in members if member is not NONE]
    if len(members) == 1:
        return members[0]
    plain = [member for member in members if member is not NONE]
    shapes = [shape for member in plain for shape in member.shapes]
    if ANY_SHAPE not in shapes and len(set(shapes)) == len(shapes):
        return _told_apart_by_shape(members, name)
    if len({member.label for member in plain}) != len(plain):
        return _refusing(f"{name} (two members are called the same)")
    return _told_apart_by_tag(members, plain, name)


def _told_apart_by_shape(members: list[Converter], name: str) -> Converter:
    """Written as they are: the JSON shape alone says which member it was."""
    by_shape = {shape: member for member in members for shape in member.shapes}
    if "float" in by_shape:
        by_shape.setdefault("int", by_shape["float"])

    def encode(value: Any, depth: int) -> Any:
        return _encode_one_of(members, value, depth, name)[1]

    def decode(data: Any, steps: Steps) -> Any:
        member = by_shape.get(SHAPE_OF[type(data)])
        if member is None:
            raise misfit(data, f"one of {name}")
        return member.decode(data, steps)

    return _of_members(encode, decode, members, frozenset(by_shape), name)


def _told_apart_by_tag(members: list[Converter], plain: list[Converter], name: str) -> Converter:
    """Written as `{"Member": ...}`; None stays null."""
    tags = {member.label: member for member in plain}

    def encode(value: Any, depth: int) -> Any:
        member, written = _encode_one_of(members, value, depth + 1, name)
        return written if member is NONE else {member.label: written}

    def decode(data: Any, steps: Steps) -> Any:
        if data is None and NONE in members:
            return None
        if type(data) is dict and len(data) == 1:
            tag, inner = next(iter(data.items()))
            if tag in tags:
                return tags[tag].decode(inner, steps)
        return _read_untagged(_candidates(plain, data, steps), data, steps, name)

    return _of_members(encode, decode, members, frozenset({"object"}), name)


def _read_untagged(candidates: list[Converter], data: Any, steps: Steps, name: str) -> Any:
    """Data from a sender who knows no tags, or from before the annotation became a union."""
    if len(candidates) == 1:
        return candidates[0].decode(data, steps)
    for member in candidates:
        try:
            return member.decode(data, steps)
        except BaseException as error:  # the user's classes; the next member may read it
            unreadable(error)
            if steps.are_spent:
                raise
            steps.spend(TRIED_IN_VAIN)
    raise misfit(data, f"one of {name}")


def _candidates(members: list[Converter], data: Any, steps: Steps) -> list[Converter]:
    """The members that may read untagged data, by its fields: those first that leave the fewest of them unread.

    Only members that nothing tells apart from outside are left to be tried one after the other. To try all was to read
    a tree of records again with each of its levels.
    """
    named: list[tuple[int, Converter]] = []
    fitting: list[tuple[int, Converter]] = []
    for member in members:
        if not member.may_read(data):
            continue
        fields = member.fields() if type(data) is dict and member.fields is not None else []
        steps.spend(len(fields))
        if any(needed and name not in data for name, _, needed in fields):
            continue
        there = [item.may_read(data[name]) for name, item, _ in fields if name in data]
        unread = len(data) - len(there) if type(data) is dict else int(ANY_SHAPE in member.shapes)
        named.append((unread, member))
        if all(there):
            fitting.append((unread, member))
    # Where one alone has the names, it says best what is wrong with the values.
    ranked = fitting or (named if len(named) == 1 else [])
    return [member for _, member in sorted(ranked, key=lambda pair: pair[0])]


def _of_members(encode: Any, decode: Any, members: list[Converter], shapes: frozenset[str], name: str) -> Converter:
    types_of = tuple({kind: None for member in members for kind in member.types})
    loose = tuple({kind: None for member in members for kind in member.loose})
    return Converter(encode, decode, types_of, shapes | (NONE.shapes if NONE in members else frozenset()), name, loose)


def _encode_one_of(members: list[Converter], value: Any, depth: int, name: str) -> tuple[Converter, Any]:
    kind = type(value)
    readers = [member for member in members if kind in member.types]
    if not readers and is_lazy(value):
        return _encode_one_of(members, worked_out(value), depth, name)
    readers = readers or [member for member in members if isinstance(value, member.loose)]
    readers = readers or [member for member in members if ANY_SHAPE in member.shapes]
    refused: Refusal | None = None
    for member in readers:
        try:
            return member, member.encode(value, depth)
        except Refusal as refusal:
            refused = refused or refusal
    raise refused or mismatch(value, f"one of {name}")

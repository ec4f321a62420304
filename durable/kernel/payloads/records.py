"""How records (dataclasses, named tuples, typed dicts) are written as JSON objects and read back.

Reading ignores fields that today's class no longer has, and takes today's defaults for fields that were not there then.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any

from durable.errors.showing import class_name, clean, shown
from durable.kernel.limits import MAX_PAYLOAD_DEPTH
from durable.kernel.payloads.hints import resolved
from durable.kernel.payloads.scalars import Converter, too_deep
from durable.kernel.payloads.steps import Steps
from durable.kernel.payloads.unwritable import Refusal, a, at, misfit, mismatch, read_at, step, unreadable
from durable.kernel.texts.failure import for_log

Fields = Mapping[str, tuple[Any, bool]]
"""Name to (annotation, whether it must be there)."""
Plan = list[tuple[str, Converter, bool]]
Maker = Callable[[Any], Converter]

_OWN_CLASS = "Annotate it with its own class, or with a union of the classes that may come."


def of_dataclass(kind: Any, arguments: tuple[Any, ...], label: str, maker: Maker) -> Converter:
    """The fields that `__init__` takes, by name."""

    def fields() -> Fields:
        hints = resolved(kind)
        filled = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
        missing = dataclasses.MISSING
        return {
            field.name: (
                _substituted(hints.get(field.name, Any), filled),
                field.default is missing and field.default_factory is missing,
            )
            for field in dataclasses.fields(kind)
            if field.init
        }

    return _of_attributes(kind, _Plan(fields, maker), label)


def of_named_tuple(kind: Any, label: str, maker: Maker) -> Converter:
    """The fields, by name."""

    def fields() -> Fields:
        hints = resolved(kind)
        return {name: (hints.get(name, Any), name not in kind._field_defaults) for name in kind._fields}

    return _of_attributes(kind, _Plan(fields, maker), label)


def of_typed_dict(kind: Any, label: str, maker: Maker) -> Converter:
    """The declared keys, and no others."""

    def fields() -> Fields:
        return {name: _marked(hint, name in kind.__required_keys__) for name, hint in resolved(kind).items()}

    plan = _Plan(fields, maker)

    def encode(value: Any, depth: int) -> Any:
        if not isinstance(value, dict):
            raise mismatch(value, a(kind.__name__))
        if depth > MAX_PAYLOAD_DEPTH:
            raise too_deep()
        written: dict[str, Any] = {}
        for name, item, needed in plan.fields():
            if name in value:
                written[name] = _stepped(name, item.encode, value[name], depth + 1)
            elif needed:
                raise Refusal(f"the key {name!r} of {kind.__name__} is missing", "Add it.")
        if len(written) != len(value):
            stray = next(name for name in value if name not in written)
            raise Refusal(
                f"{kind.__name__} has no key {shown(stray)}",
                "Declare it, or leave it out.",
                unquoted=f"{kind.__name__} has no such key",
            )
        return written

    return _record(encode, _reader(kind, plan, dict), dict, plan, label)


class _Plan:
    """The converters of a record's fields, made at the first use: a class may name itself, or one defined after it."""

    def __init__(self, read: Callable[[], Fields], maker: Maker) -> None:
        self._read = read
        self._maker = maker
        self._made: Plan | None = None

    def fields(self) -> Plan:
        """Name, converter, and whether it must be there."""
        made = self._made
        if made is None:
            made = [(name, self._maker(hint), needed) for name, (hint, needed) in self._read().items()]
            self._made = made
        return made


def _of_attributes(kind: Any, plan: _Plan, label: str) -> Converter:
    def encode(value: Any, depth: int) -> Any:
        if type(value) is not kind:
            if isinstance(value, kind):
                its_class = class_name(type(value))
                raise Refusal(f"this is {a(its_class)}, and would come back as {a(kind.__name__)}", _OWN_CLASS)
            raise mismatch(value, a(kind.__name__))
        if depth > MAX_PAYLOAD_DEPTH:
            raise too_deep()
        deeper = depth + 1
        written: dict[str, Any] = {}
        name = ""
        try:
            for name, item, _needed in plan.fields():
                written[name] = item.encode(getattr(value, name), deeper)
        except BaseException as error:  # noqa: BLE001 - the value's own code runs in there
            raise at(step(name), error) from None
        return written

    return _record(encode, _reader(kind, plan, kind), kind, plan, label)


def _record(encode: Any, decode: Any, kind: type, plan: _Plan, label: str) -> Converter:
    return Converter(encode, decode, (kind,), frozenset({"object"}), label, (kind,), fields=plan.fields)


def _reader(kind: Any, plan: _Plan, build: Callable[..., Any]) -> Callable[[Any, Steps], Any]:
    def decode(data: Any, steps: Steps) -> Any:
        if type(data) is not dict:
            raise misfit(data, f"the object of {a(kind.__name__)}")
        read: dict[str, Any] = {}
        fields = plan.fields()
        steps.spend(len(fields))
        for name, item, needed in fields:
            if name in data:
                try:
                    read[name] = item.decode(data[name], steps)
                except BaseException as error:  # noqa: BLE001 - as above
                    raise read_at(step(name), error) from None
            elif needed:
                raise Refusal(f"the field {name!r} of {kind.__name__} is missing", "Give the field a default.")
        try:
            return build(**read)
        except BaseException as error:  # __init__ and __post_init__ are the user's code
            unreadable(error)  # raises what says nothing about the fields
            problem = f"{kind.__name__} refused its stored fields by {clean(class_name(type(error)))}"
            raise Refusal(problem, "Let it accept them.", cause=for_log(error)) from error

    return decode


def _stepped(name: str, convert: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return convert(*arguments)
    except BaseException as error:  # noqa: BLE001 - the value's own code runs in there
        raise at(step(name), error) from None


def _substituted(hint: Any, filled: Mapping[Any, Any]) -> Any:
    if not filled:
        return hint
    if isinstance(hint, typing.TypeVar):
        return filled.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(filled.get(parameter, parameter) for parameter in parameters)] if parameters else hint


def _marked(hint: Any, needed: bool) -> tuple[Any, bool]:  # noqa: FBT001 - one field of `Fields`
    """The marks themselves decide: `__required_keys__` does not see them if annotations are text."""
    while (mark := typing.get_origin(hint)) in (typing.Required, typing.NotRequired):
        hint, needed = typing.get_args(hint)[0], mark is typing.Required
    return hint, needed

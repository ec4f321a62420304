"""How the arguments of a call become one JSON object, and arguments again.

All parameters go by name, so that a call by position and a call by keyword of the same values give the same bytes.
What `*args` and `**kwargs` take stands under `"*name"` and `"**name"`. Defaults of omitted parameters are not stored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from durable.errors import ArgumentsMismatch, PayloadError
from durable.errors.showing import cut_end, said
from durable.kernel.limits import MAX_NAME_LENGTH
from durable.kernel.payloads.converters import converter
from durable.kernel.payloads.scalars import Converter
from durable.kernel.payloads.secrets import Secret, holds_secret, is_secret
from durable.kernel.payloads.steps import Steps
from durable.kernel.payloads.unwritable import at, entry, misfit, read_at, refusal_of, unreadable

_KINDS = inspect.Parameter
MAX_SHOWN_SIGNATURE = 500
"""Characters of a signature in a sentence."""


class _ADefault:
    """Stands in a shown signature for a default."""

    def __repr__(self) -> str:
        return "..."


_A_DEFAULT = _ADefault()


class ArgumentPlan:
    """The parameters of one handler with their converters. Made once for a definition."""

    def __init__(self, name: str, signature: inspect.Signature, hints: Mapping[str, Any]) -> None:
        self.name = name
        self.signature = signature
        self._hints = hints
        parameters = signature.parameters.values()
        self._by_place = [
            p.name for p in parameters if p.kind in (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD)
        ]
        self._place_only = {p.name for p in parameters if p.kind is _KINDS.POSITIONAL_ONLY}
        self._rest_by_place = next((p.name for p in parameters if p.kind is _KINDS.VAR_POSITIONAL), None)
        self._rest_by_name = next((p.name for p in parameters if p.kind is _KINDS.VAR_KEYWORD), None)
        self._rest = {self._rest_by_place, self._rest_by_name} - {None}
        rest = (_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD)
        self._order = [p.name for p in parameters if p.kind not in rest]
        self._needed = [p.name for p in parameters if p.kind not in rest and p.default is _KINDS.empty]
        self._plain = len(self._by_place) == len(signature.parameters) and not self._place_only
        self._converters: dict[str, Converter] = {p.name: converter(hints.get(p.name, Any)) for p in parameters}

    @property
    def shown_signature(self) -> str:
        """The signature as text, for errors. Of defaults it shows that there are some: a default may be what nobody is
        to see, by its mark or by `HIDDEN_FIELDS`; of a parameter that is marked, the mark in the annotation's place.
        """
        hints = self._hints
        parameters = [
            p.replace(
                annotation=Secret if is_secret(hints.get(p.name, Any)) else p.annotation,
                default=p.default if p.default is _KINDS.empty else _A_DEFAULT,
            )
            for p in self.signature.parameters.values()
        ]
        result = Secret if is_secret(hints.get("return", Any)) else self.signature.return_annotation
        shown = self.signature.replace(parameters=parameters, return_annotation=result)
        return said(shown, MAX_SHOWN_SIGNATURE, what="signature")

    def hint_of(self, name: str) -> Any:
        """The annotation of a parameter, by its name in the object of a call."""
        return self._hints.get(name.lstrip("*"), Any)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The object of a call. Raises `ArgumentsMismatch`, or `PayloadError` with the path from the parameter."""
        written: dict[str, Any] = {}
        converters = self._converters
        name = ""
        bound = self._bind(args, kwargs)
        try:
            for name, value in bound.items():
                if name not in self._rest:
                    written[name] = converters[name].encode(value, 0)
                elif name == self._rest_by_place:
                    written[f"*{name}"] = _each(converters[name], value)
                else:
                    convert = converters[name].encode
                    written[f"**{name}"] = {key: _named(key, convert, item, 0) for key, item in value.items()}
        except BaseException as error:  # noqa: BLE001 - the value's own code runs in there
            refusal = refusal_of(error)
            if holds_secret(self._hints.get(name, Any)):
                refusal.unquote()
            refusal.hide(name)
            raise PayloadError(refusal.path(name), refusal.problem, refusal.cure) from refusal.cause
        return written

    def decode(self, data: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in an object. Raises `PayloadError` when today's handler cannot be called with them."""
        if type(data) is not dict:
            raise PayloadError(self.name, "the stored input is not an object of arguments", "Look at it in the raw.")
        if not data and not self._needed:
            return (), {}
        stored = dict(data)
        steps = Steps(data)
        values: dict[str, Any] = {}
        more: list[Any] = []
        named: dict[str, Any] = {}
        name = ""
        try:
            if self._rest_by_place is not None:
                name = self._rest_by_place
                more = _decoded(self._converters[name], stored.pop(f"*{name}", []), steps)
            if self._rest_by_name is not None:
                name = self._rest_by_name
                named = _decoded_by_name(self._converters[name], stored.pop(f"**{name}", {}), steps)
            for name in self._order:
                if name in stored:
                    values[name] = self._converters[name].decode(stored.pop(name), steps)
        except BaseException as error:  # noqa: BLE001 - as above: `__init__` and `_missing_` of the user's classes
            refusal = unreadable(error)
            raise PayloadError(refusal.path(name), refusal.problem, refusal.cure) from refusal.cause
        if stored:
            stray = next(iter(stored))
            raise PayloadError(
                cut_end(stray, MAX_NAME_LENGTH),
                f"{self.name}{self.shown_signature} has no such parameter (any more)",
                _EVOLVE,
            )
        missing = [name for name in self._needed if name not in values]
        if missing:
            raise PayloadError(missing[0], f"{self.name}{self.shown_signature} was called without it", _EVOLVE)
        return self._call(values, more, named)

    def _call(
        self, values: dict[str, Any], more: list[Any], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if more or self._place_only:
            leading: list[Any] = []
            for name in self._by_place:
                if name not in values or (not more and name not in self._place_only):
                    break
                leading.append(values.pop(name))
            return (*leading, *more), values | named
        return (), values | named

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        # The common cases by hand: `Signature.bind` takes several times as long as all the rest of a small call.
        names = self._by_place
        if self._plain and len(args) <= len(names):
            bound = dict(zip(names, args, strict=False))
            if not kwargs:
                # Parameters with defaults come last, so the number alone tells whether one is missing.
                if len(args) >= len(self._needed):
                    return bound
            else:
                bound |= {name: kwargs[name] for name in names[len(args) :] if name in kwargs}
                if len(bound) == len(args) + len(kwargs) and all(name in bound for name in self._needed):
                    return bound
        try:
            return self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentsMismatch(self.name, self.shown_signature, str(error)) from None


_EVOLVE = "Give new parameters a default, and keep old ones while stored calls still use them."


def _each(item: Converter, values: tuple[Any, ...]) -> list[Any]:
    written: list[Any] = []
    try:
        for value in values:
            written.append(item.encode(value, 0))  # noqa: PERF401 - its length says which was refused
    except BaseException as error:  # noqa: BLE001 - as above
        raise at(f"[{len(written)}]", error) from None
    return written


def _decoded(item: Converter, data: Any, steps: Steps) -> list[Any]:
    if type(data) is not list:
        raise misfit(data, "a list of arguments")
    read: list[Any] = []
    try:
        for element in data:
            read.append(item.decode(element, steps))  # noqa: PERF401 - as above
    except BaseException as error:  # noqa: BLE001 - as above
        raise read_at(f"[{len(read)}]", error) from None
    return read


def _decoded_by_name(item: Converter, data: Any, steps: Steps) -> dict[str, Any]:
    if type(data) is not dict:
        raise misfit(data, "an object of arguments")
    read: dict[str, Any] = {}
    for number, (name, element) in enumerate(data.items(), 1):
        try:
            read[name] = item.decode(element, steps)
        except BaseException as error:  # noqa: BLE001 - as above
            raise read_at(entry(number), error) from None
    return read


def _named(key: str, convert: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return convert(*arguments)
    except BaseException as error:  # noqa: BLE001 - as above
        raise at(f".{key}", error) from None

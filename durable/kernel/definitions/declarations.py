"""What a decorator refuses: functions that cannot be activities or workflows, and invalid options."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

from durable.errors import CODE_ERRORS, ConfigurationError, DurableError, OptionInvalid
from durable.errors.showing import shown
from durable.kernel.definitions.options import (
    RESERVED_NAMES,
    START_NAMES,
    ActivityOptions,
    check_choice,
    check_name,
    check_retry,
    check_span,
    check_text,
)
from durable.kernel.limits import MAX_QUEUE_LENGTH

_DEFAULTS: dict[str, dict[str, Any]] = {
    "workflow": {"name": None, "queue": "default", "timeout": None, "blocks_on": CODE_ERRORS},
    "activity": {
        "name": None,
        "retry": None,
        "start_to_close": None,
        "heartbeat_timeout": None,
        "queue": "default",
        "on_dead_letter": None,
        "on_exhausted": "fail",
        "transactional": False,
    },
}
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def chosen(kind: str, fn: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a decorator with their defaults. Raises `ConfigurationError` for one that does not exist."""
    if fn is not None:
        check_function(kind, fn)
    defaults = _DEFAULTS[kind]
    for name in options:
        if name not in defaults:
            raise ConfigurationError(f"@{kind} has no option {name!r}. It has {', '.join(sorted(defaults))}.")
    return defaults | options


def check_activity(fn: Any, options: dict[str, Any]) -> None:
    """Raises `ConfigurationError` when `fn` cannot be an activity with these options."""
    check_function("activity", fn)
    check_declared("activity", fn, options)
    if not isinstance(options["transactional"], bool):
        raise ConfigurationError(f"@activity of {_place(fn)}: transactional is True or False.")
    if options["transactional"] and inspect.iscoroutinefunction(fn):
        raise ConfigurationError(
            f"@activity(transactional=True) of {_place(fn)}: an `async def` handler cannot share the worker's "
            "transaction. Write it as `def`."
        )


def check_workflow(fn: Any, options: dict[str, Any]) -> None:
    """Raises `ConfigurationError` when `fn` cannot be a workflow with these options."""
    check_function("workflow", fn)
    if not inspect.iscoroutinefunction(fn):
        raise ConfigurationError(f"@workflow of {_place(fn)}: a workflow is an `async def` function.")
    check_declared("workflow", fn, options)
    _check_kinds(fn, options["blocks_on"])
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in START_NAMES:
            raise ConfigurationError(
                f"@workflow of {_place(fn)}: the keyword {parameter.name!r} belongs to the engine in start(...), so a "
                "keyword-only parameter of that name could never be given. Rename it."
            )
        if parameter.name in RESERVED_NAMES and parameter.kind in _BY_KEYWORD:
            raise ConfigurationError(
                f"@workflow of {_place(fn)}: the keyword {parameter.name!r} is reserved for start(...) itself, which "
                "will have it in a later release. Rename the parameter, or make it positional-only: "
                f"({parameter.name}, /)."
            )


def _check_kinds(fn: Any, kinds: Any) -> None:
    """Raises `ConfigurationError` if `blocks_on` is no tuple of exception classes."""
    if not isinstance(kinds, tuple) or not all(map(_is_error, kinds)):
        raise ConfigurationError(
            f"@workflow of {_place(fn)}: blocks_on={shown(kinds)} is not allowed: it is a tuple of exception classes, "
            "such as (*durable.CODE_ERRORS, ValueError), or () for none."
        )


def check_function(kind: str, fn: Any) -> None:
    """Raises `ConfigurationError` for anything but a plain function of a module."""
    if not isinstance(fn, types.FunctionType):
        raise ConfigurationError(
            f"@{kind} decorates a function, not {fn!r}. Options go by keyword, as in @{kind}(name='shop.charge'); "
            "decorate the function under a staticmethod or partial."
        )
    if fn.__name__ == "<lambda>":
        raise ConfigurationError(f"@{kind} of a lambda: it has no name to be found by. Write it as a function.")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise ConfigurationError(f"@{kind} of {_place(fn)}: a generator has no single result. Return a list.")
    owner = fn.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(fn).parameters), "")
    if first in ("self", "cls") and owner and not owner.endswith("<locals>"):
        raise ConfigurationError(f"@{kind} of {_place(fn)}: a method has no object to run on. Use a function.")


def check_declared(kind: str, fn: Callable[..., Any], options: dict[str, Any]) -> None:
    """Raises `ConfigurationError` for an invalid option of a decorator."""
    try:
        if options["name"] is not None:
            check_name("name", options["name"])
        check_text("queue", options["queue"], MAX_QUEUE_LENGTH)
        check_retry(options.get("retry"))
        for span in ("start_to_close", "heartbeat_timeout", "timeout"):
            check_span(span, options.get(span))
        check_choice("on_dead_letter", options.get("on_dead_letter"), ("hold", "deliver"))
        check_choice("on_exhausted", options.get("on_exhausted"), ("fail", "hold"))
    except DurableError as error:
        raise ConfigurationError(f"@{kind} of {_place(fn)}: {error}") from None


def implied_name(fn: Callable[..., Any], label_of: Callable[[str], str]) -> str:
    """The name of a function that the decorator gives none. Raises `ConfigurationError` when it is too long."""
    name = f"{label_of(fn.__module__)}.{fn.__name__}"
    try:
        check_name("name", name)
    except DurableError as error:
        raise ConfigurationError(f"{_place(fn)}: {error} Give it a shorter one with name=.") from None
    return name


def row_options(options: ActivityOptions) -> dict[str, Any]:
    """The options of an `.execute(...)`, as its command stores them. Raises `OptionInvalid` for one that only `enqueue`
    has.
    """
    for name in ("key", "start_at", "on_conflict"):
        value = getattr(options, name)
        if value is not None:
            raise OptionInvalid(name, value, "for enqueue(...) only; a step of a workflow has none")
    return options.as_data()


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _place(fn: Callable[..., Any]) -> str:
    return f"{fn.__module__}.{fn.__qualname__}"

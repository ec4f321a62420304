"""What the decorators make, and what they refuse."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.errors import (
    ArgumentsMismatch,
    ConfigurationError,
)
from durable.kernel.codec import JsonCodec, decode_arguments, encode_arguments
from durable.kernel.definitions.retry import Retry
from durable.kernel.payloads.birthplace import NOWHERE

pytestmark = pytest.mark.usefixtures("isolated_registry")
CODEC = JsonCodec()


def encoded(definition, *args, **kwargs):
    return encode_arguments(definition, args, kwargs, codec=CODEC, workflow_id=NOWHERE.workflow_id)


def decoded(definition, text):
    return decode_arguments(definition, text, codec=CODEC, workflow_id=NOWHERE.workflow_id)


# --- what a definition is ------------------------------------------------------------------------------------------


def test_a_bare_decorator_gives_exactly_the_defaults(isolated_registry):
    @activity
    def charge(order_id: int) -> str:
        """Take the money."""
        return f"r{order_id}"

    assert (charge.queue, charge.retry, charge.start_to_close, charge.on_dead_letter) == ("default", None, None, None)
    assert (charge.on_exhausted, charge.transactional, charge.is_async) == ("fail", False, False)
    assert charge.__doc__ == "Take the money."
    assert charge(4) == "r4"
    assert isolated_registry.activity(charge.name) is charge


def test_options_of_the_decorators_are_kept():
    policy = Retry(max_attempts=2)

    @activity(name="pay", retry=policy, start_to_close=timedelta(seconds=3), queue="slow", on_dead_letter="deliver")
    async def charge() -> None: ...

    @workflow(name="buy", queue="fast", timeout=timedelta(days=1))
    async def checkout() -> None: ...

    assert (charge.name, charge.retry, charge.queue, charge.is_async) == ("pay", policy, "slow", True)
    assert (charge.start_to_close, charge.on_dead_letter) == (timedelta(seconds=3), "deliver")
    assert (checkout.name, checkout.queue, checkout.timeout) == ("buy", "fast", timedelta(days=1))


def test_a_wrapped_function_keeps_its_own_signature():
    def logged(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            return fn(*args, **kwargs)

        return inner

    @activity
    @logged
    def charge(amount: Decimal) -> str:
        return str(amount)

    assert encoded(charge, Decimal("1.5")) == '{"amount":"1.5"}'
    with pytest.raises(ArgumentsMismatch):
        encoded(charge)


def test_attributes_of_the_function_do_not_pass_for_options():
    def charge() -> None: ...

    charge.queue = "its own"  # type: ignore[attr-defined]
    charge.name = "its own"  # type: ignore[attr-defined]
    definition = activity(charge)
    assert (definition.queue, definition.name.rpartition(".")[2]) == ("default", "charge")


def test_hints_are_read_late_so_that_a_class_may_come_after_the_function():
    @activity
    def charge(later: Later) -> Later:
        return later

    assert charge.result_hint is Later
    assert encoded(charge, Later()) == '{"later":{"text":"x"}}'


@dataclass
class Later:
    """Defined after the function that names it."""

    text: str = "x"


# --- what is refused at decoration ---------------------------------------------------------------------------------


def plain() -> None: ...


async def coroutine() -> None: ...


def generator():
    yield 1


async def async_generator():
    yield 1


class Shop:
    def method(self) -> None: ...

    @staticmethod
    def static(order_id: int) -> int:
        return order_id


# What a type checker would refuse by itself is told to it as anything.
any_activity: Any = activity
any_workflow: Any = workflow
REFUSED_AT_DECORATION: list[tuple[Any, str]] = [
    (lambda: any_activity(transactional=True)(coroutine), "async def"),
    (lambda: any_activity(transactional=1)(plain), "True or False"),
    (lambda: any_workflow(plain), "async def"),
    (lambda: any_activity(lambda: 1), "lambda"),
    (lambda: any_activity(generator), "generator"),
    (lambda: any_activity(async_generator), "generator"),
    (lambda: any_workflow(async_generator), "generator"),
    (lambda: any_activity(Shop), "function"),
    (lambda: any_activity(Shop.method), "method"),
    (lambda: any_activity(functools.partial(plain)), "function"),
    (lambda: any_activity("shop.charge"), "keyword"),
    (lambda: any_activity(retries=3), "no option 'retries'"),
    (lambda: any_workflow(retry=Retry())(coroutine), "no option 'retry'"),
    (lambda: any_activity(retry=3)(plain), "durable.Retry"),
    (lambda: any_activity(queue="")(plain), "empty"),
    (lambda: any_activity(queue="q" * 101)(plain), "limit of 100"),
    (lambda: any_activity(name="n" * 201)(plain), "limit of 200"),
    (lambda: any_activity(name=3)(plain), "text"),
    (lambda: any_activity(name="a\0")(plain), "NUL"),
    (lambda: any_activity(start_to_close=3)(plain), "timedelta"),
    (lambda: any_activity(start_to_close=timedelta())(plain), "timedelta"),
    (lambda: any_activity(on_dead_letter="drop")(plain), "'hold' or 'deliver'"),
    (lambda: any_activity(on_exhausted="drop")(plain), "'fail' or 'hold'"),
    (lambda: any_workflow(timeout=3)(coroutine), "timedelta"),
]


@pytest.mark.parametrize(("decorate", "words"), REFUSED_AT_DECORATION, ids=range(len(REFUSED_AT_DECORATION)))
def test_what_can_not_be_meant_is_refused_at_decoration(decorate, words):
    with pytest.raises(ConfigurationError, match=words):
        decorate()


def test_a_static_method_is_a_function():
    assert activity(Shop.static)(4) == 4


def test_a_keyword_only_parameter_that_the_engine_owns_is_refused_on_a_workflow():
    async def checkout(*, key: str) -> None: ...

    with pytest.raises(ConfigurationError, match="'key' belongs to the engine"):
        workflow(checkout)


@pytest.mark.parametrize("name", ["signal", "once", "ask", "request"])
def test_a_parameter_whose_name_start_will_take_is_refused_unless_it_goes_by_position_only(name):
    made: dict[str, Any] = {}
    forms = (f"plain({name})", f"keyword(*, {name}=None)", f"position({name}, /)")
    exec("\n".join(f"async def {form}: ..." for form in forms), made)  # the names are parameters
    for refused in (made["plain"], made["keyword"]):
        with pytest.raises(ConfigurationError) as caught:
            workflow(refused)
        assert f"{name!r} is reserved for start(...)" in str(caught.value)
        assert f"Rename the parameter, or make it positional-only: ({name}, /)." in str(caught.value)
    assert workflow(made["position"]).signature.parameters.keys() == {name}

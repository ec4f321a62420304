"""Which names this process knows."""

from __future__ import annotations

from typing import Any

import pytest

from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.errors import (
    AlreadyRegistered,
    NotRegistered,
)
from durable.kernel.authoring.registry import label_of_module

pytestmark = pytest.mark.usefixtures("isolated_registry")


def plain() -> None: ...


async def coroutine() -> None: ...


def test_an_unknown_name_is_refused_with_the_name_and_a_cure(isolated_registry):
    with pytest.raises(NotRegistered, match=r"No activity named 'shop\.charge'.*AppConfig\.ready"):
        isolated_registry.activity("shop.charge")
    with pytest.raises(NotRegistered, match="No workflow named"):
        isolated_registry.workflow("shop.charge")


def test_a_name_that_is_given_twice_is_refused_at_once():
    activity(name="pay")(plain)
    with pytest.raises(AlreadyRegistered, match=r"plain and .*coroutine have the same .* name, 'pay'"):
        activity(name="pay")(coroutine)


def test_an_activity_and_a_workflow_may_share_a_name(isolated_registry):
    activity(name="same")(plain)
    workflow(name="same")(coroutine)
    assert isolated_registry.activity("same").fn is plain
    assert isolated_registry.workflow("same").fn is coroutine


def test_an_implicit_name_is_label_and_function_worked_out_with_todays_labels(isolated_registry):
    @activity
    def charge() -> None: ...

    isolated_registry.label_for = lambda module: "first"
    assert charge.name == "first.charge"
    isolated_registry.label_for = lambda module: "second"
    assert isolated_registry.activity("second.charge") is charge
    with pytest.raises(NotRegistered):
        isolated_registry.activity("first.charge")


def test_implicit_names_that_clash_are_refused_at_the_look_up_and_listed(isolated_registry):
    isolated_registry.label_for = lambda module: "shop"

    def charge() -> None: ...

    def make() -> Any:
        def charge() -> None: ...

        return charge

    activity(charge)
    activity(make())
    activity(name="other")(plain)
    with pytest.raises(AlreadyRegistered, match=r"'shop\.charge'"):
        isolated_registry.activity("shop.charge")
    assert [clash.name for clash in isolated_registry.clashes()] == ["shop.charge"]
    assert isolated_registry.activity("other").fn is plain


def test_a_module_that_is_imported_again_takes_its_own_place(isolated_registry):
    def define() -> Any:
        def charge() -> None: ...

        return activity(name="pay")(charge)

    define()
    again = define()
    assert isolated_registry.activity("pay") is again
    assert len(isolated_registry.activities()) == 1


def test_isolation_gives_back_what_was_there(isolated_registry):
    outer = activity(name="outer")(plain)
    with isolated_registry.isolated():
        assert isolated_registry.activities() == []
        activity(name="outer")(coroutine)
    assert isolated_registry.activities() == [outer]


@pytest.mark.parametrize(
    ("module", "label"),
    [
        ("shop.workflows", "shop"),
        ("project.shop.activities", "shop"),
        ("project.shop.activities.payment", "shop"),
        ("shop.billing", "shop"),
        ("workflows", "workflows"),
        ("__main__", "__main__"),
    ],
)
def test_without_django_the_label_is_the_package_before_workflows_or_activities(module, label):
    assert label_of_module(module) == label


def made(body: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "shop.activities"}
    exec(body, space)
    return space


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def charge(): return 1", "def charge(): return 2"),
        ("def charge(): return 1", "def charge():\n  def inner(): return 2\n  return 1"),
        ("def rate(): return 1\ndef charge(): return rate()", "def rate(): return 2\ndef charge(): return rate()"),
        (
            "class A:\n  def f(self): return 1\ndef charge(): ...",
            "class A:\n  def f(self): return 2\ndef charge(): ...",
        ),
        ("def charge(): return a", "def charge(): return b"),
    ],
)
def test_the_version_follows_the_code_and_only_the_code(isolated_registry, before, after):
    def version(body):
        with isolated_registry.isolated():
            activity(name="pay")(made(body)["charge"])
            return isolated_registry.version()

    assert version(before) == version(before + "\n# a comment\n")
    assert version(before) != version(after)

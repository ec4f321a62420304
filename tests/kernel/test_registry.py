"""Which names this process knows."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable.decorators.activities import activity
from durable.decorators.workflows import workflow
from durable.errors import (
    AlreadyRegistered,
    NotRegistered,
)
from durable.kernel.definitions.naming import label_of_module
from durable.kernel.definitions.registry import Registry

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


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Imports a module of the project, in which nothing is registered, from a file with this text."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(name: str, text: str) -> None:
        file = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        importlib.import_module(name)

    before = set(sys.modules)
    yield load
    for name in sys.modules.keys() - before:
        del sys.modules[name]


def version_now() -> str:
    """As another process would compute it."""
    return Registry().version()


def test_the_version_follows_every_loaded_module_of_the_project(imported: Callable[[str, str], None]) -> None:
    """Also a constant of a module in which nothing is registered: the price that was missing."""
    without = version_now()
    imported("durable_tests_prices", "PRICES = {}")
    before = version_now()
    imported("durable_tests_prices", "PRICES = {'cup': 3}")
    after = version_now()
    imported("durable_tests_prices", "PRICES = {}")
    assert len({without, before, after}) == 3
    assert version_now() == before


@pytest.mark.usefixtures("imported")
def test_the_version_leaves_out_installed_modules_and_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    before = version_now()
    file = tmp_path / "site-packages" / "durable_tests_installed.py"
    file.parent.mkdir()
    file.write_text("VERSION = 1", encoding="utf-8")
    importlib.invalidate_caches()
    importlib.import_module("durable_tests_installed")
    sys.modules.pop("colorsys", None)
    importlib.import_module("colorsys")
    assert version_now() == before


def test_a_module_keeps_its_digest_when_its_file_is_replaced_under_a_running_process(
    imported: Callable[[str, str], None], tmp_path: Path
) -> None:
    """The process goes on with the code that it has loaded."""
    registry = Registry()
    imported("durable_tests_replaced", "A = 1")
    before = registry.version()
    (tmp_path / "durable_tests_replaced.py").write_text("A = 2", encoding="utf-8")
    registry._touch()  # as if something had been registered since
    assert registry.version() == before
    assert version_now() != before


def test_odd_modules_do_not_keep_the_version_from_being_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaders and modules are anybody's: some raise at any question, some are no modules."""

    class Raising(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    class Loader:
        def get_data(self, path: str) -> bytes:
            raise OSError(path)

    odd = Raising("durable_tests_odd")
    odd.__file__ = "/srv/shop/odd.py"
    odd.__spec__ = types.SimpleNamespace(loader=Loader())  # type: ignore[assignment]
    before = version_now()
    monkeypatch.setitem(sys.modules, "durable_tests_none", None)
    monkeypatch.setitem(sys.modules, "durable_tests_object", object())
    assert version_now() == before
    monkeypatch.setitem(sys.modules, "durable_tests_odd", odd)
    assert version_now() != before


class Prickly:
    """Raises at any question, as a proxy of nothing does."""

    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)


class PricklyKind(type):
    def __getattribute__(cls, name: str) -> Any:
        raise SystemExit(name)


def test_what_a_module_of_workflows_holds_is_not_asked(
    isolated_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its functions and methods count, whatever stands beside them."""
    space = vars(sys.modules[__name__])
    workflow(name="shop.pay")(coroutine)
    before = isolated_registry.version()
    monkeypatch.setitem(space, "prickly", Prickly())
    monkeypatch.setitem(space, "prickly_kind", PricklyKind("Kind", (), {}))
    isolated_registry._touch()
    assert isolated_registry.version() == before

"""The code of `docs/testing.md` is run as it stands there."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from durable import testing
from durable.kernel.definitions.registry import registry

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
TESTS = re.findall(r"^def (test_\w+)", "\n".join(BLOCKS), re.MULTILINE)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """All blocks of the page, one below the other, as a module that other processes can import as well."""
    name = f"page_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text("\n".join(BLOCKS), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with registry.isolated():
        yield importlib.import_module(name)


@pytest.mark.django_db
@pytest.mark.parametrize("name", TESTS)
def test_an_example_of_the_page_holds(name: str, module: Any, tmp_path: Path) -> None:
    example: Callable[..., None] = getattr(module, name)
    given = {"tmp_path": tmp_path} if "tmp_path" in inspect.signature(example).parameters else {}
    example(**given)


def test_every_public_name_and_every_point_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    answers = {"Drained", "Frozen", "Injected", "Recorded", "Replaced", "Replayed", "POINTS"}
    errors_of_misuse = {"NeverIdle", "NotReplayable", "UnknownFault"}
    missing = [name for name in set(testing.__all__) - answers - errors_of_misuse if f"{name}" not in text]
    assert missing == []
    assert [point for point in testing.POINTS if f'`"{point}"`' not in text] == []

"""Code in the documentation is code: it compiles, what it imports is there, and what it calls exists.

The README's quick start is run as a whole, see `test_readme`.
"""

from __future__ import annotations

import ast
import importlib.util
import re

import pytest

import durable
import durable.testing
from durable.client.handle import Handle
from durable.kernel.context.activity_context import ActivityInfo
from tests.architecture.source import ROOT

BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for number, block in enumerate(BLOCK.findall(path.read_text(encoding="utf-8")), start=1):
            found.append((f"{path.relative_to(ROOT)}#{number}", block[1]))
    return found


def parse(text: str) -> ast.Module:
    """Blocks may be excerpts: statements of an `async def`, or a dict's entries."""
    for attempt in (
        text,
        "async def excerpt():\n" + "".join(f"    {line}\n" for line in text.splitlines()),
        f"{{{text}}}",
    ):
        try:
            return ast.parse(attempt)
        except SyntaxError:
            continue
    raise AssertionError(f"This does not compile:\n{text}")


def is_there(module: str, name: str) -> bool:
    """Whether `from module import name` would work."""
    found = importlib.import_module(module)
    return hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in blocks()])
def test_a_block_compiles_and_names_what_exists(text: str) -> None:
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "durable":
            missing = [alias.name for alias in node.names if not is_there(node.module or "", alias.name)]
            assert not missing, f"{node.module} has no {missing}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "durable":
                assert hasattr(durable, node.attr), f"durable has no {node.attr}"
            elif node.value.id == "handle":
                assert node.attr == "id" or hasattr(Handle, node.attr), f"a handle has no {node.attr}"


def test_what_the_pages_say_of_activity_info_exists() -> None:
    """Its names stand in the text, behind `activity_info().`."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    named = set(re.findall(r"activity_info\(\)\.(\w+)", text)) | {"workflow_id", "ordinal", "attempt", "delivery"}
    info = set(dir(ActivityInfo)) | set(ActivityInfo.__init__.__code__.co_names)
    assert {name for name in named if name not in info} == set()

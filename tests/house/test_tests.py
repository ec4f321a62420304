"""Rules for the tests themselves: what they may import of one another, and of the product's private names."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))
TEST_MODULE = re.compile(r"\btests(?:\.\w+)*\.test_\w+|from tests[\w.]* import (?:\w+, )*test_\w+")


def named_in(file: Path) -> list[str]:
    """Other test modules that a file names: in an import, a path for `CODEC`, the code of another process."""
    own = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    return [name for name in TEST_MODULE.findall(file.read_text("utf-8")) if name != own]


def test_no_module_uses_a_test_module() -> None:
    """What several modules need lies in one without tests, under the name of what it is; fixtures lie in `conftest.py`.
    So whoever changes one test does not change others.
    """
    assert len(FILES) > 400
    used = {str(file.relative_to(ROOT)): named_in(file) for file in FILES}
    assert {file: names for file, names in used.items() if names} == {}

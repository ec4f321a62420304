"""The public API is what it was, or the change is meant."""

from __future__ import annotations

import difflib
import inspect
import re
import sys

import pytest

from tests.architecture import freezing


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="signatures are written in another way by each Python")
def test_names_and_signatures_are_as_they_were_frozen() -> None:
    frozen = freezing.FROZEN.read_text(encoding="utf-8").splitlines()
    found = freezing.public().splitlines()
    difference = [line for line in difflib.unified_diff(frozen, found, "frozen", "now", lineterm="", n=0) if line]
    assert not difference, "\n".join(
        [
            "The public API has changed. If that is meant, run `python -m tests.architecture.freezing`,",
            "and write a line into the changelog that says what users have to do.",
            *difference,
        ]
    )


def test_each_kind_of_change_is_a_difference() -> None:
    """An option more, another default, another value of an enum, another base, a method less."""

    def before(a: int, *, b: str = "x") -> None: ...

    def renamed(a: int, *, c: str = "x") -> None: ...

    def defaulted(a: int, *, b: str = "y") -> None: ...

    texts = [freezing.signature(each) for each in (before, renamed, defaulted)]
    assert len(set(texts)) == 3
    assert [str(inspect.signature(before))] == texts[:1]


def test_what_callers_hold_is_frozen_with_its_methods() -> None:
    frozen = freezing.FROZEN.read_text(encoding="utf-8")
    for line in (
        r"durable\.activity\(.*heartbeat_timeout",
        r"durable\.client\.handle\.Handle\.signal\(",
        r"durable\.decorators\.workflows\.WorkflowType\.start_many\(",
        r"durable\.WorkflowStatus: enum \{RUNNING='running'",
        r"durable\.KeyTaken\.__init__\(",
        r"durable\.signals\.workflow_closed: Signal",
        r"durable\.testing\.eager\(\*, errors",
    ):
        assert re.search(f"^{line}", frozen, re.MULTILINE), line

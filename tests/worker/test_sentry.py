"""With Sentry's SDK, spans and all: one failure is one event, and nothing breaks (faults K6)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.waiting import PATIENCE


@pytest.fixture
def host(subprocess_environment: dict[str, str]) -> Any:
    """`host(case)` runs a worker in a process with Sentry; see `sentry_host.py`."""

    def run(case: str) -> dict[str, Any]:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.worker.sentry_host", case],
            cwd=ROOT,
            env=subprocess_environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert "was lost" not in ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        assert found["code"] == 0
        return found

    return run


def test_an_activity_that_fails_for_good_is_one_event_with_its_traceback_and_the_attempts_before_it(host: Any) -> None:
    found = host("activity")
    assert found["statuses"] == {"fails": "failed"}
    [event] = found["events"]
    assert (event["level"], event["message"], event["logger"]) == ("error", "activity.failed", "durable.flow")
    assert event["error"] == ["RuntimeError", "no one"]
    assert event["functions"][-1] == "fail"
    assert (event["extra"]["activity"], event["extra"]["attempt"], event["extra"]["of"]) == ("plant.fail", 3, 3)
    assert len([crumb for crumb in event["crumbs"] if crumb.startswith("activity.attempt_failed")]) == 2


def test_a_workflow_that_dies_of_its_activity_is_one_event(host: Any) -> None:
    found = host("lean")
    assert found["statuses"] == {"fails": "failed"}
    assert [event["message"] for event in found["events"]] == ["activity.failed"]


def test_a_workflow_that_fails_by_its_code_is_one_event_with_its_traceback(host: Any) -> None:
    found = host("code")
    assert found["statuses"] == {"fails": "failed"}
    [event] = found["events"]
    assert (event["message"], event["error"]) == ("workflow.failed", ["ValueError", "one"])
    assert event["functions"][-1] == "fall_over"


def test_a_dead_letter_is_one_event_with_what_it_died_of(host: Any) -> None:
    found = host("dead letter")
    assert found["statuses"] == {"held": "running"}
    [event] = found["events"]
    assert (event["message"], event["error"][0]) == ("activity.dead_lettered", "PayloadError")
    assert event["extra"]["cause"] == "undecodable_input"


def test_what_goes_well_is_no_event_and_the_requests_statements_are_spans(host: Any) -> None:
    found = host("all is well")
    assert set(found["statuses"].values()) == {"completed"}
    assert found["events"] == []
    assert found["spans"] > 0

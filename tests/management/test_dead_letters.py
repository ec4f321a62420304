"""`manage.py durable deadletters|redrive|discard|pause|resume`: the operators' verbs from the command line."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import uuid
from typing import Any
from unittest import mock

import pytest
from structlog.testing import capture_logs

from durable.flow.transactions import transaction
from durable.models import OutboxRow, StaffAction
from tests.conftest import ROOT
from tests.flow.driver import Driver, row, workflow
from tests.flow.state import everything
from tests.management.held import FORCE, REASON, held
from tests.management.ran import Ran
from tests.operations import cases
from tests.operations.faults import Fault, Moment, commits, failing
from tests.operations.meeting import Halted, waiting
from tests.operations.scenes import alive, dead, die, history, stranded
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


def redrive(owner: uuid.UUID, *more: str, ordinal: int = 1) -> Ran:
    """`durable redrive WORKFLOW ORDINAL … --json`."""
    return Ran("redrive", str(owner), str(ordinal), *more, "--json")


def refused(owner: uuid.UUID, *more: str, ordinal: int = 1) -> str:
    """The code of the refusal, with exit 1, words on stderr, and nothing changed."""
    before = everything()
    ran = redrive(owner, *more, ordinal=ordinal)
    assert ran.code == 1
    assert everything() == before
    code: str = ran.data["error"]["code"]
    assert ran.said.endswith(f"[{code}]")
    assert ran.data["error"]["message"] in ran.said
    return code


@pytest.mark.parametrize("force", [[], FORCE])
def test_a_refusal_exits_1_with_its_code_and_why(force: list[str]) -> None:
    """Of all states and gates, `tests/operations` says which refusal it is."""
    letter = dead(history(status="timed_out"))
    assert refused(letter.workflow_id, *force) == "workflow_terminal"
    assert "timed out" in redrive(letter.workflow_id, *force).said
    row = alive(history("activity_scheduled 1"), status="claimed")
    assert refused(row.workflow_id, *force) == "not_dead_lettered"
    assert "claimed" in redrive(row.workflow_id, *force).said


def test_what_is_refused_as_judged_is_passed_by_force_which_says_so() -> None:
    letter = dead(history("activity_scheduled 1", "activity_failed 1"))
    assert refused(letter.workflow_id) == "history_records_outcome"
    with capture_logs() as logs:
        forced = redrive(letter.workflow_id, *FORCE)
    assert (forced.code, forced.data["answer"], forced.data["was_judged"]) == (0, "redriven", True)
    assert forced.data["row"]["status"] == "pending"
    passed = [entry for entry in logs if entry["event"] == "redrive.gate_passed_over"]
    assert [(entry["log_level"], entry["code"]) for entry in passed] == [("warning", "history_records_outcome")]
    assert "Its workflow had moved on." in _redriven_in_words("failed")


def test_what_no_gate_refuses_is_given_back() -> None:
    done = redrive(held().workflow_id)
    assert (done.code, done.data["answer"], done.data["was_judged"]) == (0, "redriven", False)


def _redriven_in_words(outcome: str) -> str:
    letter = dead(history("activity_scheduled 1", f"activity_{outcome} 1"))
    return Ran("redrive", str(letter.workflow_id), "1", *FORCE).out


@pytest.mark.parametrize(
    "arguments", [["redrive", "{id}", "1"], ["redrive", "--all"], ["discard", "{id}", "1", *REASON]]
)
def test_a_refusal_is_said_once_on_stderr_and_kept_in_other_logs(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    letter = dead(history(status="completed"))
    kept = io.StringIO()
    handlers: list[logging.Handler] = [logging.StreamHandler(), logging.StreamHandler(kept)]
    for handler in handlers:
        logging.getLogger().addHandler(handler)
    try:
        ran = Ran(*(argument.format(id=letter.workflow_id) for argument in arguments))
    finally:
        for handler in handlers:
            logging.getLogger().removeHandler(handler)
    assert ran.code == 1
    assert "workflow_terminal" in ran.said + ran.out
    assert f"{arguments[0]}.refused" in kept.getvalue()
    assert capsys.readouterr().err == ""


def test_an_unknown_workflow_or_number_has_no_such_row() -> None:
    """Specification B9.4."""
    assert refused(uuid.uuid4()) == "row_not_found"
    letter = held()
    for ordinal in (2, 0, -1, 10**20):
        assert refused(letter.workflow_id, ordinal=ordinal) == "row_not_found"


def test_of_two_commands_at_once_one_moves_the_row_and_the_other_is_refused() -> None:
    """Specification B9.10, faults A12."""
    letter = held()
    first = Halted("INSERT INTO durable_staffaction", redrive, letter.workflow_id)
    second = waiting(redrive, letter.workflow_id)
    assert first.go_on().code == 0
    late = second.result(PATIENCE)
    assert (late.code, late.data["error"]["code"]) == (1, "not_dead_lettered")
    assert OutboxRow.objects.get(pk=letter.pk).redrive_count == StaffAction.objects.count() == 1


def test_pause_redrive_resume_by_command() -> None:
    """Specification B9.13."""
    driver = Driver()
    workflow_id, _ = stranded(driver)
    paused = Ran("pause", str(workflow_id), "--reason", "month end", "--actor", "anna", "--json")
    assert (paused.code, paused.data) == (0, {"id": str(workflow_id), "answer": "paused"})
    assert redrive(workflow_id).code == 0
    assert driver.claim() == []
    resumed = Ran("resume", str(workflow_id), "--json")
    assert (resumed.code, resumed.data["answer"]) == (0, "resumed")
    driver.run()
    assert workflow(workflow_id).status == "completed"


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_pause_and_resume_refuse_what_has_ended_or_is_not_there(verb: str) -> None:
    ended = Ran(verb, str(history(status="failed").pk), "--json")
    assert (ended.code, ended.data["error"]["code"]) == (1, "workflow_closed")
    unknown = Ran(verb, str(uuid.uuid4()), "--json")
    assert (unknown.code, unknown.data["error"]["code"]) == (1, "workflow_not_found")
    assert Ran(verb, "nonsense").code == 2


def test_the_actor_is_a_user_and_the_reason_is_kept(django_user_model: Any) -> None:
    anna = django_user_model.objects.create_user("anna")
    letter = held()
    assert redrive(letter.workflow_id, "--actor", "anna", "--reason", "bank is back").code == 0
    audit = StaffAction.objects.get()
    assert (audit.actor_id, audit.actor_text, audit.reason, audit.mode) == (anna.pk, "anna", "bank is back", "eligible")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["{id}"],
        ["{id}", "one"],
        ["nonsense", "1"],
        ["{id}", "1", "--all"],
        ["{id}", "1", "--activity", "cases.step"],
        ["--all", "--cause", "worker_died"],
        ["{id}", "1", "--actor", "nobody"],
        ["--all", "--actor", "nobody"],
    ],
)
@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_wrong_usage_exits_2_and_changes_nothing(verb: str, arguments: list[str]) -> None:
    letter = held()
    before = everything()
    given = [argument.format(id=letter.workflow_id) for argument in arguments]
    ran = Ran(verb, *given, *REASON, "--json")
    assert ran.code == 2
    assert ran.data["error"]["message"]
    assert everything() == before


@pytest.mark.parametrize("arguments", [["redrive", "--all", "--force"], ["discard", "--all"], ["discard", "{id}", "1"]])
@pytest.mark.parametrize("reason", [[], ["--reason", "  "]])
def test_what_needs_a_reason_says_so(arguments: list[str], reason: list[str]) -> None:
    """Specification B2."""
    letter = held()
    before = everything()
    ran = Ran(*[argument.format(id=letter.workflow_id) for argument in arguments], *reason)
    assert ran.code == 2
    assert "--reason TEXT" in ran.said
    assert everything() == before


@pytest.mark.parametrize("cause", ["nonsense", ""])
def test_an_unknown_cause_is_wrong_usage(cause: str) -> None:
    done = _from_the_shell("redrive", "--cause", cause)
    assert done.returncode == 2
    assert "worker_died" in done.stderr


def _from_the_shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "durable", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("then", "status"), [("fail", "failed"), ("cancel", "cancelled")])
def test_discard_closes_a_held_one_and_ends_a_single_activity(then: str, status: str) -> None:
    driver = Driver()
    workflow_id = driver.enqueue(cases.tidy, 1)
    die(driver, workflow_id)
    ran = Ran("discard", str(workflow_id), "1", "--then", then, *REASON, "--json")
    assert (ran.code, ran.data["answer"], ran.data["was_judged"]) == (0, "discarded", False)
    assert (workflow(workflow_id).status, row(workflow_id).status) == (status, "cancelled")
    assert StaffAction.objects.get().mode == then
    again = Ran("discard", str(workflow_id), "1", *REASON, "--json")
    assert (again.code, again.data["error"]["code"]) == (1, "workflow_terminal")


def test_an_outcome_that_is_not_known_is_said_so() -> None:
    letter = held()
    with (
        mock.patch.object(transaction, "_FIRST_WAIT", 0.0),  # no waits between the tries of a transaction
        commits(lambda n: True, Moment.AFTER) as failed,
        failing(lambda n: bool(failed), Fault.LOST),
    ):
        ran = redrive(letter.workflow_id)
    assert ran.code == 3
    assert "may or may not have been made" in ran.said

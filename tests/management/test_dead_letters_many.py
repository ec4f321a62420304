"""`manage.py durable deadletters|redrive|discard` on many: filters, one outcome for each, dry runs, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from unittest import mock

import pytest

from durable.flow.transactions import transaction
from durable.models import OutboxRow, StaffAction, Workflow
from durable.outcomes import Cause
from tests import factories
from tests.conftest import ROOT
from tests.flow.driver import Driver
from tests.flow.state import everything
from tests.management.held import FORCE, REASON, held
from tests.management.ran import Ran
from tests.operations.faults import Fault, Moment, commits, failing
from tests.operations.scenes import dead, history, stranded

pytestmark = pytest.mark.django_db(transaction=True)


def of_every_kind() -> dict[str, OutboxRow]:
    """Dead letters that a command on all of them meets: one goes, the others are refused."""
    return {
        "held": held(),
        "judged": held(failure_delivered=True, activity="other.activity"),
        "recorded": dead(history("activity_failed 1"), cause=Cause.LEASE_LOST.value),
        "ended": dead(history(status="failed")),
    }


def test_all_answers_one_outcome_for_each_and_exits_1_when_partly_refused() -> None:
    """Faults A5, A7."""
    letters = of_every_kind()
    ran = Ran("redrive", "--all", "--json")
    assert ran.code == 1
    assert (ran.data["redriven"], sum(ran.data["refused"].values())) == (1, 3)
    found = {one["workflow"]: one for one in ran.data["outcomes"]}
    assert found[str(letters["held"].workflow_id)]["outcome"] == "redriven"
    codes = {name: found[str(letter.workflow_id)].get("code") for name, letter in letters.items()}
    assert codes == {
        "held": None, "judged": "already_judged", "recorded": "history_records_outcome", "ended": "workflow_terminal",
    }  # fmt: skip
    assert StaffAction.objects.count() == 1


def test_in_words_every_refused_one_is_named_with_its_code_and_why() -> None:
    letters = of_every_kind()
    ran = Ran("redrive", "--all")
    assert ran.code == 1
    assert ran.out.splitlines()[0] == "1 redriven, 3 refused."
    for name, code in (("judged", "already_judged"), ("recorded", "history_records_outcome")):
        (line,) = [line for line in ran.out.splitlines() if str(letters[name].workflow_id) in line]
        assert code in line
        assert line.endswith(".")
    assert str(letters["held"].workflow_id) not in ran.out


def test_all_by_force_passes_what_one_by_force_passes() -> None:
    of_every_kind()
    ran = Ran("redrive", "--all", *FORCE, "--json")
    assert (ran.code, ran.data["redriven"], ran.data["refused"]) == (1, 3, {"workflow_terminal": 1})


def test_all_exits_0_when_all_of_them_went() -> None:
    held(), held()
    ran = Ran("redrive", "--all")
    assert (ran.code, ran.out.splitlines()) == (0, ["2 redriven, 0 refused."])


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--activity", "other.activity"], ["judged"]),
        (["--cause", "lease_lost"], ["recorded"]),
        (["--activity", "cases.step", "--cause", "worker_died"], ["held", "ended"]),
        (["--activity", "nobody.knows"], []),
    ],
)
def test_a_filter_means_what_matches_all_of_it(arguments: list[str], names: list[str]) -> None:
    letters = of_every_kind()
    ran = Ran("redrive", *arguments, *FORCE, "--json")
    assert {one["workflow"] for one in ran.data["outcomes"]} == {str(letters[name].workflow_id) for name in names}
    shown = Ran("deadletters", *arguments, "--json")
    failed = [name for name in names if OutboxRow.objects.get(pk=letters[name].pk).status == "dead"]
    left = {str(letters[name].workflow_id) for name in failed}
    assert {one["workflow"] for one in shown.data["dead_letters"]} == left


def test_nothing_that_matches_is_nothing_done() -> None:
    for verb in ("redrive", "discard"):
        ran = Ran(verb, "--all", *REASON)
        assert (ran.code, ran.out) == (0, "No dead letter matches.\n")


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_dry_run_says_what_the_run_then_does_and_writes_nothing(force: list[str]) -> None:
    of_every_kind()
    before = everything()
    dry = Ran("redrive", "--all", *force, "--dry-run", "--json")
    assert everything() == before
    run = Ran("redrive", "--all", *force, *REASON, "--json")
    assert (dry.data["would_be_redriven"], dry.data["refused"]) == (run.data["redriven"], run.data["refused"])
    assert dry.code == run.code == 1


def test_a_dry_run_of_one_and_in_words() -> None:
    letter = held()
    ran = Ran("redrive", str(letter.workflow_id), "1", "--dry-run")
    assert (ran.code, ran.out) == (0, "Dry run, of 1: 1 would be redriven, 0 refused.\n")
    OutboxRow.objects.filter(pk=letter.pk).update(failure_delivered=True)
    ran = Ran("redrive", str(letter.workflow_id), "1", "--dry-run")
    assert ran.code == 1
    assert ran.out.splitlines() == ["Dry run, of 1: 0 would be redriven, 1 refused.", "  1 already_judged"]
    ran = Ran("discard", str(letter.workflow_id), "1", "--dry-run")
    assert (ran.code, ran.out) == (0, "Dry run, of 1: 1 would be discarded, 0 refused.\n")


def test_deadletters_lists_them_oldest_first_with_what_staff_need() -> None:
    """Specification B8."""
    workflow_id, letter = stranded(Driver())
    later = held(failure_delivered=True, redrive_count=2, attempts=3)
    assert letter.dead_lettered_at is not None
    OutboxRow.objects.filter(pk=later.pk).update(dead_lettered_at=letter.dead_lettered_at + timedelta(seconds=1))
    ran = Ran("deadletters", "--json")
    first, second = ran.data["dead_letters"]
    assert (ran.code, ran.data["more"], second["workflow"]) == (0, False, str(later.workflow_id))
    assert first == {
        "workflow": str(workflow_id), "ordinal": 1, "activity": "cases.step", "status": "dead",
        "cause": "ack_abandoned", "error_class": "", "error_group": "",
        "judged": False, "attempts": 0, "deliveries": 8, "delivery_failures": 8,
        "redrive_count": 0, "queue": "default", "dead_lettered_at": letter.dead_lettered_at.isoformat(),
        "due": letter.visible_after.isoformat(), "key": None, "error": "",
    }  # fmt: skip
    own = Ran("deadletters", "--workflow", str(later.workflow_id), "--json").data["dead_letters"]
    assert [(one["judged"], one["redrive_count"], one["attempts"]) for one in own] == [(True, 2, 3)]
    OutboxRow.objects.filter(pk=later.pk).update(error_class="shop.CardDeclined", error_group="0123456789abcdef")
    (one,) = Ran("deadletters", "--error-group", "0123456789abcdef", "--json").data["dead_letters"]
    assert (one["workflow"], one["error_class"], one["error_group"]) == (
        str(later.workflow_id), "shop.CardDeclined", "0123456789abcdef",
    )  # fmt: skip
    assert Ran("redrive", "--error-group", "0" * 16, "--dry-run", "--json").data["looked_at"] == 0
    lines = Ran("deadletters").out.splitlines()
    assert lines[0].split() == [
        "WORKFLOW", "#", "SINCE", "CAUSE", "STATE", "ATTEMPTS", "DELIVERIES", "REDRIVEN", "ACTIVITY", "KEY", "ERROR",
    ]  # fmt: skip
    assert {word for line in lines[1:] for word in line.split()} >= {"held", "judged", "ack_abandoned", "cases.step"}


def test_every_answer_names_the_business_key_and_the_first_line_of_the_error() -> None:
    """Nobody knows an order by the number of its activity."""
    letter, judged = held(), held(failure_delivered=True)
    for row, key in ((letter, "order-42"), (judged, "order-43")):
        Workflow.objects.filter(pk=row.workflow_id).update(key=key)
        error = {"type": "BankDown", "message": f"no answer for {key}\nnor later", "traceback": "secret"}
        older = {"type": "Older", "message": "x", "traceback": ""}
        factories.FailedAttemptFactory(outbox_row=row, number=1, error=older)
        factories.FailedAttemptFactory(outbox_row=row, number=2, error=error)
    listed = Ran("deadletters").out
    previewed = Ran("redrive", "--all", "--dry-run").out
    one = Ran("redrive", str(letter.workflow_id), "1", "--dry-run").out
    for out in (listed, previewed):
        for key in ("order-42", "order-43"):
            assert f"BankDown: no answer for {key}" in out
    assert "BankDown: no answer for order-42" in one
    assert "order-43" not in one
    assert {row["key"] for row in Ran("deadletters", "--json").data["dead_letters"]} == {"order-42", "order-43"}
    refused = Ran("redrive", "--all").out
    assert "BankDown: no answer for order-43" in refused
    assert "nor later" not in listed + previewed + refused
    assert "secret" not in listed + previewed + refused
    discarded = Ran("discard", str(judged.workflow_id), "1", *REASON).out
    assert "(key order-43, BankDown: no answer for order-43): discarded." in discarded


def test_deadletters_of_nothing_says_so_and_a_long_list_says_that_there_are_more() -> None:
    assert Ran("deadletters").out == "No dead letter matches.\n"
    held(), held()
    ran = Ran("deadletters", "--limit", "1", "--json")
    assert (len(ran.data["dead_letters"]), ran.data["more"]) == (1, True)
    assert "--limit 2" in Ran("deadletters", "--limit", "1").out
    assert Ran("deadletters", "--limit", "0").code == 2
    assert Ran("deadletters", "--workflow", "nonsense").code == 2


def test_what_would_steer_a_terminal_is_shown_escaped() -> None:
    evil = "\x1b[2J\r\nroot"
    letter = held(activity=evil)
    held(activity=evil, failure_delivered=True)
    for ran in (Ran("deadletters"), Ran("redrive", str(letter.workflow_id), "1"), Ran("redrive", "--all")):
        assert "\x1b" not in ran.out
        assert "\r" not in ran.out


def test_discard_of_many_closes_judged_ones_too() -> None:
    of_every_kind()
    ran = Ran("discard", "--all", *REASON, "--json")
    assert (ran.code, ran.data["discarded"], ran.data["refused"]) == (1, 3, {"workflow_terminal": 1})


def test_a_store_that_is_away_exits_3_whether_one_or_many_are_meant() -> None:
    letter = held()
    before = everything()
    # No waits between the tries of a transaction.
    with mock.patch.object(transaction, "_FIRST_WAIT", 0.0), failing(lambda n: True, Fault.LOST):
        for arguments in ([str(letter.workflow_id), "1"], ["--all"]):
            for verb in ("redrive", "discard"):
                for dry in ([], ["--dry-run"]):
                    ran = Ran(verb, *arguments, *REASON, *dry, "--json")
                    assert (ran.code, ran.data["error"]["code"]) == (3, "store_unavailable")
        assert Ran("deadletters").code == 3
        assert Ran("pause", str(letter.workflow_id)).code == 3
    assert everything() == before


def test_a_store_that_goes_away_in_the_middle_exits_3_and_tells_what_was_done() -> None:
    letters = [held() for _ in range(3)]
    with mock.patch.object(transaction, "_FIRST_WAIT", 0.0), commits(lambda n: n > 1, Moment.BEFORE):
        ran = Ran("redrive", "--all", "--json")
    assert (ran.code, ran.data["redriven"], ran.data["refused"]) == (3, 1, {"store_unavailable": 2})
    assert [one["workflow"] for one in ran.data["outcomes"]] == [str(letter.workflow_id) for letter in letters]


def test_the_data_goes_to_stdout_and_nothing_else_does(subprocess_environment: dict[str, str]) -> None:
    """Data on stdout, logs on stderr, and the exit code, from a shell."""
    letter, judged = held(), held(failure_delivered=True)
    done = subprocess.run(
        [sys.executable, "manage.py", "durable", "redrive", "--all", "--json"],
        cwd=ROOT, env=subprocess_environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    assert (data["redriven"], data["refused"]) == (1, {"already_judged": 1})
    assert {one["workflow"] for one in data["outcomes"]} == {str(letter.workflow_id), str(judged.workflow_id)}


@pytest.mark.parametrize("verb", ["redrive", "deadletters", "list"])
def test_bytes_that_are_no_text_are_wrong_usage(verb: str) -> None:
    """A terminal in another encoding; exit 1 would say that a row was refused."""
    held()
    ran = Ran(verb, "--key" if verb == "list" else "--activity", "caf\udce9", "--json")
    assert ran.code == 2
    assert ran.data["error"]["code"] == "wrong_usage"
    assert not StaffAction.objects.exists()

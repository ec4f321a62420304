"""One word for one thing: where a word may stand that had two meanings once, and names that say what they hold."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from django.apps import apps

ROOT = Path(__file__).resolve().parent.parent.parent
LEASE = re.compile(r"(?i)(?<!re)(?<!p)leas(?:e|ing)")
OF_A_HISTORY = re.compile(r"(?i)\blease_seq\b|leases? of (?:the|a|this|each) histor|current lease\b|workflow:lease")
MAY_SAY_LEASE = {
    ".": "CHANGELOG.md README.md",
    ".ci": "big_queues.py big_tables.py",
    "docs": (
        "activities.md architecture.md checks.md dead-letters.md glossary.md guarantees.md languages.md "
        "lifecycle.md logs-and-signals.md metrics.md operations.md settings.md testing.md threat-model.md "
        "transports.md tutorial.md"
    ),
    "docs/how-to": "deploying.md from-celery.md from-django-q2.md long-handlers.md",
    "docs/adr": (
        "002-a-batch-has-one-token.md 011-the-demo-runs-real-processes.md "
        "013-what-another-has-in-memory-is-left-to-it.md 016-a-lock-that-is-held-is-no-failed-try.md "
        "017-on-sqlite-code-runs-before-the-lock.md 021-messages-carry-a-token-that-is-taken-once.md"
    ),
    "docs/monitoring": "alerts.yml dashboard.json",
    "docs/internals": "faults.md specification.md transactions.md",
    "durable": "clock.py conf.py",
    "durable/admin/lists": "triage.py work_items.py workers.py",
    "durable/admin/words": "wording.py",
    "durable/admin/workflows": "page.py",
    "durable/databases": "sqlite.py",
    "durable/flow/delivery": "begin.py claim.py renew.py",
    "durable/flow/looks": "clusters.py look.py",
    "durable/flow/operator": "unblock.py",
    "durable/flow/turns": "staged_claims.py",
    "durable/flow/upkeep": "beat.py reconcile.py",
    "durable/kernel/context": "activity_context.py",
    "durable/locale/de/LC_MESSAGES": "django.po",
    "durable/locale/fr/LC_MESSAGES": "django.po",
    "durable/metrics": "series.py",
    "durable/migrations": "0001_initial.py 0003_heartbeat_timeout.py 0007_transports.py",
    "durable/outcomes": "states.py",
    "durable/store/deliveries": "claims.py staging.py work_items.py",
    "durable/store/operators": "reads.py",
    "durable/testing": "inline.py running.py",
    "durable/worker/handlers": "async_pool.py delivery.py",
    "durable/transports": "django_q.py fitness.py",
    "durable/worker/loops": "acks.py aside.py burst.py claims.py dispatch.py hostclock.py housekeeping.py leases.py",
    "durable/worker/process": "hurry.py receiving.py signals.py stopping.py worker.py",
    "project": "settings.py settings_production.py",
    "tests": "test_checks.py test_conf.py",
    "tests/admin": "test_dead_letter_list.py test_redriving.py",
    "tests/browser": "test_dead_letters.py",
    "tests/chaos": (
        "test_cancels.py test_frozen_worker.py test_network.py test_random_kills.py test_reload.py "
        "test_server_away.py test_server_habits.py test_sessions.py test_supervised.py"
    ),
    "tests/crashpoints": "cases.py shift.py sight.py stage.py story.py",
    "tests/flow": (
        "driver.py scenarios.py state.py test_acknowledge.py test_begin.py test_bugs.py test_cancel.py "
        "test_choosing.py test_claim.py test_passed_over.py test_plans.py test_reconcile.py test_release.py "
        "test_renew.py test_start.py test_staged_claims.py test_staged_claims_in_doubt.py test_time.py"
    ),
    "tests/host": "settings.py",
    "tests/house": "test_english.py",
    "tests/machine": "conftest.py stage.py working.py",
    "tests/machine/promises": "deliveries.py",
    "tests/management": "test_dead_letters_many.py test_durable.py",
    "tests/operations": "test_dead_letters.py test_redrive_many.py test_redrive_races.py",
    "tests/store": "test_stale_tokens.py",
    "tests/tasks": "letters.py test_results.py",
    "tests/testing": "test_faults.py test_replay.py",
    "tests/themes": "driven.py",
    "tests/transports": "test_clusters.py test_dispatch.py test_receiving.py test_serving.py test_storms.py",
    "tests/worker": (
        "benches.py conftest.py floors.py launching.py plant_settings.py transactional_runs.py test_acks.py "
        "test_acks_and_locks.py "
        "test_acks_in_doubt.py test_burst_and_leases.py "
        "test_burst_and_locks.py test_claims.py test_claims_beside_locks.py test_heard_processes.py "
        "test_late_claims.py test_machine_limits.py test_machine_signals.py test_parts.py test_processes.py "
        "test_reservations.py test_survival.py test_threads.py"
    ),
}
"""By folder, the files that speak of the time for which a worker holds a work item. The numbered span of a history is a
*run*. Put a new file here if it speaks of the former.
"""
SPANS = {"durable/conf.py", "tests/test_conf.py", "tests/worker/test_machine_limits.py"}
"""Where `lease` by itself is a name of the code: a span of time."""

MEANS_ONE_THING = {
    "note": (
        r"(?i)(?:^|_)not(?:e|es|ed)(?:_|$)",
        "bench/scratch bench/suite flow/turn testing/inline worker/notes worker/turns worker/worker",
    ),
    "settle": (
        r"(?i)(?:^|_)settle",
        (
            "flow/abandon flow/closing flow/reconcile flow/returning flow/settle flow/turn outcomes/deliveries "
            "testing/inline worker/housekeeping worker/worker"
        ),
    ),
    "verdict": (r"(?:^|_)verdicts?(?:_|$)", "admin/page admin/previews admin/refusals flow/redrive"),
    "take": (r"(?:^|_)(?:take|taken|taking|takers?|took)(?:_|$)", "kernel/workflow_context kernel/mailbox"),
}
"""By word: which identifiers of the app have it, and the modules (package and name, wherever they lie in the package)
that use it as the glossary says. Put a new module here if it means the same.
"""
OF_ERRORS = {
    "kernel/failure",
    "kernel/standins",
    "kernel/tracebacks",
    "testing/fresh",
    "testing/replaying",
    "testing/eager",
}
"""Where a note is one of Python's, added to an error."""
ONE_CLASS = {
    "Delivery": "worker/delivery",
    "Exit": "",
    "Handle": "client/handle",
    "Held": "",
    "Mode": "",
    "Note": "worker/notes",
    "Outcome": "worker/execute",
    "Patience": "flow/transaction",
    "Settlement": "",
    "Take": "",
    "Verb": "",
}
"""The one module that defines a class of this name; none where only longer names say which is meant."""
SAYS_NOTHING = {"found", "given", "it", "one", "told"}
"""What a local or parameter is not called: the name says what it holds (`messages`, `claimed`, `row`, `columns`)."""


def names_bound(code: str) -> set[str]:
    """The names that a module gives to locals, parameters, caught errors and what patterns capture."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
    return names


def identifiers(code: str) -> set[str]:
    """Every name in a module: of variables, attributes, parameters, keywords, functions, classes and imports."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        for key in ("id", "attr", "arg", "name", "asname"):
            if isinstance(name := getattr(node, key, None), str):
                names.update(name.split("."))
    return names


def modules() -> dict[str, str]:
    """The code of the app's modules, by top package and name, without sub-packages: `flow/turn`."""
    paths = [path.relative_to(ROOT / "durable") for path in tracked() if path.is_relative_to(ROOT / "durable")]
    code: dict[str, str] = {}
    for path in paths:
        if path.suffix == ".py" and path.parts[0] != "migrations":
            key = path.stem if len(path.parts) == 1 else f"{path.parts[0]}/{path.stem}"
            code[key] = code.get(key, "") + text(ROOT / "durable" / path) + "\n"
    return code


def tracked() -> list[Path]:
    """The files of the repository that are text; skips where there is none, as in an unpacked archive."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("This is no checkout.")
    paths = [ROOT / name for name in listed.stdout.splitlines()]
    return [path for path in paths if path.is_file() and path != Path(__file__).resolve()]


def text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_lease_is_said_of_work_items_only() -> None:
    said = {path.relative_to(ROOT).as_posix(): text(path) for path in tracked()}
    found = {name for name, words in said.items() if LEASE.search(words)}
    allowed = {
        f"{folder}/{name}".removeprefix("./") for folder, names in MAY_SAY_LEASE.items() for name in names.split()
    }
    assert found - allowed == set(), "A span of a history is a *run*. If it is a work item's lease, add the file above."
    assert allowed - found == set(), "These do not say it (any more)."
    assert [name for name in found if OF_A_HISTORY.search(said[name])] == []


def test_no_name_of_the_code_calls_a_run_a_lease() -> None:
    fields = [
        f"{model.__name__}.{f.name}"
        for model in apps.get_app_config("durable").get_models()
        for f in model._meta.fields
    ]
    assert [name for name in fields if LEASE.search(name)] == []
    found = set()
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py" and name not in SPANS and LEASE.search(text(path)):
            for node in ast.walk(ast.parse(text(path))):
                if "lease" in (getattr(node, key, None) for key in ("id", "attr", "arg")):
                    found.add(f"{name}:{getattr(node, 'lineno', 0)}")
    assert found == set()


@pytest.mark.parametrize("word", sorted(MEANS_ONE_THING))
def test_a_word_names_one_thing(word: str) -> None:
    pattern, listed = MEANS_ONE_THING[word]
    allowed = set(listed.split())
    uses = {name for name, code in modules().items() if any(re.search(pattern, said) for said in identifiers(code))}
    if word == "note":
        allowed |= OF_ERRORS
    assert uses - allowed == set(), f"The glossary says what *{word}* means. If it is that, add the module above."
    assert allowed - uses == set(), "These do not use it (any more)."


def test_classes_whose_names_were_shared_are_one_or_none() -> None:
    defined: dict[str, set[str]] = {name: set() for name in ONE_CLASS}
    for module, code in modules().items():
        for node in ast.walk(ast.parse(code.replace("from __future__ import annotations", ""))):
            names = [node.name] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            for name in names:
                if name in defined:
                    defined[name].add(module)
    assert defined == {name: {module} if module else set() for name, module in ONE_CLASS.items()}


def test_locals_are_called_by_what_they_hold() -> None:
    vague = {
        f"{name}: {', '.join(sorted(said))}"
        for path in tracked()
        if path.suffix == ".py" and (name := path.relative_to(ROOT).as_posix()).startswith(("durable/", "project/"))
        if (said := names_bound(text(path)) & SAYS_NOTHING)
    }
    assert vague == set()


def test_names_are_seen_wherever_they_are_bound() -> None:
    code = """
def each(a, /, *b, c, **d):
    for e in a:
        with b as f:
            g, (h, *i) = c
    try:
        return [j for j in a if (k := j)]
    except Exception as l:
        match l:
            case [m, *n] as o:
                return lambda p: p
"""
    assert "".join(sorted(names_bound(code))) == "abcdefghijklmnop"


def test_both_rules_find_what_they_look_for() -> None:
    assert LEASE.search("a Lease")
    assert not LEASE.search("please, release 0.1")
    for words in (
        "lease_seq",
        "the lease of the history",
        "Leases of a history",
        "its current lease",
        "workflow:lease:ordinal",
    ):
        assert OF_A_HISTORY.search(words)

"""Rules of the tree that no import contract can hold: sizes, names, and where rows are written."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.architecture.source import ROOT, calls, sources, used_by

MOST_LINES = 400
SMALL = 25
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "services", "service", "base", "manager"}
WRITES = {
    "save",
    "asave",
    "bulk_create",
    "abulk_create",
    "bulk_update",
    "abulk_update",
    "get_or_create",
    "aget_or_create",
    "update_or_create",
    "aupdate_or_create",
}
MODEL_NAMES = {"Workflow", "Event", "OutboxRow", "WorkItem", "Message", "FailedAttempt", "StaffAction", "Worker"}
QUERY_WRITES = {"create", "acreate", "update", "aupdate", "delete", "adelete"}


def test_every_file_is_short_enough_to_be_read_in_one_go() -> None:
    lines = {source.place: len(source.text.splitlines()) for source in sources("durable", "project", "tests")}
    assert len(lines) > 500
    long = {place: count for place, count in lines.items() if count > MOST_LINES}
    assert not long, f"A file over {MOST_LINES} lines is two files: {long}"


def test_no_module_is_named_after_having_no_home() -> None:
    strays = [
        source.place
        for source in sources("durable", "project")
        if {source.path.stem, source.path.parent.name} & FORBIDDEN_NAMES
    ]
    assert not strays, f"A function without a home means that a concept is missing: {strays}"


def test_a_small_file_with_one_user_stands_in_that_user() -> None:
    """Each file that has to be opened is one more to find; a user in another package may not have it, though."""
    every = list(sources("durable"))
    small = {s.place for s in every if 0 < len(s.text.splitlines()) < SMALL and s.path.name != "__init__.py"}
    uses = {s.place: used_by(s) for s in every}
    users = {place: [user for user, used in uses.items() if place in used] for place in small}
    lonely = {
        place: user
        for place, (user,) in ((place, those) for place, those in users.items() if len(those) == 1)
        if user.split("/")[1] == place.split("/")[1]
    }
    assert not lonely, f"Let each join its one user: {lonely}"


def test_rows_are_written_in_the_store_and_nowhere_else() -> None:
    found = []
    for source in sources("durable"):
        if source.place.startswith("durable/store/"):
            continue
        for call, name in calls(source.tree):
            if name in WRITES or (name in QUERY_WRITES and _is_a_query(call)):
                found.append(f"{source.place}:{call.lineno} .{name}()")
    assert not found, f"Engine rows are written by durable/store/ alone: {found}"


def _is_a_query(call: ast.Call) -> bool:
    """Whether a call such as `.update()` hangs on a model's manager (dictionaries and hashes have an update, too)."""
    names = {node.attr for node in ast.walk(call.func) if isinstance(node, ast.Attribute)}
    roots = {node.id for node in ast.walk(call.func) if isinstance(node, ast.Name)}
    return bool(names & {"objects", "_default_manager", "filter", "exclude", "using"} or roots & MODEL_NAMES)


def test_no_row_saves_itself_not_even_in_the_store() -> None:
    found = [
        f"{source.place}:{call.lineno} .{name}()"
        for source in sources("durable")
        for call, name in calls(source.tree)
        if name in {"save", "asave", "get_or_create", "update_or_create", "bulk_update"}
    ]
    assert not found, f"A transition is one guarded statement; these read, decide and write back: {found}"


def test_transactions_are_opened_in_one_module_of_flow_and_nowhere_else() -> None:
    found = [
        f"{source.place}:{call.lineno}"
        for source in sources("durable")
        if source.place != "durable/flow/transactions/transaction.py"
        for call, name in calls(source.tree)
        if name == "atomic"
    ]
    assert not found, f"Verbs of durable/flow/ ask `transaction` for theirs; nothing else calls atomic(): {found}"


def test_no_write_hits_a_sliced_composite_key() -> None:
    """On SQLite `filter(pk__in=query[:n]).delete()` ignores the slice and hits every row."""
    found = [
        f"{source.place}:{call.lineno}"
        for source in sources("durable")
        for call, name in calls(source.tree)
        if name in {"delete", "update"}
        for inner in ast.walk(call.func)
        if isinstance(inner, ast.keyword) and inner.arg == "pk__in" and _holds_a_slice(inner.value)
    ]
    assert not found, f"Materialise the ids first: {found}"


def _holds_a_slice(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice) for part in ast.walk(node))


def test_no_test_sleeps() -> None:
    """Tests freeze and move the clock and wait on barriers. A handler under test may block, and may look again."""
    found = [
        f"{source.place}:{call.lineno}"
        for source in sources("tests")
        if source.path.name.startswith(("test_", "conftest"))
        for call, name in calls(source.tree)
        if name == "sleep" and isinstance(call.func, ast.Attribute) and _is_named(call.func.value, "time")
    ]
    assert not found, f"time.sleep in tests: {found}"


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def test_the_one_broad_except_stands_beside_a_reason() -> None:
    """A broad `except` is allowed around user code only, and says so on the spot."""
    found = []
    for source in sources("durable"):
        lines = source.text.splitlines()
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node):
                near = lines[max(0, node.lineno - 3) : node.lineno + 2]
                if not _only_cleans_up(node) and not any("#" in line for line in near):
                    found.append(f"{source.place}:{node.lineno}")
    assert not found, f"A broad except without a word why: {found}"


def _only_cleans_up(node: ast.ExceptHandler) -> bool:
    return isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None


def _is_broad(node: ast.ExceptHandler) -> bool:
    return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"})


def test_the_kernel_opens_no_file_and_reads_no_clock() -> None:
    """The import contract bans the modules; these are built in, or hide in modules that the kernel may use."""
    banned = {
        "open",
        "input",
        "print",
        "utcnow",
        "today",
        "perf_counter",
        "monotonic",
        "thread_time",
        "urandom",
        "uuid4",
    }
    found = []
    for source in sources("durable/kernel"):
        if source.path.name == "purity.py":
            continue  # it names the calls that it looks for
        for call, name in calls(source.tree):
            bare = isinstance(call.func, ast.Name)
            library = isinstance(call.func, ast.Attribute) and _is_named(call.func.value, "datetime")
            if (bare and name in banned - {"uuid4"}) or (library and name in {"now", "utcnow", "today"}):
                found.append(f"{source.place}:{call.lineno} {name}()")
    assert not found, f"The kernel is a function of history: {found}"


def test_the_import_contracts_hold() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr

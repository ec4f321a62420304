"""Which tests run in the first run of `python -m tests` only, and which begin first.

`ONCE` is the only place that leaves anything out: tests that run on SQLite with Django 5.2 and not again on PostgreSQL
with Django 6.1, since neither can change what they show. `.ci/full` and a plain `pytest` run all of them. A test that
PostgreSQL alone can run does not belong here, nor does one of Django's templates, forms or database layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

OF_THE_SOURCE = "reads the project's source and documentation, or what installers and type checkers make of them"
OF_VALUES = "computes with values in memory, for long; the other tests of its folder run on both Pythons"
OF_THE_TESTS = "shows that a tool of the tests can fail; the tool itself runs on both databases"
OF_SQLITE = "makes a SQLite database of its own, whatever the suite runs on"
OF_THE_SYSTEM = "is about signals, streams, limits or arguments of a process; beside it, others of its kind run on both"
OF_THE_THEME = "drives the theme's own scripts; its pages and frames are looked at with both versions of Django"
OF_PERMISSIONS = "asks each address who may, which is decided before the store is asked; more in admin/ runs on both"
OF_THE_READER = "reads lines that the engine has logged in the same way on each database"

ONCE: dict[str, str] = {
    "architecture/": OF_THE_SOURCE,
    "admin/test_attacks.py": OF_PERMISSIONS,
    "typing/": OF_THE_SOURCE,
    "chaos/test_reload.py": OF_THE_SYSTEM,
    "house/test_documentation.py": OF_THE_SOURCE,
    "house/test_english.py": OF_THE_SOURCE,
    "house/test_plan.py": OF_THE_SOURCE,
    "house/test_references.py": OF_THE_SOURCE,
    "house/test_requirements.py": OF_THE_SOURCE,
    "house/test_wheel.py": OF_THE_SOURCE,
    "house/test_words.py": OF_THE_SOURCE,
    "house/test_site.py": OF_THE_SOURCE,
    "languages/test_texts.py": OF_THE_SOURCE,
    "site/test_tutorial.py": OF_SQLITE,
    "kernel/test_converters_fuzz.py": OF_VALUES,
    "kernel/test_random_programs.py": OF_VALUES,
    "kernel/test_cache.py::test_of_work_that_goes_round_as_much_is_found_as_there_is_room_for": OF_VALUES,
    "kernel/test_decode_budget.py::test_keys_of_one_chosen_hash_end_with_the_budget": OF_VALUES,
    "kernel/test_matching.py::test_fan_out_over_ten_kinds_replays_equal_a_hundred_times": OF_VALUES,
    "testing/test_replay.py::test_a_fan_out_of_ten_activities_that_end_in_any_order_replays_equal_a_hundred_times": (
        OF_VALUES
    ),
    "bench/test_soak.py::test_workers_that_leak_memory_and_connections_are_not_flat": OF_THE_TESTS,
    "canary/test_canary.py::test_the_search_for_the_canary_can_fail": OF_THE_TESTS,
    "machine/test_mutants.py::test_every_fault_of_these_is_found": OF_THE_TESTS,
    "house/test_readme.py::test_the_settings_of_the_quick_start_keep_what_the_host_has": OF_SQLITE,
    "project/test_demo.py": OF_SQLITE,
    "themes/driven.py": OF_THE_THEME,
    "worker/test_heard_processes.py::test_a_burst_does_all_its_work_and_exits_0[raises": OF_THE_READER,
    "worker/test_heard_processes.py::test_a_burst_does_all_its_work_and_exits_0[keeps": OF_THE_READER,
    "worker/test_machine_output.py": OF_THE_SYSTEM,
    "worker/test_machine_signals.py": OF_THE_SYSTEM,
    "worker/test_sentry.py::test_a_dead_letter_is_one_event_with_what_it_died_of": OF_THE_READER,
    "worker/test_sentry.py::test_a_workflow_that_dies_of_its_activity_is_one_event": OF_THE_READER,
    "worker/test_sentry.py::test_a_workflow_that_fails_by_its_code_is_one_event_with_its_traceback": OF_THE_READER,
}
"""Node ids below `tests/`, or how they begin, and why each may stand here."""

LONG: dict[str, int] = {
    "worker/": 350,
    "transports/": 180,
    "themes/": 120,
    "chaos/": 120,
    "host/": 90,
    "machine/": 35,
    "house/": 150,
    "testing/": 30,
    "bench/": 30,
    "project/test_demo.py": 20,
    "browser/": 25,
    "crashpoints/": 25,
    "admin/test_numbers.py": 25,
    "operations/test_redrive_failures.py": 25,
    "flow/test_growth.py": 18,
    "canary/": 15,
    "operations/test_redrive_races.py": 14,
    "management/test_failed_workflows.py": 10,
    "admin/test_page_sizes.py": 12,
    "site/test_tutorial.py": 12,
    "admin/test_attacks.py": 9,
    "typing/": 8,
    "admin/test_foreign_projects.py": 5,
}
"""What takes long, in about so many seconds; each is done by one worker, one test after the other. It begins first, so
that no worker is left alone with it at the end.
"""


def is_once(nodeid: str) -> bool:
    """Whether the second run leaves this test out."""
    return nodeid.removeprefix("tests/").startswith(tuple(ONCE))


def shared_out(nodeids: Sequence[str], workers: int) -> list[int]:
    """The indexes of these tests in an order whose equal parts, one for each worker, begin with a fair share of what
    takes long. `--dist worksteal` gives each worker one of those parts, and later takes from the ends of the longest.
    """
    groups: dict[str, list[int]] = {name: [] for name in LONG}
    others: list[int] = []
    for index, nodeid in enumerate(nodeids):
        name = next((name for name in LONG if nodeid.startswith(f"tests/{name}")), None)
        (others if name is None else groups[name]).append(index)
    shares: list[list[int]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for name, members in sorted(groups.items(), key=lambda group: -LONG[group[0]]):
        least = loads.index(min(loads))
        shares[least] += members
        loads[least] += LONG[name] if members else 0
    return _evened(shares, others)


def _evened(shares: list[list[int]], others: list[int]) -> list[int]:
    order: list[int] = []
    left = sum(map(len, shares)) + len(others)
    rest = iter(others)
    for place, share in enumerate(shares):
        size = left // (len(shares) - place)
        order += share
        order += islice(rest, max(0, size - len(share)))
        left -= max(size, len(share))
    return [*order, *rest]

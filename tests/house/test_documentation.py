"""What exists is documented, and what is documented exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from durable import errors
from durable.kernel.history.events import EventType
from tests.architecture.source import ROOT, sources

DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def ticked(text: str) -> set[str]:
    """Everything that stands in backticks, lists taken apart."""
    return {word for span in re.findall(r"`([^`\n]+)`", text) for word in [span, *re.split(r"[ ,:=]+", span)]}


def rows(text: str) -> set[str]:
    """What stands in backticks in the first cells of tables."""
    return {word for line in text.splitlines() if line.startswith("|") for word in ticked(line.split("|")[1])}


def settings_of_the_app() -> set[str]:
    from durable import conf

    return set(conf.CHECKS)


def check_ids() -> set[str]:
    return {
        found
        for source in sources("durable")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for found in re.findall(r"^durable\.([EWI]\d{3})$", node.value)
    }


def permissions() -> set[str]:
    from django.apps import apps

    return {
        f"durable.{codename}"
        for model in apps.get_app_config("durable").get_models()
        for codename, _ in model._meta.permissions
    }


def commands() -> set[str]:
    return {
        path.stem
        for folder in ("durable/management/commands", "project/shop/management/commands")
        for path in (ROOT / folder).glob("*.py")
        if path.stem != "__init__"
    }


def refusals() -> set[str]:
    return {
        value.code
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.RedriveRefused) and value is not errors.RedriveRefused
    }


def test_every_setting_is_documented_and_no_other() -> None:
    assert rows(page("settings.md")) - {"key"} == settings_of_the_app()


def test_every_check_is_documented_and_no_other() -> None:
    assert check_ids() == set(re.findall(r"durable\.([EWI]\d{3})", page("checks.md")))


def test_every_refusal_is_documented() -> None:
    assert refusals() - ticked(page("errors.md")) == set()


def test_every_error_is_documented() -> None:
    names = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.DurableError) and value is not errors.DurableError
    }
    assert names - ticked(page("errors.md")) == set()


def test_every_event_is_documented_and_no_other() -> None:
    assert rows(page("events.md")) == {event.value for event in EventType}


def test_every_command_is_documented() -> None:
    assert {f"manage.py {command}" for command in commands()} - {
        " ".join(span.split()[:2]) for span in re.findall(r"`(manage\.py [^`]+)`", page("commands.md"))
    } == set()


def test_every_permission_is_documented() -> None:
    assert permissions() - ticked(page("admin.md")) == set()


def test_every_option_and_verb_of_the_commands_is_documented() -> None:
    from django.core.management import load_command_class

    from tests.house.command_line import options_of, verbs_of

    documented = ticked(page("commands.md"))
    worker = load_command_class("durable", "runworker").create_parser("manage.py", "runworker")
    durable = load_command_class("durable", "durable").create_parser("manage.py", "durable")
    assert options_of(worker) - documented == set()
    assert verbs_of(durable) - documented == set()


def test_every_exit_code_is_documented_and_no_other() -> None:
    from durable.management.subcommands.answer import CommandExit
    from durable.worker.process.modes import WorkerExit

    of_the_worker, of_the_verbs = page("commands.md").split("## `manage.py durable VERB`")
    code = re.compile(r"^\| (\d+) \|", re.MULTILINE)
    assert {int(number) for number in code.findall(of_the_worker)} == set(WorkerExit)
    assert {int(number) for number in code.findall(of_the_verbs)} == set(CommandExit)


def lines_of_logs() -> dict[str, tuple[set[str], set[str]]]:
    """Each event that the engine logs, with its levels and the fields that are named where it is said."""
    levels = {"debug": "DEBUG", "info": "INFO", "warning": "WARNING", "error": "ERROR", "exception": "ERROR"}
    found: dict[str, tuple[set[str], set[str]]] = {}
    for source in sources("durable"):
        for node in ast.walk(source.tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="log" | "logger"), attr=level),
                    args=[ast.Constant(value=str(event))],
                ) if level in levels:
                    said, fields = found.setdefault(event, (set(), set()))
                    said.add(levels[level])
                    fields |= {word.arg for word in node.keywords if word.arg}
    return found


def table(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]


def test_every_line_of_the_logs_is_documented_with_its_level_and_fields_and_no_other() -> None:
    from durable.worker.handlers.execute import Lacking

    in_words = {
        event.strip("`"): (set(levels.split(", ")), ticked(fields))
        for event, levels, fields, _ in (row for row in table(page("logs-and-signals.md")) if len(row) == 4)
    }
    in_code = lines_of_logs()
    # Said with an event from elsewhere: by `logs.overflowed`, once for many, and by what was lacking.
    elsewhere = {"outbound.overflowed", "acknowledgement_failed", *map(str, Lacking)}
    assert set(in_words) == elsewhere | set(in_code)
    bound = {"workflow", "run", "ordinal", "activity", "attempt", "delivery", "worker", "exc_info"}
    for event, (levels, fields) in in_code.items():
        assert levels == in_words[event][0], f"{event}: {levels}"
        assert fields - bound <= in_words[event][1], event


def test_every_signal_is_documented_with_its_values_and_no_other() -> None:
    from django.dispatch import Signal

    from durable import signals

    in_code = {name for name, value in vars(signals).items() if isinstance(value, Signal)}
    in_words = {name.strip("`"): ticked(values) for name, _, values in map(_three, table(page("logs-and-signals.md")))}
    assert set(filter(None, in_words)) == in_code
    text = (ROOT / "durable/signals.py").read_text(encoding="utf-8")
    for name in in_code:
        told = text.split(f"{name} = Signal()")[1].split('"""')[1]
        assert in_words[name] <= set(re.findall(r"\w+", told)), name


def _three(row: list[str]) -> list[str]:
    return row if len(row) == 3 else ["", "", ""]


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        *sorted(str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md")),
    ],
)
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert ((ROOT / document).parent / target).exists(), f"{document} links to {target}"


@pytest.mark.parametrize("name", ["retry", "sweep", "job"])
def test_the_glossary_says_which_words_are_not_used(name: str) -> None:
    assert name in page("glossary.md")


def test_the_readme_and_the_build_run_the_same_suite() -> None:
    """`.ci/run` runs exactly the README's second command; the first one runs the demo."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [line for line in readme.splitlines() if line.startswith("python3 -m venv .venv && ")]
    demo, suite = commands
    assert demo.endswith(".venv/bin/python manage.py demo")
    assert suite in [line.strip() for line in Path(ROOT / ".ci/run").read_text().splitlines()]

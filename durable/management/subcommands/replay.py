"""`durable replay`: does today's code still fit the histories of files, or of live workflows? Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandParser

from durable.errors import CodeRaised, NonDeterminism, WorkflowNotFound
from durable.kernel.texts.failure import type_name
from durable.management.subcommands import hiding
from durable.management.subcommands.answer import Answer, CommandExit, Subcommand, WrongUsage, printable
from durable.management.subcommands.export import add_sample_arguments, sampled

if TYPE_CHECKING:
    # Imported where it is used, so that no worker loads what is for tests.
    from durable.testing.checking import Checked
    from durable.testing.histories import Source


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="exported histories: files, or folders of .json files")
    add_sample_arguments(parser)
    parser.add_argument("--allow-empty", action="store_true", help="exit 0 if there is nothing to replay")


def _run(options: dict[str, Any]) -> Answer:
    from durable.testing.checking import check_all

    if bool(options["paths"]) == options["live"]:
        raise WrongUsage("Give either the PATHs of exported histories, or --live.")
    if not options["live"] and (options["type"] or options["sample"] is not None):
        raise WrongUsage("--type and --sample choose among live workflows: they need --live.")
    sources = _live(options) if options["live"] else _files(options["paths"])
    if not sources and not options["allow_empty"]:
        raise WrongUsage("There is nothing to replay, so this shows nothing. If that is all right, add --allow-empty.")
    checked = [each for each in check_all(sources) if not isinstance(each.error, WorkflowNotFound)]
    failed = [each for each in checked if each.error is not None]
    lines = [line for each in failed for line in _lines(each)]
    fit = len(checked) - len(failed)
    lines.append(f"{fit} of {len(checked)} histories fit this code.")
    return Answer([_data(each) for each in checked], lines, CommandExit.REFUSED if failed else CommandExit.DONE)


def _live(options: dict[str, Any]) -> list[tuple[str, Callable[[], Source]]]:
    from durable.testing import export_history

    return [(str(owner), partial(export_history, owner)) for owner in sampled(options, live=True)]


def _files(paths: list[str]) -> list[tuple[str, Callable[[], Source]]]:
    return [(str(path), partial(lambda path: path, path)) for text in paths for path in _of_path(Path(text))]


def _of_path(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(path.rglob("*.json"))
    elif path.exists():
        yield path
    else:
        raise WrongUsage(f"{str(path)!r} is no file and no folder.")


def _data(checked: Checked) -> dict[str, Any]:
    error = checked.error
    data: dict[str, Any] = {
        "origin": checked.origin,
        "workflow": None if checked.workflow_id is None else str(checked.workflow_id),
        "type": checked.type,
        "events": checked.events,
        "fits": error is None,
    }
    if error is not None:
        data["error"] = type_name(type(error))
        data["said"] = "" if isinstance(error, NonDeterminism) else _said(error)
    if isinstance(error, NonDeterminism):
        data |= {"position": error.position, "recorded": _shown(error.recorded), "asked": _shown(error.asked)}
    return data


def _lines(checked: Checked) -> list[str]:
    """The workflow, and what does not fit, one indented line each."""
    error = checked.error
    assert error is not None
    lines = [printable(f"{checked.type} {checked.workflow_id}" if checked.workflow_id else checked.origin)]
    if isinstance(error, NonDeterminism):
        lines += [
            f"  position  event {error.position} of {checked.events}",
            f"  recorded  {printable(_shown(error.recorded))}",
            f"  asked     {printable(_shown(error.asked))}",
        ]
    else:
        lines.append(f"  {printable(f'{type_name(type(error))}: {_said(error)}')}")
    return [*lines, *(f"  {printable(remark)}" for remark in getattr(error, "__notes__", ()))]


def _said(error: Exception) -> str:
    """The error's own words. Those of the project's code may quote what it was given."""
    ours = type(error).__module__.startswith("durable.") and not isinstance(error, CodeRaised)
    return str(error) if ours else str(hiding.of_text(str(error)))


def _shown(text: str) -> str:
    """What was recorded or asked, in words: names, and for the end of a workflow its result."""
    return hiding.of_text(text) if text.startswith("the result ") else text


SUBCOMMAND = Subcommand("say whether today's code fits histories: of files, or of live workflows", _add_arguments, _run)

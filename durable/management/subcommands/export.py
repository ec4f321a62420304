"""`durable export`: histories as files, to be replayed against other versions of the code."""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from durable.conf import settings
from durable.flow.looks import sampling
from durable.flow.operator.record_view import record_view
from durable.management.subcommands.answer import Answer, Subcommand, WrongUsage, table, workflow_id

MOST = 10_000
SAMPLE = 50


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="these workflows (default: a sample)")
    parser.add_argument("--to", required=True, metavar="DIR", help="the folder for the files; made if it is not there")
    add_sample_arguments(parser)
    parser.add_argument("--without-payloads", action="store_true", help="only order and names: to read, not to replay")
    parser.add_argument("--actor", default="", help="who exports; recorded under RECORD_VIEWS")


def add_sample_arguments(parser: CommandParser) -> None:
    """How a sample is chosen: the same for `export` and `replay`."""
    parser.add_argument("--live", action="store_true", help="a sample of the workflows that have not ended")
    parser.add_argument("--type", metavar="NAME", help="only workflows of this registered name, in full")
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help=f"how many at most, those with distinct histories first (default: {SAMPLE})",
    )


def sampled(options: dict[str, Any], *, live: bool) -> list[uuid.UUID]:
    """The workflows that these options choose. Raises `WrongUsage`."""
    count = SAMPLE if options["sample"] is None else options["sample"]
    if not 1 <= count <= MOST:
        raise WrongUsage(f"--sample is {count}; it has to be from 1 to {MOST:,}.")
    return sampling.sample(live=live, workflow_type=options["type"], count=count)


def _run(options: dict[str, Any]) -> Answer:
    from durable.testing import export_history  # only here, so that workers do not load it

    payloads = not options["without_payloads"]
    if payloads and settings.redact_payloads:
        raise WrongUsage("REDACT_PAYLOADS is set, so payloads are not exported. Add --without-payloads.")
    if options["ids"] and (options["live"] or options["type"] or options["sample"] is not None):
        raise WrongUsage("Give either IDs or --live, --type and --sample, not both.")
    owners = [workflow_id(text) for text in options["ids"]] or sampled(options, live=options["live"])
    if not owners:
        raise WrongUsage("No workflow matches, so there is nothing to export.")
    folder = _folder(options["to"])
    rows = []
    for owner in dict.fromkeys(owners):
        if payloads and settings.record_views:
            record_view(owner, actor=options["actor"] or None, what={"page": "durable export"})
        exported = export_history(owner, payloads=payloads)
        file = folder / f"{owner}.json"
        _write(file, json.dumps(exported, ensure_ascii=False, separators=(",", ":")))
        rows.append((str(file), exported["type"], exported["status"], len(exported["events"])))
    data = [dict(zip(("file", "type", "status", "events"), row, strict=True)) for row in rows]
    return Answer(data, table(["FILE", "TYPE", "STATUS", "EVENTS"], rows))


def _folder(text: str) -> Path:
    """The folder, which only its owner can read if it is new: payloads may be secret."""
    folder = Path(text)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WrongUsage(f"--to is {text!r}, and no folder can be made there: {error.strerror}.") from error
    return folder


def _write(file: Path, text: str) -> None:
    """Whole or not at all, readable by its owner only. Raises `WrongUsage` for what the file system refuses."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
        Path(temporary).replace(file)
    except OSError as error:
        if temporary:
            with suppress(OSError):
                Path(temporary).unlink()
        raise WrongUsage(f"{file} cannot be written: {error.strerror}. Those before it are written.") from error


SUBCOMMAND = Subcommand("histories as files, for `durable replay` and for tests", _add_arguments, _run)

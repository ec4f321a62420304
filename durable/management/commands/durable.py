"""`manage.py durable VERB`: inspect and operate workflows from the command line."""

from __future__ import annotations

import getpass
import json
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DjangoDatabaseError
from django.db import InterfaceError

from durable.databases import refuse_unfit
from durable.errors import ConfigurationError, DurableError, KeyInvalid, PayloadError, StoreUnavailable, UsageError
from durable.errors.showing import visible
from durable.flow.audit import auditing
from durable.flow.transactions.troubles import trouble_of
from durable.management.subcommands import SUBCOMMANDS
from durable.management.subcommands.answer import CommandExit, WrongUsage
from durable.outcomes import Through
from durable.worker.process import output

_INDENTED_CHARACTERS = 100_000
_WRONG_USAGE = (WrongUsage, ConfigurationError, UsageError, PayloadError, KeyInvalid)


class Command(BaseCommand):
    """Parse, call one subcommand, print its answer, exit with its code. Data goes to stdout, all else to stderr."""

    help = (
        "Inspect and operate workflows. Exit codes: 0 done, 1 refused (health: not well), 2 wrong usage, 3 "
        "database not available."
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        output.make_sure()  # before Django takes hold of the streams
        super().__init__(*args, **options)

    def add_arguments(self, parser: CommandParser) -> None:
        subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="VERB")
        for name, subcommand in SUBCOMMANDS.items():
            own = subcommands.add_parser(name, help=subcommand.help, description=subcommand.help)
            subcommand.add_arguments(own)
            own.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        for value in options.values():
            if isinstance(value, str) and not _is_storable(value):
                said = f"{value!r} is not allowed: it contains bytes that are not text."
                self._refuse(WrongUsage(said), CommandExit.USAGE, options)
        try:
            refuse_unfit()
            with auditing.asked_through(Through.COMMAND, login=_login()):
                answer = SUBCOMMANDS[options["subcommand"]].run(options)
        except _WRONG_USAGE as error:
            self._refuse(error, CommandExit.USAGE, options)
        except StoreUnavailable as error:
            self._refuse(error, CommandExit.STORE, options)
        except DurableError as error:
            self._refuse(error, CommandExit.REFUSED, options)
        except (DjangoDatabaseError, InterfaceError) as error:
            self._refuse(error, CommandExit.STORE, options)
        self._print([_as_json(answer.data)] if options["json"] else answer.lines)
        if answer.exit_code is not CommandExit.DONE:
            sys.exit(answer.exit_code)

    def _refuse(self, error: Exception, code: CommandExit, options: dict[str, Any]) -> NoReturn:
        """Prints the error to stderr, with `--json` also as data, and exits with the code."""
        said = _about_the_database(error) if _is_database_error(error) else str(error)
        if options["json"]:
            self._print([_as_json({"error": {"code": _code_of(error), "message": said}})])
        shown = visible(said.strip(), lines=True)  # it may name what others have chosen
        raise CommandError(f"{shown} [{_code_of(error)}]", returncode=code) from error

    def _print(self, lines: Iterable[str]) -> None:
        """Prints to stdout. A closed pipe (`| head`) does not change the exit code; output that is lost on a full disk
        does.
        """
        try:
            for line in lines:
                self.stdout.write(line)
            self.stdout.flush()
        except BrokenPipeError:
            output.give_up()
        except OSError as full:
            output.give_up()
            text = f"The verb was carried out, but its output could not be written: {full.strerror}."
            raise CommandError(text, returncode=CommandExit.REFUSED) from full


def _login() -> str:
    """The operating system's account that runs the command, or empty if it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):
        return ""


def _as_json(data: Any) -> str:
    """Indented, unless it is long or nested too deeply: a line for each bracket makes a hundred megabytes of one."""
    text = json.dumps(data, ensure_ascii=False)
    if len(text) <= _INDENTED_CHARACTERS:
        with suppress(RecursionError):
            text = json.dumps(data, indent=2, ensure_ascii=False)
    # In strings only: outside of them JSON has nothing that this would change. It is read as the same data.
    return visible(text, lines=True, escape=lambda char: json.dumps(char)[1:-1])


def _is_storable(text: str) -> bool:
    """Whether a database can store it. Bytes from a shell that are not UTF-8 become lone surrogates."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _about_the_database(error: Exception) -> str:
    kind = trouble_of(error)
    if kind.passes:
        return f"The database is not available: {error}"
    return f"The command {kind.says}: {str(error).strip()}\n{kind.cure}"


def _is_database_error(error: Exception) -> bool:
    return isinstance(error, DjangoDatabaseError | InterfaceError)


def _code_of(error: Exception) -> str:
    """The stable code of a refusal: its own, else the name of its class in small letters."""
    if _is_database_error(error):
        return StoreUnavailable.code
    own = getattr(error, "code", None)
    return own if isinstance(own, str) else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()

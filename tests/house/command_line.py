"""What argparse knows of a command."""

from __future__ import annotations

import argparse

DJANGOS_OWN = {
    "--help",
    "--version",
    "--verbosity",
    "--settings",
    "--pythonpath",
    "--traceback",
    "--no-color",
    "--force-color",
    "--skip-checks",
}


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Long options of the command's own."""
    return {
        option for action in parser._actions for option in action.option_strings if option.startswith("--")
    } - DJANGOS_OWN


def verbs_of(parser: argparse.ArgumentParser) -> set[str]:
    """Sub-commands."""
    return {
        verb for action in parser._actions if isinstance(action, argparse._SubParsersAction) for verb in action.choices
    }

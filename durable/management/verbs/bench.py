"""`durable bench`: what the engine costs here, beside a plain INSERT+COMMIT loop on the same database."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser
from django.db import connections

from durable.management.verbs.answer import Answer, Exit, Verb, WrongUsage, table


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--database", metavar="ALIAS", help="measure beside this database; default: the engine's")
    parser.add_argument("--gate", action="store_true", help="exit 1 when a stated figure is missed")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for a first impression")


def _run(options: dict[str, Any]) -> Answer:
    # Its activities and workflows are registered by this import, which therefore waits until they are asked for.
    from durable.bench import shapes, suite

    alias = options["database"]
    if alias is not None and alias not in connections:
        raise WrongUsage(f"--database is {alias!r}; there are {', '.join(connections)}.")
    sizes = shapes.QUICK if options["quick"] else shapes.FULL
    findings = suite.measure(alias=alias, sizes=sizes, tell=_tell)
    rows = []
    for figure in findings.figures:
        stated = "" if figure.goal is None else f"{figure.goal.promise.value} {figure.goal.value:g}"
        rows.append(
            (
                figure.name,
                f"{figure.value:.3g} {figure.unit.value}",
                f"{min(figure.samples):.3g} to {max(figure.samples):.3g}",
                f"{sorted(figure.per_second)[len(figure.per_second) // 2]:,.0f}" if figure.per_second else "",
                stated,
                "missed" if figure.missed else "",
            )
        )
    data = {
        "database": findings.vendor,
        "conditions": findings.conditions,
        "figures": [figure.as_data() for figure in findings.figures],
        "missed": [figure.name for figure in findings.missed],
    }
    lines = [f"{name}: {value}" for name, value in {"database": findings.vendor, **findings.conditions}.items()]
    lines += ["", *table(("figure", "median", "samples", "per second", "stated", ""), rows)]
    return Answer(data, lines, Exit.REFUSED if options["gate"] and findings.missed else Exit.DONE)


def _tell(part: str) -> None:
    sys.stderr.write(f"measuring {part} …\n")
    sys.stderr.flush()


VERB = Verb("Measure what the engine costs here, on a database of the benchmark's own.", _add_arguments, _run)

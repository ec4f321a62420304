"""`durable bench`: what the engine costs here, beside a plain INSERT+COMMIT loop on the same database."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser
from django.db import connections

from durable.management.subcommands.answer import Answer, CommandExit, Subcommand, WrongUsage, table

SOAK_MINUTES = 10.0


def _add_arguments(parser: CommandParser) -> None:
    parser.add_argument("--database", metavar="ALIAS", help="measure on this database's server (default: the engine's)")
    parser.add_argument(
        "--gate",
        action="store_true",
        help="exit with 1 when a stated figure is missed, or a worker was not flat",
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for a first impression")
    parser.add_argument("--soak", action="store_true", help="instead, watch two workers' memory under steady load")
    parser.add_argument("--minutes", type=float, metavar="N", help=f"how long a soak takes; default: {SOAK_MINUTES:g}")


def _run(options: dict[str, Any]) -> Answer:
    alias = options["database"]
    if alias is not None and alias not in connections:
        raise WrongUsage(f"--database is {alias!r}; there are {', '.join(connections)}.")
    if options["soak"]:
        return _soak(options)
    if options["minutes"] is not None:
        raise WrongUsage("--minutes is the length of a soak; it needs --soak.")
    return _measure(options)


def _measure(options: dict[str, Any]) -> Answer:
    # Its activities and workflows are registered by this import, which therefore waits until they are asked for.
    from durable.bench import shapes, suite

    alias = options["database"]
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
                "missed" if figure.missed else f"not judged: {figure.not_judged}" if figure.not_judged else "",
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
    return Answer(data, lines, CommandExit.REFUSED if options["gate"] and findings.missed else CommandExit.DONE)


def _soak(options: dict[str, Any]) -> Answer:
    from durable.bench import flatness, soak  # as above

    minutes = SOAK_MINUTES if options["minutes"] is None else options["minutes"]
    if not 0 < minutes < float("inf"):
        raise WrongUsage(f"--minutes is {minutes:g}; it has to be more than 0.")
    soaked = soak.soak(alias=options["database"], plan=soak.Plan.of(minutes), tell=_tell)
    reports = [flatness.judge(course) for course in soaked.courses]
    flat = not any(report.faults for report in reports)
    rows = [
        (
            report.worker,
            f"{report.done:,}",
            f"{report.begun_mib:.1f}",
            f"{report.warm_mib:.1f}",
            f"{report.end_mib:.1f}",
            f"{report.growth:+.1f}",
            " to ".join(str(count) for count in sorted(set(report.connections))),
            "; ".join(report.faults) or "flat",
        )
        for report in reports
    ]
    headings = ("worker", "activities", "MiB at first", "second fifth", "last fifth", "growth", "connections", "")
    lines = [
        f"database: {soaked.vendor}",
        f"{soaked.seconds:.0f} s, {soaked.done:,} activities, {soaked.closed:,} workflows closed",
        "",
        *table(headings, rows),
        "",
        f"{'Flat' if flat else 'Not flat'}: at most {flatness.MOST_GROWTH:g} MiB of growth, connections constant.",
    ]
    data = {
        "database": soaked.vendor,
        "seconds": soaked.seconds,
        "activities": soaked.done,
        "workflows_closed": soaked.closed,
        "portions_left_out": soaked.left_out,
        "most_growth_mib": flatness.MOST_GROWTH,
        "flat": flat,
        "workers": [
            {**report.as_data(), "samples": [[round(s.at, 2), round(s.mib, 2), s.connections] for s in course.samples]}
            for report, course in zip(reports, soaked.courses, strict=True)
        ],
    }
    return Answer(data, lines, CommandExit.REFUSED if options["gate"] and not flat else CommandExit.DONE)


def _tell(part: str) -> None:
    sys.stderr.write(f"measuring {part} …\n")
    sys.stderr.flush()


SUBCOMMAND = Subcommand(
    "Measure what the engine costs here, on a database of the benchmark's own.", _add_arguments, _run
)

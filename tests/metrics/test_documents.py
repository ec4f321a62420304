"""The page, the dashboard and the alert rules name the metrics that exist, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from durable.metrics.series import ALL, Kind
from tests.architecture.source import ROOT

DOCS = ROOT / "docs"
SHOWN = {series.shown: series for series in ALL}
PARTS = {
    f"{series.name}{part}": series
    for series in ALL
    if series.kind is Kind.HISTOGRAM
    for part in ("_bucket", "_sum", "_count")
}
IN_QUERIES = {name: one for name, one in SHOWN.items() if one.kind is not Kind.HISTOGRAM} | PARTS
NAME = re.compile(r"\bdurable_[a-z_]+\b")
BY = re.compile(r"(?:sum|max) by \(([^)]*)\) \((.*?)\)")
CHOSEN = re.compile(r"(durable_[a-z_]+)\{([a-z_]+)=")


def rows() -> dict[str, tuple[str, ...]]:
    """The labels of each series on the page."""
    found = {}
    for line in (DOCS / "metrics.md").read_text().splitlines():
        if line.startswith("| `durable_"):
            name, labels = (re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:3])
            found[name[0]] = tuple(labels)
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Where it stands, and the query."""
    for panel in json.loads((DOCS / "monitoring/dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for group in yaml.safe_load((DOCS / "monitoring/alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def test_every_metric_is_on_the_page_with_its_labels_and_no_other() -> None:
    assert rows() == {series.shown: series.labels for series in ALL}


@pytest.mark.parametrize(("place", "query"), list(expressions()))
def test_dashboard_and_rules_ask_for_metrics_and_labels_that_exist(place: str, query: str) -> None:
    names = set(NAME.findall(query))
    assert names
    assert names - IN_QUERIES.keys() == set(), place
    for labels, inner in BY.findall(query):
        for name in NAME.findall(inner):
            bucket = ("le",) if name.endswith("_bucket") else ()
            assert set(labels.split(", ")) <= {*IN_QUERIES[name].labels, *bucket}, place
    for name, label in CHOSEN.findall(query):
        assert label in IN_QUERIES[name].labels, place


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for _, query in expressions() for name in NAME.findall(query)}
    missing = [one.shown for one in ALL if not {one.shown, f"{one.name}_bucket"} & shown]
    assert missing == []


def test_values_of_each_worker_are_added_and_those_of_the_database_are_not() -> None:
    for place, query in expressions():
        for name in NAME.findall(query):
            around = query[: query.index(name)]
            if IN_QUERIES[name].kind is Kind.ASKED:
                assert re.search(r"max(?: by \([^)]*\))? \($|max\($", around), f"{place}: {query}"
            elif "absent(" not in around:
                assert "sum" in around, f"{place}: {query}"


def test_names_are_those_of_prometheus() -> None:
    assert len({series.name for series in ALL}) == len(ALL)
    for series in ALL:
        assert re.fullmatch(r"durable_[a-z]+(_[a-z]+)*", series.name)
        assert not series.name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert series.help.endswith(".")


def test_panels_do_not_overlap_and_alerts_have_names_of_their_own() -> None:
    panels = json.loads((DOCS / "monitoring/dashboard.json").read_text())["panels"]
    assert len({(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels}) == len(panels)
    rules = yaml.safe_load((DOCS / "monitoring/alerts.yml").read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)

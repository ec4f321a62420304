"""The text that Prometheus reads, made by `prometheus_client`: the only file that imports it, at the first scrape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from durable.metrics.readings import Key, Readings
from durable.metrics.series import ALL, ASKED_AT, BUCKETS, Kind, Series

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Of the text that every version of the package writes, and every Prometheus reads."""


def available() -> bool:
    """Whether `prometheus_client` is installed. Imports nothing."""
    try:
        return find_spec("prometheus_client") is not None
    except (ImportError, ValueError):  # somebody keeps it from being imported
        return False


def rendered(values: Readings) -> tuple[str, bytes]:
    """The content type and the text. What was never counted is left out, as is what the database was not asked for."""
    from prometheus_client import exposition
    from prometheus_client.registry import Collector

    class Current(Collector):
        def collect(self) -> Iterator[Metric]:
            return _families(values)

    return CONTENT_TYPE, exposition.generate_latest(Current())


def _families(values: Readings) -> Iterator[Metric]:
    """One for each series that has values."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    for series in ALL:
        samples = sorted(_of(values, series))
        kinds = {Kind.COUNTER: CounterMetricFamily, Kind.HISTOGRAM: HistogramMetricFamily}
        family: Any = kinds.get(series.kind, GaugeMetricFamily)(series.name, series.help, labels=series.labels)
        for labels, value in samples:
            if isinstance(value, list):
                family.add_metric(labels, buckets=_cumulated(value), sum_value=value[-1])
            else:
                family.add_metric(labels, value)
        if samples:
            yield family


def _of(values: Readings, series: Series) -> Iterator[tuple[tuple[str, ...], float | list[float]]]:
    source: Iterable[tuple[Key, float | list[float]]]
    match series.kind:
        case Kind.COUNTER:
            source = values.counters.items()
        case Kind.HISTOGRAM:
            source = values.histograms.items()
        case Kind.GAUGE:
            source = values.gauges.items()
        case Kind.ASKED:
            if series is ASKED_AT and values.asked is not None:
                yield (), values.asked_at
            source = (values.asked or {}).items()
    for (name, labels), value in source:
        if name == series.name:
            yield labels, value


def _cumulated(counts: list[float]) -> list[tuple[str, float]]:
    total, buckets = 0.0, []
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], counts[:-1], strict=True):
        total += count
        buckets.append((bound, total))
    return buckets

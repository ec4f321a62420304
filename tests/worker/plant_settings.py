"""The suite's settings plus the plant, for worker processes that tests start. Spans come from the environment."""

from __future__ import annotations

import json
import os
from datetime import timedelta

from durable.worker.process import signals
from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, INSTALLED_APPS

signals.TOGETHER = float(os.environ.get("PLANT_TOGETHER", signals.TOGETHER))

INSTALLED_APPS = [*INSTALLED_APPS, "tests.worker.plant"]
DATABASES["default"]["OPTIONS"] = DATABASES["default"].get("OPTIONS", {}) | json.loads(
    os.environ.get("PLANT_OPTIONS", "{}")
)
if "PLANT_TRACES" in os.environ:  # as a host does that exports its traces, here to a file
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    spans = open(os.environ["PLANT_TRACES"], "a", buffering=1)  # noqa: SIM115, PTH123 - for as long as the process lives
    exporter = ConsoleSpanExporter(out=spans, formatter=lambda span: json.dumps(json.loads(span.to_json())) + "\n")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
if "PLANT_AWAY" in os.environ:  # a place where no database is
    key = "NAME" if "sqlite" in DATABASES["default"]["ENGINE"] else "HOST"
    DATABASES["default"][key] = os.environ["PLANT_AWAY"]
DURABLE = {
    "LEASE_FOR": timedelta(seconds=float(os.environ.get("PLANT_LEASE", "60"))),
    "GRACE_FOR": timedelta(seconds=float(os.environ.get("PLANT_GRACE", "30"))),
    "DELIVERY_BACKOFF": (timedelta(milliseconds=1), 1.0, timedelta(milliseconds=1)),
    "DELIVERY_ATTEMPTS": int(os.environ.get("PLANT_DELIVERIES", "8")),
    "ON_DEAD_LETTER": os.environ.get("PLANT_DEAD_LETTER", "hold"),
    "CONCURRENCY": int(os.environ.get("PLANT_CONCURRENCY", "4")),
    "NOTIFY": "PLANT_NOTIFY" in os.environ,
    "MAX_HISTORY_BYTES": int(os.environ.get("PLANT_HISTORY", str(50 * 2**20))),
    "TURN_POISON_LIMIT": int(os.environ.get("PLANT_POISON", "3")),
    "TURN_CPU_FOR": timedelta(seconds=float(os.environ.get("PLANT_TURN", "2"))),
}

"""A host with Sentry: spans in all cursors, errors captured from the logs. A script; it prints what Sentry was sent.

In a process of its own, since the SDK patches Django, logging and threads for good.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from typing import Any

import django
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.django import DjangoIntegration
from sentry_sdk.transport import Transport


class Kept(Transport):
    """Sends nothing and keeps everything."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[tuple[str, dict[str, Any]]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        for item in envelope.items:
            payload: Any = item.payload
            self.items.append((item.type or "", payload.json if payload.json is not None else {}))


def main() -> None:
    """Start what fails, work it off, and say what Sentry has."""
    kept = Kept()
    sentry_sdk.init(
        dsn="https://key@sentry.invalid/1",
        transport=kept,
        traces_sample_rate=1.0,
        integrations=[DjangoIntegration(cache_spans=True, signals_spans=True)],
    )
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.worker.plant_settings"
    django.setup()
    from durable.conf import settings
    from durable.models import OutboxRow
    from durable.worker.process.modes import WorkerMode
    from durable.worker.process.worker import Worker
    from tests.worker.conftest import Plant
    from tests.worker.plant import activities, workflows

    plant, ids = Plant(), {}
    with sentry_sdk.start_transaction(name="the request", op="http.server"):
        match sys.argv[1]:
            case "activity":
                ids["fails"] = plant.enqueue(activities.fail, "one")
            case "lean":
                ids["fails"] = plant.start(workflows.lean, "one")
            case "code":
                ids["fails"] = plant.start(workflows.fall_over, "one")
            case "dead letter":
                ids["held"] = plant.enqueue(activities.add, 1, 2)
                OutboxRow.objects.filter(workflow_id=ids["held"]).update(
                    input='{"args":["x",[]]}', delivery_failures=settings.delivery_attempts - 1
                )
            case "all is well":
                ids["well"] = plant.start(workflows.three, "one")
                ids["async"] = plant.enqueue(activities.note_async, "two")
                ids["written once"] = plant.enqueue(activities.write_once, "three")
            case unknown:
                raise LookupError(unknown)
    code = Worker(mode=WorkerMode.BURST).run()
    sentry_sdk.flush(timeout=timedelta(seconds=30).total_seconds())
    events = [payload for kind, payload in kept.items if kind == "event"]
    spans = [
        span
        for kind, payload in kept.items
        if kind == "transaction"
        for span in payload["spans"]
        if "durable_" in str(span.get("description"))
    ]
    sys.stdout.write(
        json.dumps(
            {
                "code": int(code),
                "statuses": {name: str(plant.look(one).status) for name, one in ids.items()},
                "events": [_told(event) for event in events],
                "spans": len(spans),
            }
        )
    )


def _told(event: dict[str, Any]) -> dict[str, Any]:
    last = event["exception"]["values"][-1] if "exception" in event else {}
    return {
        "level": event["level"],
        "message": event.get("logentry", {}).get("message"),
        "logger": event.get("logger"),
        "error": [last.get("type"), last.get("value")],
        "functions": [frame["function"] for frame in (last.get("stacktrace") or {}).get("frames", [])],
        "extra": event.get("extra", {}),
        "crumbs": [
            crumb["message"]
            for crumb in event.get("breadcrumbs", {}).get("values", [])
            if crumb.get("level") == "warning"
        ],
    }


if __name__ == "__main__":
    main()

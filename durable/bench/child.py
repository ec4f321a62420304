"""A process that is nothing but a worker on the scratch database: `python -m durable.bench.child JOB`.

It stops cleanly when its standard input ends, so that none is left whatever happens to its parent. On standard output
it reports when it is ready, and at its end what it has done.
"""

from __future__ import annotations

import json
import sys
import threading
from datetime import timedelta
from importlib import import_module
from typing import Any

READY = "ready"
READY_WITHIN = 60.0


def _main(job: dict[str, Any]) -> None:
    import django

    django.setup()
    from django.conf import settings as django_settings

    from durable.bench.scratch import chosen, entered
    from durable.worker.process.worker import Worker

    for module in job["modules"]:
        import_module(module)
    spans = {name: timedelta(seconds=seconds) for name, seconds in job["spans"].items()}
    with entered(job["alias"], job["name"], **job["database"]), chosen(**job["durable"], **spans):
        django_settings.DEBUG = job["debug"] == "on"
        worker = Worker(name=job["worker"])

        def accompany() -> None:
            if worker.ready.wait(READY_WITHIN):
                _say(READY)
                sys.stdin.read()
            worker.stop()

        threading.Thread(target=accompany, daemon=True).start()
        worker.run()
        tally = worker.tally
        _say(json.dumps({"done": tally.done, "failed": tally.failed, "retried": tally.retried}))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))

"""How much memory an idle worker keeps resident, measured in a process that is nothing but a worker.

Run as a module, this is that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

SETTLED_AFTER = 2.0
"""Seconds in which a worker has started everything that it starts."""


def resident(alias: str, name: str) -> float:
    """MiB of a worker on the scratch database `name`."""
    from django.conf import settings as django_settings

    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": django_settings.SETTINGS_MODULE,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    told = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "durable.bench.idle", alias, name],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    found: float = json.loads(told.stdout.splitlines()[-1])
    return found


def _main(alias: str, name: str) -> None:
    import django

    django.setup()
    from durable.bench.scratch import entered
    from durable.worker.worker import Worker

    with entered(alias, name):
        worker = Worker(name="durable-bench-idle")
        thread = threading.Thread(target=worker.run)
        thread.start()
        worker.ready.wait(60)
        threading.Event().wait(SETTLED_AFTER)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        worker.stop()
        thread.join()
    sys.stdout.write(f"{json.dumps(pages * os.sysconf('SC_PAGE_SIZE') / 2**20)}\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])

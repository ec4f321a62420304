"""A process that brings up others only to see them die: each tells the story until a statement, and is killed there.

Run as a module. Reads one line of JSON for each child, and answers with one: how it ended. The children share nothing
but the code that was imported, which is what makes them cheap.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

KILLED, EXITED = "killed", "exited"
"""By SIGKILL, or by `os._exit`: nothing of either is seen by the code that is running."""

EXIT_CODE = 77


def main() -> None:
    """Serve until the input ends."""
    import django

    django.setup()
    from tests.crashpoints import trial  # everything a child needs, before the first is made

    assert trial
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _live(json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{json.dumps(os.waitstatus_to_exitcode(status))}\n")
        sys.stdout.flush()


def _live(job: dict[str, Any]) -> None:
    """Never comes back."""
    from tests.crashpoints import stage, trial
    from tests.crashpoints.wire import Kind, Point, Wire

    try:
        wire = Wire(Point(Kind.GONE, job["number"]))
        wire.on_death = (
            (lambda: os._exit(EXIT_CODE)) if job["how"] == EXITED else (lambda: os.kill(os.getpid(), signal.SIGKILL))
        )
        stage.sweep()
        trial.go_on(wire, Path(job["folder"]))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)  # it should have died


if __name__ == "__main__":
    main()

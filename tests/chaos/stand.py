"""A worker in a process of its own whose way to the database can be broken."""

from __future__ import annotations

import os
from pathlib import Path

from tests.waiting import PATIENCE, in_thread


class Stand:
    """The pipes of `plant.stand`: each delivery says that it is there, and is let go."""

    def __init__(self, folder: Path, deliveries: int) -> None:
        self.folder = folder
        for number in range(1, deliveries + 1):
            os.mkfifo(folder / f"arrived-{number}")
            os.mkfifo(folder / f"opened-{number}")

    def wait_for_arrival(self, number: int) -> None:
        assert in_thread(Path(self.folder, f"arrived-{number}").read_text).result(PATIENCE) == "here\n"

    def let_go(self, number: int) -> None:
        with Path(self.folder, f"opened-{number}").open("w"):
            pass

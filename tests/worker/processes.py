"""A worker as a process of its own: started, heard, ended."""

from __future__ import annotations

import os
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.waiting import PATIENCE

Start = Callable[..., subprocess.Popen[str]]


class Pipes:
    """Two named pipes by which a handler in another process tells that it is there, and is let go."""

    def __init__(self, folder: Path, name: str) -> None:
        self.arrived, self.opened = folder / f"{name}-arrived", folder / f"{name}-opened"
        os.mkfifo(self.arrived)
        os.mkfifo(self.opened)

    def wait_for_arrival(self) -> None:
        with self.arrived.open() as pipe:
            assert pipe.read() == "here\n"

    def let_go(self) -> None:
        with self.opened.open("w"):
            pass


def code_of(process: subprocess.Popen[str]) -> int:
    """The exit code, once the process has ended."""
    process.communicate(timeout=PATIENCE)
    return process.returncode


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def answer_of(port: int) -> tuple[int, str] | None:
    """Status and text of the health port, or None if nobody listens there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as red:
        return red.code, red.read().decode()
    except OSError:
        return None

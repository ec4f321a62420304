"""A health port under test, whose clock stands still, and a listening socket that refuses callers."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from durable.worker.process.health import HealthSocket, HealthThread
from durable.worker.threads.wakeup import readable
from tests.waiting import PATIENCE
from tests.worker.threads import until

ASKED = b"GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n"
SECRET = "OperationalError: connection to server at db.internal (10.0.0.7), port 5432 failed"


class Time:
    """A clock that stands still: nobody is late on a slow machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Port:
    """A health port with what belongs to it."""

    def __init__(self) -> None:
        self.time = Time()
        self.socket = HealthSocket("127.0.0.1", 0, now=self.time)
        self.reasons: Sequence[str] = []
        self.looks = 0
        self._opened: list[socket.socket] = []

    def look(self) -> Sequence[str]:
        self.looks += 1
        return self.reasons

    def serve(self) -> None:
        """A round, without waiting."""
        self.socket.serve(self.look)

    def call(self, sent: bytes = b"", *, source: str = "127.0.0.1") -> socket.socket:
        """Connect, and say this much."""
        caller = socket.create_connection(("127.0.0.1", self.socket.port), PATIENCE, (source, 0))
        self._opened.append(caller)
        caller.sendall(sent)
        return caller

    def hold(self, callers: int) -> None:
        """Rounds until it holds so many callers: even on loopback, they may arrive a moment later."""

        def held() -> bool:
            self.serve()
            return len(self.socket.filenos()) == 1 + callers

        until(held)

    def reply(self, caller: socket.socket) -> tuple[int, str]:
        """Rounds until this caller has its answer."""

        def is_answered() -> bool:
            self.serve()
            return bool(readable([caller.fileno()], 0))

        until(is_answered)
        return answered(caller)

    def hang_up(self) -> None:
        for caller in self._opened:
            caller.close()


@pytest.fixture
def port() -> Iterator[Port]:
    """Its rounds are the test's."""
    made = Port()
    yield made
    made.hang_up()
    made.socket.close()


@pytest.fixture
def served(port: Port) -> Iterator[Port]:
    """A thread does its rounds."""
    thread = HealthThread(port.socket, port.look)
    yield port
    thread.stop()


def said_to(caller: socket.socket) -> bytes:
    """All that comes until the other end hangs up."""
    return b"".join(iter(lambda: caller.recv(65536), b""))


def answered(caller: socket.socket) -> tuple[int, str]:
    """Status and body."""
    head, _, body = said_to(caller).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    return int(head.split()[1]), body.decode()


class Refusing:
    """The listening socket, whose `accept` raises these, and then does its work."""

    def __init__(self, real: socket.socket, *raised: BaseException) -> None:
        self._real = real
        self._raised = list(raised)

    def accept(self) -> Any:
        if self._raised:
            raise self._raised.pop(0)
        return self._real.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def refuse(port: Port, monkeypatch: pytest.MonkeyPatch, *raised: BaseException) -> None:
    # A socket that fails or is called from elsewhere cannot be had otherwise.
    monkeypatch.setattr(port.socket, "_socket", Refusing(port.socket._socket, *raised))

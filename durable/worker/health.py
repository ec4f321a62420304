"""The small HTTP answer of `--health ADDRESS:PORT`: 200 and "ok", or 503 and the reasons, one a line."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from durable.errors import ConfigurationError
from durable.worker.logs import get_logger
from durable.worker.wakeup import readable

log = get_logger("durable.worker.health")

REQUEST_SECONDS = 1.0
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - what `--health :8080` asks for


class HealthSocket:
    """A listening socket that answers one request at a time. Has a `fileno`, for callers that select."""

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as taken:
            self._socket.close()
            raise ConfigurationError(f"--health can not listen on {host}:{port}: {taken.strerror}.") from taken
        self._socket.listen(8)
        self._socket.setblocking(False)
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def answer(self, reasons: Sequence[str]) -> None:
        """Answer a caller that waits, if one does. Without a free descriptor the answer is red, and says that."""
        try:
            caller, _ = self._socket.accept()
        except OSError as refused:
            # A caller that waits and cannot be taken would keep this socket ready, and its thread busy, for ever.
            if refused.errno in (errno.EMFILE, errno.ENFILE):
                self._answer_with_the_spare([*reasons, f"no descriptors left: {refused.strerror}"])
            return
        self._tell(caller, reasons)

    def _answer_with_the_spare(self, reasons: Sequence[str]) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        with suppress(OSError):
            self._tell(self._socket.accept()[0], reasons)
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)

    def _tell(self, caller: socket.socket, reasons: Sequence[str]) -> None:
        with caller:
            try:
                caller.settimeout(REQUEST_SECONDS)
                caller.recv(4096)
                caller.sendall(_response(reasons))
            except OSError:  # a caller that went away, or never spoke, needs no answer
                pass

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None


class HealthThread:
    """Answers on a thread of its own, for a process that has no loop to do it in."""

    def __init__(self, listener: HealthSocket, reasons: Callable[[], Sequence[str]]) -> None:
        self._listener = listener
        self._reasons = reasons
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="durable-health", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the socket."""
        self._stopping = True
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        while not self._stopping:
            try:
                if readable([self._listener.fileno()], 0.2):
                    self._listener.answer(self._reasons())
            # Without this thread nobody hears any more how the worker is, and a probe that gets no answer kills it.
            except Exception:
                log.exception("health_answer_failed")


def parse_address(text: str) -> tuple[str, int]:
    """`ADDRESS:PORT` (`127.0.0.1:8080`, `[::1]:8080`, `:8080` for all addresses). Raises `ConfigurationError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"--health {text!r} is no ADDRESS:PORT, as in 127.0.0.1:8080.")
    return host.strip("[]") or ALL_ADDRESSES, int(port)


def _response(reasons: Sequence[str]) -> bytes:
    body = ("\n".join(reasons) if reasons else "ok").encode() + b"\n"
    status = b"503 Service Unavailable" if reasons else b"200 OK"
    head = b"HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n" % (status, len(body))
    return head + b"Cache-Control: no-store\r\nConnection: close\r\n\r\n" + body

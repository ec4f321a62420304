"""What `--health ADDRESS:PORT` answers over HTTP: 200 and "ok", or 503 and the reasons, one per line; and `/metrics`.

Nothing here waits for a caller: many may be slow or silent, and others are answered meanwhile. Reasons may name hosts,
ports and database errors, so only callers on the loopback interface get them, unless they address this machine by a
foreign name, as a browser does on a page whose name was made to resolve to it. Others get "not ok", and the log has the
reasons. Metrics hold names and numbers only, and everybody gets them.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from durable.errors import ConfigurationError
from durable.worker.process.pages import NO_PAGES, Pages, Reply, path_of, reply_to
from durable.worker.threads.logs import get_logger
from durable.worker.threads.wakeup import readable

log = get_logger("durable.worker.health")

REQUEST_SECONDS = 5.0
"""How long a caller may take to send its request."""

MOST_CALLERS = 64
"""Callers that are served at once. One more closes the oldest connection of the address that has the most."""

MOST_OF_A_REQUEST = 8 * 1024
"""Bytes of a request's head."""

DEAF_FOR = 0.1
"""Seconds without listening after connections could not be accepted. They would keep the socket ready, and its thread
busy.
"""

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - what `--health :8080` asks for

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_PASSED_ON = re.compile(rb"^(forwarded|x-forwarded-[\w-]+|x-real-ip|via)[ \t]*:", re.IGNORECASE | re.MULTILINE)
_HOST = re.compile(rb"^host[ \t]*:[ \t]*([^\r\n]*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_PORT = re.compile(r":\d*$")
_NO_DESCRIPTORS = {errno.EMFILE, errno.ENFILE}
_GONE_MEANWHILE = {errno.ECONNABORTED, errno.EPROTO, errno.EINTR}


@dataclass(eq=False, slots=True)
class _Caller:
    """One connection that is being heard."""

    socket: socket.socket
    address: str
    until: float
    is_near: bool
    """Whether it came over the loopback interface."""
    lacking: str
    """What the system lacked when it was accepted."""
    head: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    """The rest of its response, which its socket has not taken yet."""


class HealthSocket:
    """A listening socket and its callers. Wait for `filenos` and call `serve` in turn, on one thread."""

    def __init__(self, host: str, port: int, *, now: Callable[[], float] = time.monotonic) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as in_use:
            self._socket.close()
            raise ConfigurationError(f"--health cannot listen on {host}:{port}: {in_use.strerror}.") from in_use
        self._socket.listen(2 * MOST_CALLERS)
        self._socket.setblocking(False)
        self._now = now
        self._name = host.casefold()
        self._callers: list[_Caller] = []
        self._answered: list[_Caller] = []
        self._deaf_until = 0.0
        self._reasons_are_in_the_log = False
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def filenos(self) -> list[int]:
        """What to wait for until there is something to do."""
        listening = [self._socket.fileno()] if self._now() >= self._deaf_until else []
        return listening + [caller.socket.fileno() for caller in self._callers]

    def unsent(self) -> list[int]:
        """What to wait for until it takes more of a response."""
        return [caller.socket.fileno() for caller in self._answered]

    def serve(self, look: Callable[[], Sequence[str]], pages: Pages = NO_PAGES) -> None:
        """Accepts new callers and answers complete requests, without waiting for any. `look` returns the reasons why
        the answer is red, none if it is green. Each page is made at most once, and only if somebody asks for it.

        Without a free descriptor the answer is red, and says so.
        """
        for caller in list(self._answered):
            self._send(caller)
        asked = self._hear()
        self._accept()
        asked += self._hear()
        replies: dict[str, Reply] = {}
        for caller in asked:
            path = path_of(bytes(caller.head))
            if path not in replies:
                replies[path] = reply_to(path, look, pages)
            self._answer(caller, replies[path])
        now = self._now()
        for caller in [caller for caller in self._callers + self._answered if caller.until <= now]:
            self._drop(caller)
        if self._spare is None:
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)

    def close(self) -> None:
        """Stops listening, and hangs up."""
        self._socket.close()
        for caller in self._callers + self._answered:
            caller.socket.close()
        self._callers, self._answered = [], []
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    # --- taking callers ---

    def _accept(self) -> None:
        if self._now() < self._deaf_until:
            return
        lacking = ""
        for _ in range(MOST_CALLERS):
            try:
                accepted, address = self._socket.accept()
            except BlockingIOError:
                return
            except (OSError, MemoryError) as refused:
                number = getattr(refused, "errno", None)
                if number in _NO_DESCRIPTORS and self._has_made_room():
                    lacking = f"no file descriptors left: {os.strerror(number)}"
                elif number not in _GONE_MEANWHILE:
                    self._deaf_until = self._now() + DEAF_FOR
                    log.warning("health_accept_failed", error=f"{type(refused).__name__}: {refused}")
                    return
            else:
                self._welcome(accepted, str(address[0]), lacking)
                if lacking:  # it is heard before the next one takes its place
                    return

    def _has_made_room(self) -> bool:
        """Closes a connection, so that one more can be accepted. False if there is none to close."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
            return True
        held = self._callers + self._answered
        if held:
            self._drop(held[0])
        return bool(held)

    def _welcome(self, accepted: socket.socket, address: str, lacking: str) -> None:
        try:
            accepted.setblocking(False)
            is_near = _is_loopback(address) and _is_loopback(accepted.getsockname()[0])
        except OSError:  # it has gone already
            accepted.close()
            return
        held = self._answered + self._callers
        if len(held) >= MOST_CALLERS:
            counted = Counter(caller.address for caller in held)
            ((greedy, _),) = counted.most_common(1)
            self._drop(next(caller for caller in held if caller.address == greedy))
        self._callers.append(_Caller(accepted, address, self._now() + REQUEST_SECONDS, is_near, lacking))

    def _drop(self, caller: _Caller) -> None:
        (self._callers if caller in self._callers else self._answered).remove(caller)
        caller.socket.close()

    # --- hearing and answering them ---

    def _hear(self) -> list[_Caller]:
        """Reads what callers have sent. Returns those whose requests are complete."""
        asked = []
        for caller in list(self._callers):
            try:
                piece = caller.socket.recv(MOST_OF_A_REQUEST)
            except BlockingIOError:
                continue
            except OSError:
                piece = b""
                caller.head.clear()
            caller.head += piece
            if not piece and not caller.head:  # gone, without a word
                self._drop(caller)
            elif not piece or _END_OF_HEAD.search(caller.head) or _fault_of(caller.head):
                self._callers.remove(caller)
                asked.append(caller)
        return asked

    def _answer(self, caller: _Caller, reply: Reply) -> None:
        head = bytes(caller.head)
        fault = _fault_of(head)
        if fault:
            reply = Reply(fault, fault)
        elif reply.reasons is not None:
            complaints = [*reply.reasons, caller.lacking] if caller.lacking else reply.reasons
            near = caller.is_near and not _PASSED_ON.search(head) and self._is_called_by_its_name(head)
            if not near:
                self._tell_the_log_instead(complaints)
            reply = reply.showing(complaints, in_words=near)
        caller.unsent = memoryview(reply.response(with_body=not head.startswith(b"HEAD ")))
        caller.until = self._now() + REQUEST_SECONDS
        self._answered.append(caller)
        self._send(caller)

    def _send(self, caller: _Caller) -> None:
        """Sends as much as the socket takes. The rest follows when it takes more."""
        try:
            caller.unsent = caller.unsent[caller.socket.send(caller.unsent) :]
        except BlockingIOError:
            return
        except OSError:  # a caller that went away needs no answer
            caller.unsent = memoryview(b"")
        if not caller.unsent:
            self._drop(caller)

    def _is_called_by_its_name(self, head: bytes) -> bool:
        """Whether the request addresses this machine by an address, as localhost, or by the name in `--health`.
        Browsers send the name that a page came from; a caller that sends none is not a browser.
        """
        return all(_is_own_name(_PORT.sub("", host.decode("latin-1")), self._name) for host in _HOST.findall(head))

    def _tell_the_log_instead(self, reasons: Sequence[str]) -> None:
        if reasons and not self._reasons_are_in_the_log:
            log.warning("health_is_red", reasons=list(reasons))
        self._reasons_are_in_the_log = bool(reasons)


class HealthThread:
    """Answers on a separate thread, for a process that has no loop for it."""

    def __init__(self, listener: HealthSocket, look: Callable[[], Sequence[str]], pages: Pages = NO_PAGES) -> None:
        self._listener = listener
        self._look = look
        self._pages = pages
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="durable-health", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and closes the socket."""
        self._stopping.set()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                readable(self._listener.filenos(), 0.2, writable=self._listener.unsent())
                self._listener.serve(self._look, self._pages)
            # Without this thread there would be no answers, and a probe without an answer kills the worker.
            except Exception:
                log.exception("health_answer_failed")
                self._stopping.wait(DEAF_FOR)


def parse_address(text: str) -> tuple[str, int]:
    """`ADDRESS:PORT` (`127.0.0.1:8080`, `[::1]:8080`, `:8080` for all addresses). Raises `ConfigurationError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"--health {text!r} is not ADDRESS:PORT, as in 127.0.0.1:8080.")
    return host.strip("[]") or ALL_ADDRESSES, int(port)


def _fault_of(head: bytes | bytearray) -> str:
    """The error status for an invalid request; "" while it may be valid."""
    if len(head) > MOST_OF_A_REQUEST:
        return "431 Request Header Fields Too Large"
    return "" if head[:1].isalpha() else "400 Bad Request"


def _is_loopback(address: str) -> bool:
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return parsed.is_loopback


def _is_own_name(host: str, own: str) -> bool:
    if host.casefold() in ("localhost", own):
        return True
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True

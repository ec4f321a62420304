"""The health port: many callers at once, slow ones too, odd requests, and whatever `accept` raises."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Sequence

import pytest

from durable.worker.process import health, pages
from durable.worker.process.health import HealthThread
from durable.worker.threads.wakeup import readable
from tests.waiting import PATIENCE, Barrier, in_thread
from tests.worker.conftest import Plant
from tests.worker.health_port import ASKED, SECRET, Port, answered, port, refuse, said_to, served
from tests.worker.launching import SUPERVISED, Launch, launch
from tests.worker.processes import answer_of, code_of, free_port
from tests.worker.threads import until

__all__ = ["launch", "port", "served"]

# --- many callers, and slow ones ---


def test_a_probe_is_answered_while_twenty_others_say_nothing_and_they_are_when_they_speak(served: Port) -> None:
    """Each of them used to hold up the next caller for a second."""
    silent = [served.call() for _ in range(20)]
    halfway = [served.call(ASKED[:10]) for _ in range(20)]
    assert answered(served.call(ASKED)) == (200, "ok\n")
    for caller in halfway:
        caller.sendall(ASKED[10:])
    for caller in silent:
        caller.sendall(ASKED)
    assert [answered(caller) for caller in silent + halfway] == [(200, "ok\n")] * 40


def test_callers_that_come_at_the_same_moment_are_all_answered(served: Port) -> None:
    meeting = Barrier(health.MOST_CALLERS // 2)

    def ask() -> tuple[int, str]:
        meeting.wait()
        return answered(served.call(ASKED))

    asking = [in_thread(ask) for _ in range(health.MOST_CALLERS // 2)]
    assert [future.result(PATIENCE) for future in asking] == [(200, "ok\n")] * len(asking)


def test_whoever_opens_more_than_the_port_hears_loses_its_own_oldest_and_nobody_elses(served: Port) -> None:
    other = served.call(source="127.0.0.2")
    many = [served.call(source="127.0.0.3") for _ in range(health.MOST_CALLERS + 20)]
    assert answered(served.call(ASKED, source="127.0.0.4")) == (200, "ok\n")
    other.sendall(ASKED)
    assert answered(other) == (200, "ok\n")
    assert said_to(many[0]) == b""
    many[-1].sendall(ASKED)
    assert answered(many[-1]) == (200, "ok\n")


def test_no_more_than_so_many_callers_are_held(port: Port) -> None:
    for _ in range(3 * health.MOST_CALLERS):
        port.call()
        port.serve()
    port.hold(health.MOST_CALLERS)
    for _ in range(health.MOST_CALLERS):
        port.call()
        port.serve()
    port.hold(health.MOST_CALLERS)


def test_a_caller_that_does_not_ask_in_time_is_let_go(port: Port) -> None:
    caller = port.call(ASKED[:10])
    port.hold(1)
    port.time.now = health.REQUEST_SECONDS - 0.01
    port.hold(1)
    port.time.now = health.REQUEST_SECONDS
    port.hold(0)
    assert said_to(caller) == b""


def test_one_look_serves_all_who_ask_and_none_is_made_for_those_who_do_not(port: Port) -> None:
    idle = [port.call() for _ in range(3)]
    port.hold(3)
    assert port.looks == 0
    for caller in idle:
        caller.sendall(ASKED)
    until(lambda: len(readable(port.socket.filenos(), 0)) == 3)
    port.serve()
    assert port.looks == 1
    assert [answered(caller) for caller in idle] == [(200, "ok\n")] * 3


def test_a_caller_that_reads_nothing_holds_up_nobody(served: Port) -> None:
    served.reasons = ["x" * 1_000_000]
    deaf = served.call(ASKED)
    code, said = answered(served.call(ASKED))
    assert code == 503
    assert len(said) == pages.MOST_OF_A_REPLY + 1
    assert answered(deaf) == (code, said)


@SUPERVISED
def test_silent_connections_delay_no_probe_of_a_worker(plant: Plant, launch: Launch, processes: list[str]) -> None:
    port = free_port()
    process = launch("--health", f"127.0.0.1:{port}", *processes, PLANT_REQUEST="600")
    until(lambda: answer_of(port) == (200, "ok\n"))
    silent = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(20)]
    assert answer_of(port) == (200, "ok\n")
    assert not any(is_over(caller) for caller in silent), "and none of them was given up for it"
    for caller in silent:
        caller.close()
    process.send_signal(signal.SIGTERM)
    assert code_of(process) == 0


def is_over(caller: socket.socket) -> bool:
    caller.setblocking(False)
    try:
        return caller.recv(1) == b""
    except BlockingIOError:
        return False


# --- requests ---


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"GET /healthz?full=1 HTTP/1.0\n\n", (200, "ok\n")),
        (b"OPTIONS / HTTP/1.0\r\n\r\n", (200, "ok\n")),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n", (200, "ok\n")),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400, "400 Bad Request\n")),
        (b"\r\n\r\n", (400, "400 Bad Request\n")),
        (b"GET /" + b"a" * health.MOST_OF_A_REQUEST, (431, "431 Request Header Fields Too Large\n")),
    ],
)
def test_requests(served: Port, sent: bytes, answer: tuple[int, str]) -> None:
    assert answered(served.call(sent)) == answer


def test_head_is_answered_without_a_body(served: Port) -> None:
    served.reasons = ["stopping"]
    said = said_to(served.call(ASKED.replace(b"GET", b"HEAD")))
    assert said.startswith(b"HTTP/1.1 503 ")
    assert said.endswith(b"\r\n\r\n")
    assert b"Content-Length: 9\r\n" in said


def test_a_caller_that_ends_its_side_instead_of_its_request_is_answered(served: Port) -> None:
    caller = served.call(b"GET / HTTP/1.0\r\n")
    caller.shutdown(socket.SHUT_WR)
    assert answered(caller) == (200, "ok\n")


def test_a_caller_that_goes_away_is_forgotten(port: Port) -> None:
    port.call().close()
    gone = port.call(ASKED)
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    gone.close()
    port.hold(0)


# --- what accept raises ---


@pytest.mark.parametrize("number", [errno.ECONNABORTED, errno.EPROTO, errno.EINTR])
def test_a_connection_that_was_given_up_before_it_was_taken_hides_no_other(
    port: Port, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse(port, monkeypatch, OSError(number, os.strerror(number)))
    assert port.reply(port.call(ASKED)) == (200, "ok\n")


@pytest.mark.parametrize(
    "raised",
    [
        *(OSError(number, os.strerror(number)) for number in (errno.ENOBUFS, errno.ENOMEM, errno.EPERM, errno.EINVAL)),
        MemoryError(),
        TimeoutError(),
    ],
    ids=repr,
)
def test_whatever_accept_raises_is_logged_and_the_port_listens_again_a_moment_later(
    port: Port, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, raised: BaseException
) -> None:
    """Without the pause, a caller that cannot be taken would keep the thread busy."""
    refuse(port, monkeypatch, raised)
    caller = port.call(ASKED)
    port.serve()
    assert caplog.text.count("health_accept_failed") == 1
    assert port.socket.filenos() == []
    port.serve()
    assert port.looks == 0
    port.time.now += health.DEAF_FOR
    assert len(port.socket.filenos()) == 1
    assert port.reply(caller) == (200, "ok\n")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_descriptors_the_spare_one_serves_and_then_the_oldest_caller_makes_room(
    port: Port, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def none() -> OSError:
        return OSError(number, os.strerror(number))

    idle = port.call()
    refuse(port, monkeypatch, none())
    port.hold(1)
    monkeypatch.setattr(port.socket, "_spare", None)  # the descriptor that it keeps for this moment is gone
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(none()))
    refuse(port, monkeypatch, none())
    assert port.reply(port.call(ASKED)) == (503, f"no file descriptors left: {os.strerror(number)}\n")
    assert said_to(idle) == b""
    refuse(port, monkeypatch, none())
    later = port.call(ASKED)
    port.serve()
    assert port.socket.filenos() == [], "nothing to give: deaf for a moment"
    port.time.now += health.DEAF_FOR
    assert port.reply(later) == (200, "ok\n")


def test_a_fault_of_the_port_itself_does_not_end_its_thread(
    port: Port, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(port, monkeypatch, RuntimeError("a bug"))
    thread = HealthThread(port.socket, port.look)
    assert answered(port.call(ASKED)) == (200, "ok\n")
    thread.stop()
    assert caplog.text.count("health_answer_failed") == 1


def test_a_worker_that_cannot_say_how_it_is_is_red(
    port: Port, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def look() -> Sequence[str]:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(port, "look", look)
    code, said = port.reply(port.call(ASKED))
    assert (code, SECRET in said) == (503, False)
    assert "health_answer_failed" in caplog.text

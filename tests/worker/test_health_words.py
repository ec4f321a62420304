"""What the health port tells to whom: reasons on the loopback interface, elsewhere red or green."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from tests.worker.health_port import ASKED, SECRET, Port, Refusing, answered, port, refuse, served

__all__ = ["port", "served"]


def test_reasons_are_told_on_the_loopback_interface(served: Port) -> None:
    served.reasons = [SECRET, "half a character: \udc80"]
    assert answered(served.call(ASKED)) == (503, f"{SECRET}\nhalf a character: \\udc80\n")


class Elsewhere(Refusing):
    """Callers come from this address."""

    def __init__(self, real: socket.socket, address: str) -> None:
        super().__init__(real)
        self._address = address

    def accept(self) -> Any:
        accepted, _ = self._real.accept()
        return accepted, (self._address, 40_000)


@pytest.mark.parametrize("address", ["10.0.0.9", "203.0.113.5", "2001:db8::1", "fe80::1%lo", "::ffff:10.0.0.9"])
def test_from_elsewhere_nobody_hears_more_than_red_or_green_and_the_log_has_the_reasons_once(
    port: Port, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    # A socket that fails or is called from elsewhere cannot be had otherwise.
    monkeypatch.setattr(port.socket, "_socket", Elsewhere(port.socket._socket, address))

    def ask() -> tuple[int, str]:
        return port.reply(port.call(ASKED))

    assert ask() == (200, "ok\n")
    port.reasons = [SECRET]
    assert [ask(), ask()] == [(503, "not ok\n")] * 2
    assert caplog.text.count("health_is_red") == 1
    assert SECRET in caplog.text
    port.reasons = []
    assert ask() == (200, "ok\n")
    port.reasons = [SECRET]
    assert ask() == (503, "not ok\n")
    assert caplog.text.count("health_is_red") == 2


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_every_address_of_the_loopback_interface_is_near(
    port: Port, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(port.socket, "_socket", Elsewhere(port.socket._socket, address))
    port.reasons = [SECRET]
    assert port.reply(port.call(ASKED)) == (503, f"{SECRET}\n")


@pytest.mark.parametrize(
    "line", ["X-Forwarded-For: 203.0.113.5", "forwarded: for=203.0.113.5", "Via: 1.1 proxy", "X-Real-IP: 203.0.113.5"]
)
def test_what_a_proxy_on_this_machine_passes_on_comes_from_elsewhere(served: Port, line: str) -> None:
    served.reasons = [SECRET]
    request = ASKED.replace(b"\r\n\r\n", f"\r\n{line}\r\n\r\n".encode())
    assert answered(served.call(request)) == (503, "not ok\n")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9000", "[::1]:9000", "LocalHost", "10.0.0.9:80", "probe.local:1"]
)
def test_reasons_are_for_who_calls_it_by_address_or_by_its_own_name(port: Port, host: str) -> None:
    port.socket._name = "probe.local"  # as if it had been started with that name
    port.reasons = [SECRET]
    assert port.reply(port.call(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())) == (503, f"{SECRET}\n")


@pytest.mark.parametrize(
    "hosts",
    [
        ["evil.example"], ["evil.example:9000"], ["127.0.0.1.evil.example"], ["localhost.evil.example"],
        ["localhost", "evil.example"], [" evil.example \t"], ["[::1].evil.example"], ["\x00localhost"], [""],
    ],
)  # fmt: skip
def test_a_page_whose_name_was_made_to_lead_here_reads_no_reasons(
    port: Port, caplog: pytest.LogCaptureFixture, hosts: list[str]
) -> None:
    """DNS rebinding: the browser is on this machine, and its page reads what that answers."""
    port.reasons = [SECRET]
    lines = "".join(f"hOST:{host}\r\n" for host in hosts)
    assert port.reply(port.call(f"GET / HTTP/1.1\r\n{lines}\r\n".encode())) == (503, "not ok\n")
    assert SECRET in caplog.text


def test_without_descriptors_callers_from_elsewhere_hear_nothing_of_it(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_elsewhere = Elsewhere(port.socket._socket, "10.0.0.9")
    monkeypatch.setattr(port.socket, "_socket", from_elsewhere)
    refuse(port, monkeypatch, OSError(errno.EMFILE, "Too many open files"))
    assert port.reply(port.call(ASKED)) == (503, "not ok\n")

"""Which signals ask for a stop, and which end the process now."""

from __future__ import annotations

import signal

import pytest

from durable.worker.process.signals import TOGETHER, UNASKED_SIGNALS, StopSignals


class Receiver:
    """Signals that this process sends to itself, on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.stops = 0
        self.ended: list[int] = []
        self.signals = StopSignals(self._stop, second=self.ended.append, monotonic=lambda: self.now)

    def _stop(self) -> None:
        self.stops += 1


def test_signals_that_come_together_are_one() -> None:
    """`timeout` signals the process and then its group: a handler that is at work must not be cut off by that."""
    receiver = Receiver()
    with receiver.signals:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        receiver.now += TOGETHER / 2
        signal.raise_signal(signal.SIGINT)
    assert (receiver.stops, receiver.ended) == (1, [])


def test_a_later_signal_ends_the_process_however_many_were_one_before() -> None:
    receiver = Receiver()
    with receiver.signals:
        signal.raise_signal(signal.SIGTERM)
        receiver.now += TOGETHER / 2
        signal.raise_signal(signal.SIGTERM)
        receiver.now += TOGETHER / 2
        signal.raise_signal(signal.SIGINT)
    assert (receiver.stops, receiver.ended) == (1, [signal.SIGINT])


@pytest.mark.parametrize("number", UNASKED_SIGNALS)
def test_whatever_would_end_the_process_stops_it_in_good_order(number: int) -> None:
    """Each of them, by default, ends a process without a word. `pytest-timeout` has SIGALRM, and keeps it."""
    receiver = Receiver()
    if signal.getsignal(number) is not signal.SIG_DFL:
        pytest.skip("somebody has a handler for it, and keeps it")
    with receiver.signals as signals:
        signal.raise_signal(signal.Signals(number) if number < signal.SIGRTMIN else number)
        signal.raise_signal(signal.SIGINT)
        assert signals.code(0) == 128 + number
        assert signals.code(3) == 3, "what went wrong says more"
    assert (receiver.stops, receiver.ended) == (1, [])


def test_sigquit_asks_for_the_stop_and_cuts_its_grace() -> None:
    receiver = Receiver()
    with receiver.signals:
        signal.raise_signal(signal.SIGQUIT)
    assert (receiver.stops, receiver.ended) == (1, [signal.SIGQUIT])


def test_handlers_of_the_host_are_left_alone() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: seen.append(number))
    try:
        with (receiver := Receiver()).signals:
            signal.raise_signal(signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert (seen, receiver.stops) == ([signal.SIGUSR2], 0)


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    with Receiver().signals:
        assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in before} == before

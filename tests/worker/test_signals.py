"""Which signals ask for a stop, and which end the process now."""

from __future__ import annotations

import signal

from durable.worker.signals import TOGETHER, StopSignals


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


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    with Receiver().signals:
        assert signal.getsignal(signal.SIGTERM) != before[signal.SIGTERM]
    assert {number: signal.getsignal(number) for number in before} == before

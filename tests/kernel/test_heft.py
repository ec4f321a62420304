"""What was read is weighed by what it is, whatever the codec made of it where it is stored."""

from __future__ import annotations

import base64
import gc
import tracemalloc
import zlib
from typing import Any

import pytest

import durable.kernel.context.workflow_context as durable
from durable.kernel.codec import JsonCodec
from durable.kernel.history.events import Event, EventType
from durable.kernel.payloads.birthplace import Birthplace
from tests.kernel.harness import EPOCH, begun, echo


async def waits() -> None:
    await durable.wait_for_signal("n")


async def collects() -> list[Any]:
    return [await durable.wait_for_signal("n") for _ in range(1_000)]


class Veiling(JsonCodec):
    """What it stores has no brackets, as with encryption."""

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode()

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        return base64.urlsafe_b64decode(text).decode()


class Compressing(Veiling):
    """What it stores is small, whatever is in it."""

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        return base64.urlsafe_b64encode(zlib.compress(text.encode())).decode()

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        return zlib.decompress(base64.urlsafe_b64decode(text)).decode()


async def keeps_its_argument(value: Any) -> None:
    await durable.wait_for_signal("n")


async def keeps_a_result() -> Any:
    value = await echo.execute(1)
    await durable.wait_for_signal("n")
    return value


BRACKETS = f"[{'[],' * 50_000}1]"
STARTED, COMPLETED, SIGNALLED = EventType.WORKFLOW_STARTED, EventType.ACTIVITY_COMPLETED, EventType.SIGNAL_RECEIVED


@pytest.mark.parametrize("codec", [JsonCodec(), Veiling(), Compressing()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("code", "given", "seq", "kind", "key", "payload"),
    [
        (keeps_its_argument, None, 1, STARTED, "input", f'{{"value": {BRACKETS}}}'),
        (keeps_a_result, "{}", 3, COMPLETED, "result", BRACKETS),
        (collects, "{}", 2, SIGNALLED, "payload", BRACKETS),
    ],
    ids=["an argument", "a result", "a signal"],
)
def test_brackets_are_weighed_whatever_the_codec_makes_of_them(
    codec: JsonCodec, code: Any, given: str | None, seq: int, kind: EventType, key: str, payload: str
) -> None:
    """An empty list is two characters and 64 bytes. What is stored tells nothing of it, once it was encrypted."""

    def sealed(text: str) -> str:
        return codec.seal(text, path="value")

    one = begun(code, codec=codec)
    if given is not None:
        one.activate(Event(1, STARTED, {"input": sealed(given)}, EPOCH))
    data = {key: sealed(payload), "name": "n"}
    gc.collect()
    tracemalloc.start()
    one.activate(Event(seq, kind, data, EPOCH, ordinal=1 if kind is COMPLETED else None))
    gc.collect()
    taken, _most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    weight = one.weight
    one.close()
    assert taken > 3_000_000
    assert weight > taken / 3


def test_weighing_opens_no_payload_twice() -> None:
    opened = []

    class Counting(Veiling):
        def unwrap(self, text: str, birthplace: Birthplace) -> str:
            opened.append(birthplace.path)
            return super().unwrap(text, birthplace)

    codec = Counting()
    one = begun(waits, codec=codec)
    one.activate(Event(1, STARTED, {"input": codec.seal("{}", path="value")}, EPOCH))
    one.activate(Event(2, SIGNALLED, {"name": "n", "payload": codec.seal("[[]]", path="value")}, EPOCH))
    assert one.done
    assert opened == ["tests.waits", "n"]
    one.close()

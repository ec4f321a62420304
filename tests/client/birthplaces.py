"""A shop whose every kind of payload is used, for codecs that bind a text to where it was made."""

from __future__ import annotations

from collections import Counter
from typing import Any

import durable
from durable import Retry, activity, workflow
from durable.kernel.codec import JsonCodec
from durable.kernel.payloads.birthplace import Birthplace

WORDS = "birthplaces."


class Binding(JsonCodec):
    """Writes each payload's birthplace in front of it, and refuses to read it as anything else."""

    seen: Counter[tuple[str, str]] = Counter()

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        self.seen[birthplace.kind.value, birthplace.path] += 1
        return f"~{birthplace}~{text}"

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        begin = f"~{birthplace}~"
        if not text.startswith(begin):
            raise ValueError(f"{text} was not made as {birthplace}")
        return text.removeprefix(begin)


@activity(name=f"{WORDS}weigh")
def weigh(parcel: str) -> int:
    """Says how far it is, and reads it again in the next attempt."""
    info = durable.activity_info()
    if info.attempt == 1:
        info.heartbeat({"parcel": parcel})
        raise RuntimeError("dropped")
    return len(info.last_heartbeat["parcel"])


@activity(name=f"{WORDS}fail", retry=Retry(max_attempts=2))
def fail(parcel: str) -> None:
    """Quotes what it was given."""
    raise RuntimeError(f"no {parcel}")


@workflow(name=f"{WORDS}send")
async def send(parcel: str) -> dict[str, Any]:
    """Weighs twice, and waits for two words."""
    weights = [await weigh.execute(parcel), await weigh.execute(f"{parcel}!")]
    return {"weights": weights, "words": [await durable.wait_for_signal("go"), await durable.wait_for_signal("go")]}

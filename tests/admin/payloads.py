"""Pages that show payloads, and a codec whose texts a test can read."""

from __future__ import annotations

from durable.kernel.codec import JsonCodec
from durable.kernel.payloads.birthplace import Birthplace

VIEWS = [f"view_{name}" for name in ("workflow", "outboxrow", "workitem", "message", "worker")]


class Reversing(JsonCodec):
    """Stands for encryption: what is stored does not read like what was given."""

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        return text[::-1]

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        if text == "broken":
            raise RuntimeError("wrong key")
        return text[::-1]

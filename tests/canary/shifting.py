"""A codec that a test can read through."""

from __future__ import annotations

from typing import Any

from durable.kernel.codec import JsonCodec


class Shifting(JsonCodec):
    """Stands for encryption: nothing that is stored holds what was given."""

    def wrap(self, text: str, *where: Any) -> str:
        return "".join(chr(ord(character) + 1) for character in text)

    def unwrap(self, text: str, *where: Any) -> str:
        return "".join(chr(ord(character) - 1) for character in text)

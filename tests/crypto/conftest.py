"""Keys, and projects that have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

OLD, NEW = "A" * 43 + "=", "_" * 42 + "8="
KEYS = {"old": OLD, "new": NEW, "middle": "B" * 42 + "A="}


@pytest.fixture
def keyed(settings: Any) -> Callable[..., None]:
    """`keyed("new", "old")` is a deploy with these keys; the first one writes."""

    def deploy(*key_ids: str, **more: Any) -> None:
        settings.DURABLE = {
            "CODEC": "durable.crypto.EncryptingCodec",
            "ENCRYPTION_KEYS": {key_id: KEYS[key_id] for key_id in key_ids},
            **more,
        }

    return deploy

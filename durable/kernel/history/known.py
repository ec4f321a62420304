"""What this engine knows of histories and messages. What is beyond it was written by a newer engine.

In a rolling deploy both are at work. The older one must neither guess what the newer one has recorded, nor block the
workflow for it: it puts the workflow off, and leaves it to workers that know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from durable.kernel.history.events import EventType, MessageKind

ENGINE: Final = 1
"""The number of this engine's language. It rises with each release in which a known event, or a column of the workflow,
comes to mean something that older engines would get wrong: such a release writes its number into the event that says
so, as `engine`.
"""

ENGINE_KEY: Final = "engine"

UNREADABLE: Final = "unreadable"
"""The kind of marker for a signal that does not match the type asked for."""

PATCH: Final = "patch"
"""The kind of marker for the new way that a run took where the code asked `patched`."""

MARKERS: Final = frozenset({UNREADABLE, PATCH})

_TYPES: Final = frozenset(kind.value for kind in EventType)
KINDS: Final = frozenset(kind.value for kind in MessageKind)
"""Of messages."""

KNOWN: Final = f"{ENGINE} {sorted(_TYPES)} {sorted(KINDS)} {sorted(MARKERS)}"
"""Everything that an engine knows, as a text that differs where engines do."""


def beyond_event(type: str, data: Mapping[str, Any]) -> str:
    """What is not known of an event, in words; empty if it is known."""
    if type not in _TYPES:
        return f"the type {type!r}"
    if type == EventType.MARKER_RECORDED and data.get("kind") not in MARKERS:
        return f"the kind of marker {data.get('kind')!r}"
    needed = data.get(ENGINE_KEY, ENGINE)
    if needed != ENGINE and not (isinstance(needed, int) and needed <= ENGINE):
        return f"the engine {needed!r}"
    return ""


def beyond_message(kind: str) -> str:
    """What is not known of a message, in words; empty if it is known."""
    return "" if kind in KINDS else f"the kind {kind!r}"

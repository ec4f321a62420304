"""What operators do to workflows, from Python. The admin and the command line use the same functions."""

from __future__ import annotations

from durable.flow.terminate import terminate
from durable.flow.unblock import unblock

__all__ = ["terminate", "unblock"]

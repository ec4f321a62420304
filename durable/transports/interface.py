"""What a transport is: two functions for the worker that sends. The process that receives calls
`durable.worker.process.receiving.receive`.
"""

from __future__ import annotations

import uuid
from typing import Protocol


class Transport(Protocol):
    """Takes deliveries of one queue to other processes. `QUEUES` names the class, which is made with the name of the
    cluster as its only argument, on the thread that calls it.

    A worker calls it from one thread at a time, never inside a transaction, and with a time limit: a call that takes
    longer has failed, and its transport is not used again. Whatever it raises is an error of the transport.

    Nothing depends on what becomes of a message. One that is lost is sent anew; of several, or of one that comes late,
    the first counts that finds its token. The receiving process runs one delivery at a time, so that a row which is
    suspected of killing its process is alone there.
    """

    def ping(self) -> None:
        """Raises if a message could not be sent now. Nothing is claimed while it does, and nothing is counted."""
        ...

    def send(self, row_id: int, token: uuid.UUID) -> None:
        """Hands over one delivery: a process of the cluster is to call `receive(row_id, token)`. Raises if that will
        not happen. The delivery is then counted as failed.
        """
        ...

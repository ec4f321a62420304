"""What a workflow has asked for: issued in this activation, or open and awaited."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from durable.errors import HistoryFull
from durable.kernel.codec import Codec, WrittenCall, digest, seal_call
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.definitions.options import DETACHED, OUTLIVE, check_text
from durable.kernel.history.commands import CancelActivity, CancelChild, RecordPatch, RecordUnreadable
from durable.kernel.history.room import FULL
from durable.kernel.limits import MAX_REASON_LENGTH, MAX_SIGNAL_NAME_LENGTH
from durable.kernel.loop import handled
from durable.kernel.loop.event_loop import C, WorkflowLoop
from durable.kernel.loop.futures import ActivityFuture, CallFuture, Child, Sending
from durable.kernel.payloads import birthplace, wire
from durable.kernel.payloads.birthplace import NOWHERE
from durable.kernel.replay.child_ids import ChildIds

Call = ActivityFuture | Child | Sending
Asked = Call | CancelActivity | CancelChild | RecordUnreadable | RecordPatch

CALLS: Final = frozenset({ActivityFuture, Child, Sending})
"""What is issued as a future; the rest are commands."""


class Calls:
    """The calls in their order, and the futures that wait for an outcome, by ordinal."""

    __slots__ = ("_codec", "_limit", "_loop", "child_ids", "children", "digest_key", "issued", "last_ordinal", "open")

    def __init__(self, loop: WorkflowLoop, codec: Codec, child_ids: ChildIds, *, limit: int) -> None:
        self._loop = loop
        self._codec = codec
        self._limit = limit
        self.child_ids = child_ids
        self.digest_key = b""
        self.issued: list[Asked] = []
        self.open: dict[int, Call] = {}
        self.children: dict[uuid.UUID, Child] = {}
        """The open ones among them that are children, by id."""
        self.last_ordinal = 0

    def schedule(
        self, *, activity: str, payload: str, digest: str, options: Mapping[str, Any], hint: Any
    ) -> ActivityFuture:
        """Registers a call. It gets its ordinal when the activation is idle, unless it was cancelled before."""
        future = self._issue(ActivityFuture)
        future.activity = activity
        future.digest = digest
        future.hint = hint
        future.options = options
        future.payload = payload
        return future

    def start(
        self,
        definition: WorkflowDefinition[Any, Any],
        call: WrittenCall,
        *,
        key: str | None,
        parent_close: str,
        options: Mapping[str, Any],
    ) -> Child:
        """Registers the start of a child, likewise. Raises `PayloadError`."""
        shown = digest(call.plain, self.digest_key)
        id = self.child_ids.next(definition.name, key, shown, at=self._loop.now)
        payload = seal_call(definition, call, codec=self._codec, workflow_id=id)
        future = self._issue(Child)
        future.id = id
        future.type = definition.name
        future.key = key
        future.digest = shown
        future.hint = definition.result_hint
        future.options = options
        future.parent_close = parent_close
        future.payload = payload
        return future

    def send(
        self, *, to: uuid.UUID | None = None, type: str = "", key: str = "", name: str | None, value: Any
    ) -> Sending:
        """Registers a signal, or (without a name) a request to cancel with its reason, for another workflow. Raises
        `PayloadError` and `KeyInvalid`.
        """
        if name is None:
            if value:
                check_text("reason", value, MAX_REASON_LENGTH)
            payload = wire.dump(value)
            shown = ""
        else:
            check_text("signal name", name, MAX_SIGNAL_NAME_LENGTH)
            born = NOWHERE if to is None else birthplace.signal(to, name)
            sealed = self._codec.encode(value, Any, path="payload", birthplace=born)
            payload = self._codec.opened(sealed, path="payload", birthplace=born)
            shown = digest(payload, self.digest_key)
        future = self._issue(Sending)
        future.to = to
        future.type = type
        future.key = key
        future.name = name
        future.payload = payload
        future.digest = shown
        future.is_awaited = False
        future.is_forgotten = False
        return future

    def withdraw(self, future: CallFuture) -> None:
        """The future was cancelled. If it has no ordinal yet, it leaves no trace; while closing, nothing is
        recorded.
        """
        if not future.ordinal or self.open.pop(future.ordinal, None) is None or not self._loop.is_on:
            return
        handled.mark(self._loop)
        if type(future) is ActivityFuture:
            self.issued.append(CancelActivity(future.ordinal))
        elif type(future) is Child:
            del self.children[future.id]
            self.issued.append(CancelChild(future.ordinal, future.id, asks=future.parent_close not in OUTLIVE))

    def harvest(self) -> list[Asked]:
        """The calls that are still wanted when the loop is idle, in their order. Those that are already over are left
        out.
        """
        issued = self.issued
        if not issued:
            return issued
        self.issued = []
        return [asked for asked in issued if type(asked) not in CALLS or not asked.done()]  # type: ignore[union-attr]

    def number(self, call: Call, ordinal: int) -> None:
        """Gives a call its ordinal; from now on its outcome can be fed, and its arguments are no longer kept here."""
        call.ordinal = ordinal
        call.payload = ""
        self.last_ordinal = max(self.last_ordinal, ordinal)
        if type(call) is Sending and not call.is_awaited:
            call.is_forgotten = True
        elif type(call) is not Child:
            self.open[ordinal] = call
        elif call.parent_close != DETACHED:
            self.open[ordinal] = self.children[call.id] = call

    def open_children(self) -> list[Child]:
        """Those that have been started and not ended, of those that the code has not given up, oldest first. Those that
        were called in this activation are among them.
        """
        new = [asked for asked in self.issued if type(asked) is Child and asked.parent_close != DETACHED]
        return [child for child in [*self.children.values(), *new] if not child.done()]

    def close(self, ordinal: int) -> None:
        """The outcome of a call is being fed."""
        call = self.open.pop(ordinal)
        if type(call) is Child:
            del self.children[call.id]

    def clear(self) -> None:
        """Forgets everything."""
        self.issued.clear()
        self.open.clear()
        self.children.clear()

    def _issue(self, kind: type[C]) -> C:
        if len(self.issued) >= self._limit:
            raise self._loop.halt(
                HistoryFull(f"{FULL}the workflow's code made more than {self._limit:,} calls in one activation.")
            )
        handled.mark(self._loop)
        future = self._loop.call_future(kind)
        future.calls = self
        future.ordinal = 0
        self.issued.append(future)  # type: ignore[arg-type]
        return future

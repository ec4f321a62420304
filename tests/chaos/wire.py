"""A wire between workers and a PostgreSQL server, which a test may cut, or let fall silent."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import PATIENCE

SOCKET = ".s.PGSQL.5432"
CHUNK = 1 << 16


class Wire:
    """Carries bytes from a socket of its own to the server's and back. `folder` is what Django calls HOST."""

    def __init__(self, folder: Path, server: str) -> None:
        self.folder = folder
        self._server = Path(server, SOCKET)
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._ends: set[asyncio.StreamWriter] = set()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()
        assert self._listening.wait(PATIENCE)

    def fall_silent(self) -> None:
        """From now on nothing arrives, at either end, and nobody is told. What is sent waits."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def carry_on(self) -> None:
        """Carry again, what has waited first."""
        self._loop.call_soon_threadsafe(self._open.set)

    def cut(self) -> None:
        """Drop every connection that there is, and what has waited in it. New ones are made as ever."""
        self._loop.call_soon_threadsafe(self._cut)

    def end(self) -> None:
        """Drop all and stop."""
        self._loop.call_soon_threadsafe(self._cut)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        listening = self._loop.run_until_complete(asyncio.start_unix_server(self._serve, self.folder / SOCKET))
        self._listening.set()
        self._loop.run_forever()
        listening.close()
        self._loop.run_until_complete(self._finish())
        self._loop.close()

    async def _finish(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0)  # for the transports that were dropped

    def _cut(self) -> None:
        for end in self._ends:
            end.transport.abort()

    async def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            far, forth = await asyncio.open_unix_connection(self._server)
        except OSError:
            back.transport.abort()
            return
        both = {back, forth}
        self._ends |= both
        try:
            await asyncio.gather(self._pump(near, forth), self._pump(far, back))
        finally:
            self._ends -= both

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        sink.close()


@contextmanager
def wire_to(server: str) -> Iterator[Wire]:
    """A wire to the server whose socket lies in this folder. A socket's path has to be short."""
    with tempfile.TemporaryDirectory(prefix="wire-", dir="/tmp") as folder:
        made = Wire(Path(folder), server)
        try:
            yield made
        finally:
            made.end()

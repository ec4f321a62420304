"""A pooler in transaction mode, as mean as one may be: no two transactions of a client meet the same server session.

It speaks as much of PostgreSQL's protocol as it needs: messages pass through unread, but for their type and length, and
the server's ReadyForQuery, which says that a transaction is over. Whatever belongs to a session (SET, LISTEN, prepared
statements, advisory locks, temporary tables) stays behind with the session that it was said to.
"""

from __future__ import annotations

import asyncio
import struct
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import PATIENCE

SOCKET = ".s.PGSQL.5432"
PROTOCOL, CANCEL = 196608, 80877102
TRACKED = {"client_encoding": "UTF8", "TimeZone": "UTC", "DateStyle": "ISO, MDY"}
"""What real poolers put right for each client; the sessions here begin with it."""

GREETING = b"SKR"
"""Of the server's greeting the client sees its settings and a key, not how the pooler was let in."""


def message(kind: bytes, body: bytes) -> bytes:
    """One message of the protocol."""
    return kind + struct.pack("!I", len(body) + 4) + body


class Session:
    """One physical session with the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.client: Client | None = None
        self.greeting = b""


class Client:
    """One client, between two transactions or in one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.session: Session | None = None
        self.last: Session | None = None
        self.awaited = 0
        """How many ReadyForQuery are still to come."""


Whose = tuple[str, str]
"""User and database."""


class Pooler:
    """Listens on a socket of its own; `folder` is what Django calls HOST."""

    def __init__(self, folder: Path, server: str) -> None:
        self.folder = folder
        self.switches = 0
        """How often a client went on in another session than before."""
        self._server = Path(server, SOCKET)
        self._loop = asyncio.new_event_loop()
        self._idle: dict[Whose, list[Session]] = defaultdict(list)
        self._sessions: dict[Whose, set[Session]] = defaultdict(set)
        self._clients: Counter[Whose] = Counter()
        self._readers: set[asyncio.Task[None]] = set()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pooler", daemon=True)
        self._thread.start()
        assert self._listening.wait(PATIENCE)

    def end(self) -> None:
        """Drop all and stop."""
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
        for whose in list(self._sessions):
            self._close_all(whose)
        await asyncio.sleep(0.01)

    # --- clients ---

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(reader, writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._greet_and_relay(client)
        finally:
            writer.transport.abort()

    async def _greet_and_relay(self, client: Client) -> None:
        [length, code] = struct.unpack("!II", await client.reader.readexactly(8))
        startup = (await client.reader.readexactly(length - 8)).split(b"\0")
        if code != PROTOCOL:
            return  # the cancellation of a statement, which a test has no use for
        given = dict(zip(startup[::2], startup[1::2], strict=False))
        whose = given[b"user"].decode(), given[b"database"].decode()
        self._clients[whose] += 1
        try:
            session = await self._another(whose, client)
            client.writer.write(message(b"R", struct.pack("!I", 0)) + session.greeting + message(b"Z", b"I"))
            self._idle[whose].append(session)
            await self._relay(whose, client)
        finally:
            self._clients[whose] -= 1
            if client.session is not None:
                self._close(whose, client.session)  # its transaction is nobody's any more
            if not self._clients[whose]:
                self._close_all(whose)

    async def _relay(self, whose: Whose, client: Client) -> None:
        while True:
            head = await client.reader.readexactly(5)
            kind, length = head[:1], struct.unpack("!I", head[1:])[0]
            body = await client.reader.readexactly(length - 4)
            if kind == b"X":
                return
            if client.session is None:
                client.session = await self._another(whose, client)
                client.session.client = client
                self.switches += client.last is not None
                client.last = client.session
            client.awaited += kind in (b"Q", b"S", b"F")
            client.session.writer.write(head + body)
            await client.session.writer.drain()

    # --- sessions ---

    async def _another(self, whose: Whose, client: Client) -> Session:
        """An idle session, or a new one, that is not the one of this client's last transaction."""
        idle = self._idle[whose]
        for at, session in enumerate(idle):
            if session is not client.last:
                return idle.pop(at)
        return await self._connect(whose)

    async def _connect(self, whose: Whose) -> Session:
        session = Session(*await asyncio.open_unix_connection(self._server))
        given = {"user": whose[0], "database": whose[1], **TRACKED}
        body = b"".join(f"{name}\0{value}\0".encode() for name, value in given.items()) + b"\0"
        session.writer.write(struct.pack("!II", len(body) + 8, PROTOCOL) + body)
        while True:
            head = await session.reader.readexactly(5)
            whole = head + await session.reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)
            if head[:1] == b"E":
                raise OSError(whole[5:].decode(errors="replace"))
            if head[:1] == b"Z":
                break
            session.greeting += whole if head[:1] in (b"S", b"K") else b""
        self._sessions[whose].add(session)
        task = self._loop.create_task(self._answers(whose, session))
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)
        return session

    async def _answers(self, whose: Whose, session: Session) -> None:
        """Pass on what the server says, to whom the session belongs at that moment; to nobody, if to nobody."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await session.reader.readexactly(5)
                body = await session.reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)
                client = session.client
                if client is None:
                    continue
                client.awaited -= head[:1] == b"Z"
                if head[:1] == b"Z" and body == b"I" and client.awaited == 0:
                    session.client = client.session = None
                    self._idle[whose].append(session)
                client.writer.write(head + body)
        if session.client is not None:
            session.client.session = None
            session.client.writer.transport.abort()
        self._close(whose, session)

    def _close(self, whose: Whose, session: Session) -> None:
        session.client = None
        session.writer.transport.abort()
        self._sessions[whose].discard(session)
        with suppress(ValueError):
            self._idle[whose].remove(session)

    def _close_all(self, whose: Whose) -> None:
        for session in list(self._sessions[whose]):
            self._close(whose, session)


@contextmanager
def pooler_before(server: str) -> Iterator[Pooler]:
    """A pooler before the server whose socket lies in this folder. A socket's path has to be short."""
    with tempfile.TemporaryDirectory(prefix="pooler-", dir="/tmp") as folder:
        made = Pooler(Path(folder), server)
        try:
            yield made
        finally:
            made.end()

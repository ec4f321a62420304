"""What keeps a worker or a command from working with the database, in words, with the cure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from durable.flow.transactions.faults import Fault, classify, origin, sqlstate


@dataclass(frozen=True)
class _Text:
    says: str
    cure: str


class Trouble(Enum):
    """A kind of database error, as far as its cure differs. `says` continues "the claim loop …"."""

    AWAY = _Text("cannot reach the database", "Nothing, if the database comes back: it is tried again.")
    BUSY = _Text(
        "met a lock, a deadlock or a time limit of the database",
        "Nothing, if it is rare: it is tried again. Otherwise see which session holds the lock.",
    )
    FULL = _Text(
        "met a limit of the database server",
        "Free disk space or memory there, or raise the limit that it names.",
    )
    SCHEMA = _Text(
        "does not find its tables or columns in the database",
        "Run `manage.py migrate` with the code that the workers run, against the database that they use.",
    )
    FORBIDDEN = _Text(
        "has no permission in the database",
        "Grant its user SELECT, INSERT, UPDATE and DELETE on the tables of durable, and USAGE on their schema.",
    )
    READ_ONLY = _Text(
        "cannot write to the database, which is read-only",
        "Connect to the primary server and not to a standby; on SQLite, make the file and its folder writable.",
    )
    REFUSED = _Text(
        "had a statement refused by the database",
        "See the error. If nobody has changed the tables of durable, or added triggers, report it as a bug of durable.",
    )

    @property
    def says(self) -> str:
        """What happened, as the end of a sentence."""
        return self.value.says

    @property
    def cure(self) -> str:
        """What to do, as a sentence."""
        return self.value.cure

    @property
    def passes(self) -> bool:
        """Whether it may pass without anybody's help."""
        return self in {Trouble.AWAY, Trouble.BUSY}


_BY_STATE = {
    "42P01": Trouble.SCHEMA,  # undefined table
    "42703": Trouble.SCHEMA,  # undefined column
    "3F000": Trouble.SCHEMA,  # invalid schema name
    "42501": Trouble.FORBIDDEN,
    "25006": Trouble.READ_ONLY,
    "53100": Trouble.FULL,  # disk
    "53200": Trouble.FULL,  # memory
    "53400": Trouble.FULL,  # a limit of the configuration
}
_BY_CODE = {8: Trouble.READ_ONLY, 13: Trouble.FULL}
_BY_FAULT = {Fault.NEW_CONNECTION: Trouble.AWAY, Fault.RETRYABLE: Trouble.BUSY, Fault.PERMANENT: Trouble.REFUSED}
_SQLITE_ERROR = 1
_SQLITE_SCHEMA = ("no such table", "no such column", "has no column named")


def trouble_of(error: BaseException) -> Trouble:
    """Returns what kind of trouble a database error is, by its SQLSTATE or SQLite's code; what neither says, by whether
    it is retried.
    """
    try:
        said = _said(origin(error)[1])
    except BaseException:  # noqa: BLE001 - as in `classify`: its attributes may be the user's code
        said = None
    return said or _BY_FAULT[classify(error)]


def _said(error: BaseException) -> Trouble | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return _BY_STATE.get(sqlstate(error) or "")
    if code == _SQLITE_ERROR and any(text in str(error) for text in _SQLITE_SCHEMA):
        return Trouble.SCHEMA
    return _BY_CODE.get(code & 0xFF)

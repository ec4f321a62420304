"""Hard limits, each with its reason. A project cannot change these; what it can choose is in `durable.conf`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

MAX_NAME_LENGTH: Final = 200
"""Characters of a registered name: the width of the columns that hold it."""

MAX_DEDUP_LENGTH: Final = 200
"""Characters of a signal's `dedup`: it is indexed, and the column holds no more."""

MAX_QUEUE_LENGTH: Final = 100
"""Characters of a queue name: the width of the columns that hold it."""

MAX_PATCH_LENGTH: Final = 200
"""Characters of the id of a patch; it is part of an event, and of the workflow's row."""

MAX_SIGNAL_NAME_LENGTH: Final = 200
"""Characters of a signal name; it is part of an event and of every look at a mailbox."""

MAX_NAME_BYTES: Final = 600
"""Bytes of UTF-8 of a registered name: it shares index entries with business keys."""

MAX_KEY_LENGTH_CEILING: Final = 1_000
"""No setting allows longer business keys."""

MAX_KEY_BYTES: Final = 2_000
"""Bytes of UTF-8 of a business key. An index entry of PostgreSQL takes 2,704 bytes, and that of a key holds the name of
the workflow's type, an id, and some 30 bytes of its own as well. On SQLite the limit is the same, so that a project can
move."""

DEFAULT_KEY_LENGTH: Final = 200
DEFAULT_PAYLOAD_BYTES: Final = 1024 * 1024

MIN_PRIORITY: Final = -32_768
MAX_PRIORITY: Final = 32_767
"""Priorities are a small integer column."""

MAX_COUNT: Final = 2_147_483_647
"""Budgets and counters are integer columns."""

MAX_WORKER_NAME_LENGTH: Final = 180
"""Characters of a worker's name: the width of the columns that hold it, less the number that a supervisor appends."""

MAX_SPAN: Final = timedelta(days=365_000)
"""About a thousand years. A longer span overflows the calendars of Python and of the databases when it is added to a
time, or the columns and doubles in which spans are stored.
"""

LATEST_START: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""No workflow begins later, so that the longest span after it is still on the calendar."""

MAX_PAYLOAD_DEPTH: Final = 100
"""Levels of nesting in one payload. Far below Python's recursion limit, so that whether a value is refused depends on
the value, and not on how deep the caller's stack happens to be."""

MAX_FAILURE_MESSAGE: Final = 10_000
"""Characters of an error's message that are kept."""

MAX_TRACEBACK: Final = 20_000
"""Characters of an error's traceback that are kept: its end, which names the place."""

MAX_REASON_LENGTH: Final = 1_000
"""Characters of a reason that an operator or caller gives."""

MAX_STORED_DEPTH: Final = MAX_PAYLOAD_DEPTH + 20
"""Levels of nesting that are read: those that may be written, plus the wrappers of arguments and unions."""

MAX_INT_DIGITS: Final = 4_300
"""Digits of a whole number: Python's own limit, even if the process has lifted it. The time to convert a number grows
faster than its number of digits."""

DECODE_STEPS: Final = 100_000
"""Values, fields and comparisons that one decode may look at, however small the payload is."""

DECODE_STEPS_PER_VALUE: Final = 32
"""How many more steps a payload gets for each of its values, if it needs them."""

"""Which errors of workflow code count as bugs in it, unless its `@workflow(blocks_on=…)` says otherwise."""

from __future__ import annotations

from typing import Final

from django.core.exceptions import SynchronousOnlyOperation

from durable.errors.usage import NotRegistered, UsageError

CODE_ERRORS: Final[tuple[type[BaseException], ...]] = (
    AttributeError,
    NameError,
    TypeError,
    LookupError,
    ImportError,
    AssertionError,
    NotImplementedError,
    UsageError,
    NotRegistered,
    SynchronousOnlyOperation,
)
"""The default of `blocks_on`. An error that is one of these, and that leaves the workflow's function, blocks the
workflow until its code is repaired. Of the errors of `durable` only those derived from `UsageError` and `NotRegistered`
count, whatever else they derive from.
"""

"""Re-encryption that is broken off before any of its statements: nothing is half-written, and the next run goes on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from durable import testing
from durable.client.find import get_workflow
from tests.client.birthplaces import send
from tests.crypto.rotating import CANARY, WANTED, mentions, reencrypt

pytestmark = pytest.mark.django_db(transaction=True)


class Died(BaseException):
    """This process ends here."""


class DyingBefore:
    """Lets so many statements through, and none after them."""

    def __init__(self, statements: int) -> None:
        self.left = statements

    def __call__(self, execute: Any, *details: Any) -> Any:
        if not self.left:
            raise Died
        self.left -= 1
        return execute(*details)


def test_whatever_statement_it_dies_before_the_next_run_ends_it(keyed: Callable[..., None]) -> None:
    keyed("old")
    handle = send.start(CANARY)
    handle.signal("go", 1)
    testing.drain(until=timedelta(seconds=30))
    handle.signal("go", CANARY)
    keyed("new", "old")
    deaths, stages = 0, [mentions("aes1.new.")]
    while True:
        try:
            with connection.execute_wrapper(DyingBefore(deaths)):
                reencrypt(str(handle.id))
        except Died:
            deaths += 1
            connection.close()
            stages.append(mentions("aes1.new."))
            assert get_workflow(handle.id).status() == "running"
        else:
            break
    assert deaths > 10
    assert len(set(stages)) > 2, "It is written in pieces, and what was written stays."
    assert stages == sorted(stages)
    assert mentions("aes1.old.") == 0
    keyed("new")
    assert testing.run(handle) == WANTED

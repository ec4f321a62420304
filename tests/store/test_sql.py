"""How values travel into statements: what comes back is what was given, whatever it is made of."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import connection

from durable.models.fields import moment_from_database
from durable.store.connections import sql

pytestmark = pytest.mark.django_db

TEXTS = [
    "",
    "plain",
    "NULL",
    "null",
    '"quoted"',
    "it's",
    "back\\slash",
    '\\"both\\"',
    "{a,b}",
    " spaces ",
    "two\nlines\tand a tab",
    "100 % %s %%",
    "ünïcödé 🚚",
    '{"json": "with \\"quotes\\" and \\\\ in it"}',
    None,
]
ROW_SET = sql.RowSet(
    [("place", "int"), ("big", "bigint"), ("given_text", "text"), ("given_id", "uuid"), ("moment", "timestamptz")]
)


def test_rows_of_any_values_arrive_as_they_were_given() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    moments = [datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=zone), datetime(1970, 1, 2, tzinfo=UTC), None]
    given = [
        (place, 2**53 - place, text, None if place % 3 == 2 else uuid.UUID(int=place), moments[place % 3])
        for place, text in enumerate(TEXTS)
    ]
    found = sql.fetch(
        connection,
        f"SELECT place, big, given_text, given_id, {sql.moment(connection, 'moment')} "
        f"FROM {ROW_SET.source(connection)} ORDER BY place",
        ROW_SET.params(connection, given),
    )
    assert [
        (place, big, text, None if owner is None else sql.as_uuid(owner), moment_from_database(moment))
        for place, big, text, owner, moment in found
    ] == given


def test_no_rows_are_no_rows() -> None:
    found = sql.fetch(connection, f"SELECT place FROM {ROW_SET.source(connection)}", ROW_SET.params(connection, []))
    assert found == []


@pytest.mark.parametrize("chosen", [["it's"], ["{a,b}", "NULL", '\\"both\\"'], ["missing"], []])
def test_among_texts_finds_exactly_the_given_ones(chosen: list[str]) -> None:
    condition, params = sql.among(connection, "given_text", chosen)
    rows = [(place, 0, text, None, None) for place, text in enumerate(TEXTS)]
    found = sql.fetch(
        connection,
        f"SELECT given_text FROM {ROW_SET.source(connection)} WHERE {condition}",
        [*ROW_SET.params(connection, rows), *params],
    )
    assert sorted(row[0] for row in found) == sorted(set(chosen) & {text for text in TEXTS if text is not None})


@pytest.mark.parametrize("chosen", [[3, 1], [2**53], []])
def test_among_numbers_finds_exactly_the_given_ones(chosen: list[int]) -> None:
    condition, params = sql.among(connection, "place", chosen)
    rows = [(place, 0, "", None, None) for place in range(5)]
    found = sql.fetch(
        connection,
        f"SELECT place FROM {ROW_SET.source(connection)} WHERE {condition}",
        [*ROW_SET.params(connection, rows), *params],
    )
    assert sorted(row[0] for row in found) == sorted(set(chosen) & set(range(5)))

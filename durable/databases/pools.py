"""Django's connection pools, which handlers use."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.backends.base.base import BaseDatabaseWrapper

from durable.conf import settings
from durable.databases.finding import Finding, refused, warned


def judge(connection: BaseDatabaseWrapper) -> Iterator[Finding]:
    """The findings about the pool of a database that has one."""
    alias, pool = connection.alias, connection.settings_dict["OPTIONS"]["pool"]
    place = f"DATABASES[{alias!r}]"
    options = pool if isinstance(pool, dict) else {}
    if connection.settings_dict["CONN_MAX_AGE"] != 0:
        yield refused(alias, "has a pool and CONN_MAX_AGE, which Django refuses", f"Set {place}['CONN_MAX_AGE'] = 0.")
    try:
        from psycopg_pool import ConnectionPool

        most = ConnectionPool(kwargs={}, open=False, configure=None, check=None, **options).max_size  # as Django does
    except ImportError:
        yield refused(alias, "has a pool, and psycopg_pool is not installed", "pip install 'psycopg[pool]'.")
        return
    except (TypeError, ValueError) as error:
        yield refused(
            alias,
            f"['OPTIONS']['pool'] is {pool!r}: {error}",
            "See the options of psycopg_pool; min_size is 4 by default.",
        )
        return
    if most < settings.concurrency:
        yield warned(
            "durable.W006",
            f"The pool of the database {alias!r} has at most {most} connections, and a worker runs "
            f"{settings.concurrency} handlers at once: handlers that use the database wait for each other, and fail "
            "if that takes too long.",
            f"Set {place}['OPTIONS']['pool'] = {dict(options, max_size=settings.concurrency)!r}, or lower CONCURRENCY.",
        )
    if not connection.settings_dict["CONN_HEALTH_CHECKS"]:
        yield warned(
            "durable.W006",
            f"The pool of the database {alias!r} hands out connections without checking them: after a restart of the "
            "server, each of them fails a handler.",
            f"Set {place}['CONN_HEALTH_CHECKS'] = True.",
        )

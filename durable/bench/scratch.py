"""A database of the benchmark's own, on the server (or the disk) of the one that is measured. The project's is never
touched.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.db import Error as DatabaseFault
from django.db import connections

from durable.errors import ConfigurationError
from durable.worker.loops import notes

PREFIX = "durable_bench_"
_DURABLE_SQLITE = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"


@contextmanager
def scratch(alias: str) -> Iterator[str]:
    """Creates a database with the engine's tables, makes `alias` refer to it inside the block, and removes it
    afterwards.

    Yields its name. Raises `ConfigurationError` if none can be created. DEBUG is off inside: it would keep the text of
    every statement.
    """
    place = _of(alias)
    name = place.make(alias)
    try:
        with entered(alias, name):
            _make_tables(alias)
            yield name
            notes.forget(alias)
    finally:
        place.remove(alias, name)


@contextmanager
def entered(alias: str, name: str, **changes: Any) -> Iterator[None]:
    """Makes `alias` refer to the scratch database `name` inside the block, in this process. `changes` are further
    changes of the entry in `DATABASES`; those of `OPTIONS` are added to the project's.
    """
    before = connections.settings[alias]
    options = {**_options(before, vendor=connections[alias].vendor), **changes.pop("OPTIONS", {})}
    connections[alias].close()
    del connections[alias]
    connections.settings[alias] = {**before, **changes, "NAME": name, "OPTIONS": options}
    debug, django_settings.DEBUG = django_settings.DEBUG, False
    try:
        with chosen(DATABASE=alias):
            yield
    finally:
        django_settings.DEBUG = debug
        connections[alias].close()
        del connections[alias]
        connections.settings[alias] = before


@contextmanager
def chosen(**changes: Any) -> Iterator[None]:
    """Changes keys of `DURABLE` inside the block."""
    before = getattr(django_settings, "DURABLE", {})
    _set({**before, **changes})
    try:
        yield
    finally:
        _set(before)


def _set(value: dict[str, Any]) -> None:
    django_settings.DURABLE = value
    setting_changed.send(sender=scratch, setting="DURABLE", value=value, enter=True)


def _options(database: dict[str, Any], *, vendor: str) -> dict[str, Any]:
    """The project's options; on SQLite with WAL and synchronous FULL, which is what the figures are stated for."""
    options = dict(database.get("OPTIONS", {}))
    if vendor == "sqlite":
        options["init_command"] = "; ".join(filter(None, [options.get("init_command", ""), _DURABLE_SQLITE]))
        options.setdefault("timeout", 20)
    return options


def _make_tables(alias: str) -> None:
    """The tables as the models say. Not by migrations: those of a project's user model may need all of the project."""
    with connections[alias].schema_editor() as editor:
        for model in apps.get_app_config("durable").get_models():
            if not model._meta.proxy:
                editor.create_model(model)


def _of(alias: str) -> _Postgresql | _Sqlite:
    vendor = connections[alias].vendor
    if vendor == "postgresql":
        return _Postgresql()
    if vendor == "sqlite":
        return _Sqlite()
    raise ConfigurationError(f"The database {alias!r} is {vendor}; the engine runs on PostgreSQL and SQLite.")


class _Postgresql:
    """A database on the same server. Its role has to be allowed to make one."""

    def make(self, alias: str) -> str:
        name = f"{PREFIX}{uuid.uuid4().hex[:12]}"
        try:
            with self._server(alias) as cursor:
                cursor.execute(f'CREATE DATABASE "{name}"')
        except DatabaseFault as fault:
            raise ConfigurationError(
                f"No scratch database could be made: {fault}. "
                f"Give the role of {alias!r} the right: ALTER ROLE … CREATEDB."
            ) from fault
        return name

    def remove(self, alias: str, name: str) -> None:
        with self._server(alias) as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _server(self, alias: str) -> Any:
        server: Any = connections[alias]
        return server._nodb_cursor()


class _Sqlite:
    """A file in a folder of its own beside the project's, since another disk has another speed."""

    def make(self, alias: str) -> str:
        configured = Path(str(connections[alias].settings_dict["NAME"]))
        beside = configured.parent if configured.is_absolute() and configured.parent.is_dir() else None
        return str(Path(tempfile.mkdtemp(prefix=PREFIX, dir=beside)) / "scratch.sqlite3")

    def remove(self, alias: str, name: str) -> None:
        shutil.rmtree(Path(name).parent, ignore_errors=True)

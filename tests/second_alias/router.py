"""Sends the engine's tables to an alias of their own, the way a host project would."""

from __future__ import annotations

from typing import Any


class EngineRouter:
    """`durable` lives on `engine`, everything else does not."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "engine" if model._meta.app_label == "durable" else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return self.db_for_read(model)

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return (app_label == "durable") == (db == "engine")

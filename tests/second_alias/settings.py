"""The suite's settings with two aliases: the host's tables on `default`, the engine's on `engine`."""

from __future__ import annotations

from tests.settings import *  # noqa: F403 (the suite's own, with one more alias)
from tests.settings import DATABASES, MAKERS, VENDOR

DATABASES = DATABASES | {"engine": MAKERS[VENDOR]("engine")}
DATABASE_ROUTERS = ["tests.second_alias.router.EngineRouter"]

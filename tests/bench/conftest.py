"""Fixtures of the benchmark's tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def own_processes(subprocess_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of the benchmark start with the suite's settings, on this run's server."""
    from django.conf import settings

    for name, value in subprocess_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(settings, "SETTINGS_MODULE", "tests.settings", raising=False)

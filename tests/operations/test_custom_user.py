"""Operators of a project that has its own user model."""

from __future__ import annotations

import os
import subprocess
import sys

from django.db import connection

from tests.conftest import ROOT


def test_operators_with_uuid_keys_are_audited_and_the_audit_outlives_them() -> None:
    """Faults J2."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.admin.custom_user_settings", "PYTHONPATH": str(ROOT)}
    environment.pop("DURABLE_TEST_NAME", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.operations.custom_user_story"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"audited on {connection.vendor}" in done.stdout

"""The admin works in projects that are made differently."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.contrib.admin import AdminSite
from django.db import connection

from durable.admin import ROOMS, register
from tests.conftest import ROOT


def test_a_project_with_its_own_users_its_own_admin_site_and_no_time_zones() -> None:
    """Faults J1, J2: migrate, admin and audit work, and deleting a user keeps the audit."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.admin.custom_user_settings", "PYTHONPATH": str(ROOT)}
    environment.pop("DURABLE_TEST_NAME", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.admin.custom_user_story"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"all pages opened on {connection.vendor}" in done.stdout


def test_registering_twice_changes_nothing() -> None:
    site = AdminSite(name="other")
    register(site)
    rooms = {model: site.get_model_admin(model) for model in ROOMS}
    register(site)
    assert {model: site.get_model_admin(model) for model in ROOMS} == rooms


def test_a_room_that_a_project_has_replaced_stays_replaced() -> None:
    site = AdminSite(name="other")
    model, room = next(iter(ROOMS.items()))

    class Own(room):  # type: ignore[valid-type, misc]
        list_per_page = 10

    site.register(model, Own)
    register(site)
    assert isinstance(site.get_model_admin(model), Own)


@pytest.mark.django_db
def test_migrations_say_all_that_the_models_say() -> None:
    from django.core.management import call_command

    call_command("makemigrations", "durable", check=True, dry_run=True, verbosity=0)

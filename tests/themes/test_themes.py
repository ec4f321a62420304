"""Staff who use another admin theme see and can do the same. Each theme is a project of its own, in its own process.

The three themes that most projects have are driven on the Django versions that they declare. On any other the theme's
own pages may be broken; there, and on Django's own admin, a page of ours is compared with one of a stock model.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import metadata

import django
import pytest

from tests.browser.conftest import need_a_browser
from tests.conftest import ROOT

PACKAGES = {"unfold": "django-unfold", "grappelli": "django-grappelli", "jazzmin": "django-jazzmin"}
pytestmark = pytest.mark.timeout(900)
DECLARES = f"Framework :: Django :: {django.VERSION[0]}.{django.VERSION[1]}"


def fit_here() -> list[str]:
    """The themes that declare this Django version."""
    return [theme for theme, package in PACKAGES.items() if DECLARES in (metadata(package).get_all("Classifier") or ())]


def in_a_project_of(theme: str, part: str) -> str:
    """Run a part of this folder in a project with this theme; the output of what passed."""
    environment = os.environ | {
        "DURABLE_TEST_THEME": theme,
        "DURABLE_TEST_THEME_PART": part,
        "DJANGO_SETTINGS_MODULE": "tests.themes.settings",
    }
    for name in ("DURABLE_TEST_NAME", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--ds", "tests.themes.settings",
         f"tests/themes/{part}.py"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=840, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    return done.stdout


def test_at_least_two_of_the_themes_declare_this_version() -> None:
    assert len(fit_here()) >= 2


@pytest.mark.parametrize("theme", fit_here())
def test_every_page_is_whole_under_a_theme(theme: str) -> None:
    """Faults K11."""
    assert " passed" in in_a_project_of(theme, "rendered")


@pytest.mark.parametrize("theme", fit_here())
def test_staff_do_their_work_under_a_theme(theme: str) -> None:
    """Faults K11."""
    need_a_browser()
    assert " passed" in in_a_project_of(theme, "driven")


@pytest.mark.parametrize("theme", ["django", *PACKAGES])
def test_a_page_of_ours_stands_in_the_frame_that_a_stock_models_page_has(theme: str) -> None:
    need_a_browser()
    assert " passed" in in_a_project_of(theme, "compared")

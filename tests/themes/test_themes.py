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


OF_THIS_RUN = ("DURABLE_TEST_NAME", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")


def fit_here() -> list[str]:
    """The themes that declare this Django version."""
    return [theme for theme, package in PACKAGES.items() if DECLARES in (metadata(package).get_all("Classifier") or ())]


@pytest.fixture
def left_out(request: pytest.FixtureRequest) -> list[str]:
    """What the second run of `python -m tests` leaves out, it leaves out here, too."""
    return [option for option in ("-m", "not once") if request.config.getoption("markexpr") == "not once"]


def in_a_project_of(theme: str, parts: list[str], left_out: list[str]) -> str:
    """Run parts of this folder in a project with this theme; the output of what passed."""
    environment = os.environ | {"DURABLE_TEST_THEME": theme, "DJANGO_SETTINGS_MODULE": "tests.themes.settings"}
    for name in OF_THIS_RUN:
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--ds", "tests.themes.settings",
         *left_out, *(f"tests/themes/{part}.py" for part in parts)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=840, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    return done.stdout


def test_at_least_two_of_the_themes_declare_this_version() -> None:
    assert len(fit_here()) >= 2


@pytest.mark.parametrize("theme", fit_here())
def test_every_page_is_whole_under_a_theme_and_staff_do_their_work(theme: str, left_out: list[str]) -> None:
    """Faults K11. In one project, since each has to begin with its own database, and with a browser."""
    need_a_browser()
    assert " passed" in in_a_project_of(theme, ["rendered", "compared", "driven"], left_out)


@pytest.mark.parametrize("theme", ["django", *(theme for theme in PACKAGES if theme not in fit_here())])
def test_a_page_of_ours_stands_in_the_frame_that_a_stock_models_page_has(theme: str, left_out: list[str]) -> None:
    need_a_browser()
    assert " passed" in in_a_project_of(theme, ["compared"], left_out)

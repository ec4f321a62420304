"""A page of ours beside one of a stock model, in Chromium: the frame is the theme's, and looks the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from tests.admin.dead_letters import letter
from tests.browser.conftest import Person, browser, browser_is_there, chromium, person  # noqa: F401 - fixtures

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

OF_FORMS = {"submit-row", "grp-open-all", "grp-close-all"}
"""What a theme puts around a form only."""

FRAME = """
const content = document.querySelector('#content, #grp-content-container, .app-content');
return [...document.querySelectorAll('body [id]')].filter(element => !content.contains(element)).map(e => e.id);
"""
_HOME = """
const parents = 'ol, ul, .breadcrumbs';
const link = [...document.querySelectorAll('a')].find(a => a.textContent.trim() === 'Home' && a.closest(parents));
if (!link) return null;
const box = link.closest(parents);
"""
CRUMBS = f"""{_HOME}
const looks = (element, ...names) => names.map(name => getComputedStyle(element)[name]);
return [looks(link, 'color', 'textDecorationLine', 'fontSize'),
    looks(box, 'backgroundColor', 'color', 'paddingLeft', 'paddingRight', 'marginLeft')];
"""
HEIGHT = f"{_HOME} return box.getBoundingClientRect().height;"
BUTTONS = """
return [...document.querySelectorAll('.durable-buttons a.durable-button')].map(element => {
    const style = getComputedStyle(element);
    return [element.textContent.trim(), style.backgroundColor, style.color, style.textDecorationLine];
});
"""


def test_the_frame_and_the_way_to_the_page(person: Callable[..., Person], chromium: Any) -> None:  # noqa: F811
    row, group = letter(), Group.objects.create(name="watch")
    anna = person("redrive_deadletter", "discard_deadletter")
    User.objects.update(is_superuser=True)
    for width in (390, 800, 1280):
        anna.resize(width)
        anna.go(f"/admin/auth/group/{group.pk}/change/")
        stock = [chromium.execute_script(script) for script in (FRAME, CRUMBS, HEIGHT)]
        anna.go(f"/admin/durable/deadletter/{row.pk}/change/")
        anna.sees("This will not be retried until someone acts")
        ours = [chromium.execute_script(script) for script in (FRAME, CRUMBS, HEIGHT)]
        assert set(ours[0]) >= {name for name in stock[0] if name and name not in OF_FORMS}, width
        assert ours[1] == stock[1], width
        assert abs((ours[2] or 0) - (stock[2] or 0)) <= 0.2 * (stock[2] or 0), width


def test_buttons_look_like_buttons(person: Callable[..., Person], chromium: Any) -> None:  # noqa: F811
    row = letter()
    anna = person("redrive_deadletter", "force_redrive_deadletter", "discard_deadletter")
    anna.go(f"/admin/durable/deadletter/{row.pk}/change/")
    looks = chromium.execute_script(BUTTONS)
    assert [name for name, *_rest in looks] == ["Redrive", "Force redrive", "Discard"]
    redrive, force, discard = looks
    assert {look[3] for look in looks} == {"none"}
    clear = "rgba(0, 0, 0, 0)"
    assert redrive[1] != clear
    assert discard[1] not in (clear, redrive[1])
    assert redrive[1] != redrive[2]
    assert discard[1] != discard[2]
    assert force[1] == clear

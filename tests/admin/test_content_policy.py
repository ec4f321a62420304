"""Pages under a strict content security policy: nothing inline, and the nonce of Django's own on all that is loaded."""

from __future__ import annotations

import copy
from html.parser import HTMLParser
from typing import Any

import django
import pytest
from django.test import Client

from tests.admin.conftest import Scene
from tests.admin.dead_letters import choose, letter

pytestmark = pytest.mark.django_db


class Tags(HTMLParser):
    """All start tags of a page with their attributes, and what stands inside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in ("script", "style") and data.strip():
            self.inline.append(data)


def pages(root: Client, scene: Scene) -> dict[str, Tags]:
    """Every kind of page that we have."""
    row = letter()
    workflow = f"/admin/durable/workflow/{scene.workflow.pk}"
    questions = [f"/admin/durable/deadletter/{row.pk}/{action}/" for action in ("redrive", "force_redrive", "discard")]
    verbs = [f"{workflow}/{verb}/" for verb in ("signal", "pause", "cancel", "terminate")]
    urls = [*scene.pages(), *questions, *verbs, "/admin/durable/", "/admin/durable/deadletter/bulk/"]
    read = {url: Tags(root.get(url).text) for url in urls}
    return read | {"a question about many": Tags(choose(root, "redrive").text)}


def test_nothing_is_inline(root: Client, scene: Scene) -> None:
    for url, tags in pages(root, scene).items():
        assert tags.inline == [], url
        for tag, attributes in tags.found:
            assert "style" not in attributes, (url, tag, attributes)
            assert not [name for name in attributes if name.startswith("on")], (url, tag, attributes)


@pytest.mark.skipif(django.VERSION < (6, 1), reason="Django's admin has no nonces yet")
def test_all_that_is_loaded_has_the_nonce_of_djangos_policy(root: Client, scene: Scene, settings: Any) -> None:
    from django.utils.csp import CSP

    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.csp.ContentSecurityPolicyMiddleware"]
    settings.SECURE_CSP = {"default-src": [CSP.SELF], "script-src": [CSP.NONCE], "style-src": [CSP.NONCE]}
    templates = copy.deepcopy(settings.TEMPLATES)
    templates[0]["OPTIONS"]["context_processors"].append("django.template.context_processors.csp")
    settings.TEMPLATES = templates
    for url, tags in pages(root, scene).items():
        loaded = [(tag, attributes) for tag, attributes in tags.found if tag == "script" or _is_style(tag, attributes)]
        assert loaded, url
        assert [attributes for _tag, attributes in loaded if not attributes.get("nonce")] == [], url


def _is_style(tag: str, attributes: dict[str, str | None]) -> bool:
    return tag == "link" and attributes.get("rel") == "stylesheet"

"""What a page says, without its markup."""

from __future__ import annotations

import re

from django.test import Client


def words(client: Client, url: str) -> str:
    """The text of a page without its markup, each run of blanks as one."""
    response = client.get(url)
    assert response.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"</?bdi>", "", response.text))).replace(
        "\N{NO-BREAK SPACE}", " "
    )

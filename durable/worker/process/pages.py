"""What the health port answers to which path: `/metrics`, `/live`, and to every other one whether all is well."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from durable.worker.threads.logs import get_logger

log = get_logger("durable.worker.health")

MOST_OF_A_REPLY: Final = 4 * 1024
"""Bytes of reasons. Every socket takes so many without waiting."""

PLAIN: Final = "text/plain; charset=utf-8"
METRICS: Final = "/metrics"
LIVE: Final = "/live"

_PATH = re.compile(rb"^[A-Za-z]+ ([^ ?\r\n]*)")

Look = Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages that have a path of their own. `live` returns what only a restart can mend, `metrics` the content type
    and the text; None: this process has no metrics.
    """

    live: Look | None = None
    metrics: Callable[[], tuple[str, bytes]] | None = None


NO_PAGES: Final = Pages()


@dataclass(frozen=True, slots=True)
class Reply:
    """One response. With `reasons`, status and body depend on who asks."""

    status: str
    body: str | bytes = ""
    content_type: str = PLAIN
    reasons: Sequence[str] | None = None

    def showing(self, reasons: Sequence[str], *, in_words: bool) -> Reply:
        """Red with reasons, else green; in words only for those who may read them."""
        words = "\n".join(reasons) if in_words else "not ok"
        return replace(self, status="503 Service Unavailable" if reasons else "200 OK", body=words if reasons else "ok")

    def response(self, *, with_body: bool) -> bytes:
        """All bytes of it."""
        body = self.body
        if isinstance(body, str):
            body = body.encode(errors="backslashreplace")[:MOST_OF_A_REPLY] + b"\n"
        head = (
            f"HTTP/1.1 {self.status}\r\nContent-Type: {self.content_type}\r\nContent-Length: {len(body)}\r\n"
            "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (body if with_body else b"")


def path_of(head: bytes) -> str:
    """The path that a request asks for: one of those above, or the empty text for all others."""
    match = _PATH.match(head)
    path = match[1].decode("latin-1") if match else ""
    return path if path in (METRICS, LIVE) else ""


def reply_to(path: str, look: Look, pages: Pages) -> Reply:
    """The response to everybody who asks for this path now."""
    if path == METRICS:
        return _metrics(pages)
    return Reply("", reasons=_seen(pages.live or look if path == LIVE else look))


def _metrics(pages: Pages) -> Reply:
    if pages.metrics is None:
        return Reply("404 Not Found", 'There are no metrics: install "durable-django[metrics]" for this worker.')
    try:
        content_type, text = pages.metrics()
    # Nothing that the values or prometheus_client raise may end the loop that answers health checks.
    except Exception:
        log.exception("health_answer_failed")
        return Reply("500 Internal Server Error", "500 Internal Server Error")
    return Reply("200 OK", text, content_type)


def _seen(look: Look) -> Sequence[str]:
    try:
        return look()
    # If the worker cannot determine its state, callers still get an answer, and it is red.
    except Exception:
        log.exception("health_answer_failed")
        return ["this worker cannot determine its state; its log says why"]

"""A policy that allows nothing inline, for Djangos without one, and a transaction around each request that writes."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

SAFE = ("GET", "HEAD", "OPTIONS")


class ContentSecurityPolicy(MiddlewareMixin):
    """What Django 6 has of its own."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Send the policy with each page."""
        from tests.host.settings import POLICY

        policy = "; ".join(f"{name} {' '.join(values)}" for name, values in POLICY.items())
        response["Content-Security-Policy"] = policy
        return response


class Atomic:
    """As django-reversion's middleware and others do it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Commit what the whole request has written, or nothing after an error."""
        if request.method in SAFE or request.path.startswith(getattr(settings, "NOT_ATOMIC_BELOW", ()) or "nowhere"):
            return self._get_response(request)
        with transaction.atomic():
            response = self._get_response(request)
            if response.status_code >= 500:
                transaction.set_rollback(True)
        return response

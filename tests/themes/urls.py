"""The admin, and what the theme needs beside it."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.urls import include, path

from tests.urls import urlpatterns as plain

urlpatterns: list[Any] = [*plain]
if apps.is_installed("grappelli"):
    urlpatterns.insert(0, path("grappelli/", include("grappelli.urls")))

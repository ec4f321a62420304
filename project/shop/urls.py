"""URLs of the shop."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "shop"
urlpatterns: list[URLPattern] = []

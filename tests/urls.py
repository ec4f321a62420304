"""URLs of the test suite: the admin, and the demo's pages."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("", include("project.shop.urls"))]

"""URLs of the test suite: the admin, and the demo's pages."""

from __future__ import annotations

from django.urls import include, path

from django.contrib import admin

urlpatterns = [path("admin/", admin.site.urls), path("", include("project.shop.urls"))]

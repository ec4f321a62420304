"""URLs of the example project: the admin for staff, the shop for everybody."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

admin.site.site_header = "Shop administration"
admin.site.site_title = "Shop"

urlpatterns = [path("admin/", admin.site.urls), path("", include("project.shop.urls"))]

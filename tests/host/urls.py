"""The desk, the admin, and the collected files, which a server in front would serve."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import path
from django.views.static import serve

from tests.host.desk import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("tickets/", views.open_ticket),
    path("tickets/<int:number>/approve/", views.approve),
    path("assets/<path:path>", serve, {"document_root": settings.STATIC_ROOT}),
]

"""The rooms in an admin site that is not the default one, under a name of its own."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.urls import path

from durable.admin import register

backstage = AdminSite(name="backstage")
register(backstage)

urlpatterns = [path("backstage/", backstage.urls)]

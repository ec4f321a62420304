"""URLs of the shop."""

from __future__ import annotations

from django.urls import path

from project.shop import views

app_name = "shop"
urlpatterns = [
    path("", views.home, name="home"),
    path("orders/", views.orders, name="orders"),
    path("order/", views.order, name="order"),
    path("favicon.ico", views.no_icon),
    path("order/<int:order_id>/courier/", views.courier, name="courier"),
]

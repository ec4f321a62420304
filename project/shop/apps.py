"""App configuration."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """The `shop` app."""

    name = "project.shop"
    label = "shop"
    default_auto_field = "django.db.models.BigAutoField"

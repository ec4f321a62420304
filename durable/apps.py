"""App configuration."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import register
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy

from durable.errors.hiding import hide
from durable.kernel.definitions.naming import label_of_module
from durable.kernel.definitions.registry import registry


class DurableConfig(AppConfig):
    """The `durable` app: when Django is ready, finds the `workflows` and `activities` modules of installed apps."""

    name = "durable"
    verbose_name = gettext_lazy("Durable execution")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Tells the registry Django's labels, and errors what they hide; registers the checks, and imports the
        project's workflows and activities.
        """
        from durable import checks
        from durable.client import hidden
        from durable.tasks import setup
        from durable.transports import fitness

        registry.label_for = label_for
        hide(hidden.names_for_errors)
        checks.install()
        register(setup.check_interface, "durable")
        register(fitness.check_transports, "durable")
        autodiscover_modules("workflows", "activities")
        setup.start()
        if apps.is_installed("django_q"):
            _show_clusters()


def _show_clusters() -> None:
    """Has each process of a django-q2 cluster say that it lives; what that takes is imported in such a process only."""
    from django_q.signals import post_spawn

    post_spawn.connect(_spawned, dispatch_uid="durable")


def _spawned(**signal: Any) -> None:
    from durable.worker.process import cluster

    cluster.spawned(**signal)


def label_for(module: str) -> str:
    """The label of the app that a module belongs to; for one outside all apps, a package of its name."""
    app = apps.get_containing_app_config(module)
    return label_of_module(module) if app is None else app.label

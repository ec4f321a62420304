"""Tasks by their path, which is the name of their activity.

A path comes from a row, and whoever can write rows must not choose what is imported. So a path is looked up in modules
that are imported already; else only in those of the installed apps, of the project's own package, and of
`OPTIONS["modules"]`. And what stands there counts only if it is a `Task` whose own path this is.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from django.apps import apps
from django.conf import settings

from durable.kernel.definitions.registry import registry
from durable.logs import get_logger
from durable.tasks.handlers import TaskActivity
from durable.tasks.interface import InvalidTask, Task

logger = get_logger("durable.tasks")

_named: dict[str, tuple[str, ...]] = {}
"""By the alias of a backend, the modules of its `OPTIONS`."""
_found: dict[str, TaskActivity] = {}


def serve(alias: str, modules: tuple[str, ...]) -> None:
    """From now on the registry finds tasks, also in the modules that this backend names."""
    _named[alias] = modules
    registry.finder = activity_at


def activity_at(path: str) -> TaskActivity | None:
    """The activity of the task at a path. None: there is no task there, or not for a worker."""
    task = task_at(path)
    if task is None:
        return None
    known = _found.get(path)
    if known is None or known.task is not task:
        known = _found[path] = TaskActivity(task)
    return known


def task_at(path: str) -> Task[..., Any] | None:
    """The task at a path."""
    name, _, attribute = path.rpartition(".")
    module = sys.modules.get(name)
    if module is None and is_open(name):
        module = _imported(name)
    # Not by getattr: a module may have a `__getattr__` that imports or computes something.
    task = None if module is None else vars(module).get(attribute)
    return task if isinstance(task, Task) and task.module_path == path else None


def activity_of(task: Task[..., Any]) -> TaskActivity:
    """The activity of a task that is about to be enqueued. Raises `InvalidTask` if no worker would find it."""
    path = task.module_path
    activity = activity_at(path)
    if activity is None or activity.task.func is not task.func:
        raise InvalidTask(
            f"{path!r} does not lead to this task, so no worker would find it. Decorate the function with @task, and "
            "let the task have the function's name, in the function's module."
        )
    module = path.rpartition(".")[0]
    if not is_open(module):
        raise InvalidTask(
            f"The task {path!r} is in the module {module!r}, which workers do not import: it belongs neither to an "
            "installed app nor to the project's package. Move the task to a module of an app, or name the module in "
            f"TASKS[{task.backend!r}]['OPTIONS']['modules']."
        )
    return activity


def is_open(module: str) -> bool:
    """Whether workers import tasks from this module."""
    own = (getattr(settings, "ROOT_URLCONF", None), getattr(settings, "SETTINGS_MODULE", None))
    roots = {name.partition(".")[0] for name in own if name}
    roots |= {config.name for config in apps.get_app_configs()}
    named = {name for names in _named.values() for name in names}
    return module in named or any(module == root or module.startswith(f"{root}.") for root in roots)


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    # The project's code runs at its import, and may raise anything.
    except Exception as error:
        if not (isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")):
            logger.error("tasks.module_not_imported", module=name, exc_info=error)
        return None

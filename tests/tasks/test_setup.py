"""The start of a process, the system checks, and projects with and without a task interface."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import django
import pytest
from django.core.checks import Error
from django.db import connection
from django.test import override_settings

from durable import Retry
from durable.tasks import setup
from tests.architecture.source import ROOT
from tests.house.foreign import BLOCK, NAMED, ForeignProject
from tests.tasks.conftest import TASKS
from tests.tasks.interface import PACKAGE, task_backends

MODELS = """
from django.db import models
from PACKAGE import task


class Letter(models.Model):
    text = models.TextField()


@task
def in_models(number):
    return number + Letter.objects.count()
"""

JOBS = """
from PACKAGE import task


@task(takes_context=True)
def send(context, address, *, copies=1):
    print(f"sending to {address}")
    return [address, copies, context.attempt]


@task
def lose():
    raise ValueError("no such street")
"""

ENQUEUE = """
from shop.models import in_models
from shop.letters import lose, send

print(send.enqueue("Ada", copies=2).id, lose.enqueue().id, in_models.enqueue(1).id)
"""

READ = """
from shop.models import in_models
from shop.letters import lose, send

sent, lost, counted = IDS
result = send.get_result(sent)
print(result.status, result.return_value, result.attempts, len(result.worker_ids))
failed = lose.get_result(lost)
print(failed.status, failed.errors[0].exception_class.__name__, failed.errors[0].traceback.splitlines()[-1])
print(in_models.get_result(counted).return_value)
"""


class Newcomer(ForeignProject):
    """A project that adds the settings line, and knows nothing else of the engine."""

    def __init__(self, folder: Path, database: str) -> None:
        super().__init__(folder, database)
        self.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])

    def configure(self) -> None:
        """The lines of settings."""
        lines = "INSTALLED_APPS += ['durable']\nTASKS = {'default': {'BACKEND': 'durable.tasks.DurableBackend'}}\n"
        self.append("mysite/settings.py", lines)

    def script(self, text: str) -> list[str]:
        """What `manage.py shell` prints for a script."""
        return self.run("manage.py", "shell", "-v", "0", "-c", text).strip().splitlines()


@pytest.fixture
def newcomer(tmp_path: Path, transactional_db: None) -> Newcomer:
    name = f"newcomer_{os.getpid()}"
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")
            cursor.execute(f"CREATE DATABASE {name}")
    project = Newcomer(tmp_path, name)
    project.make()
    project.append("mysite/settings.py", "INSTALLED_APPS += ['shop']\n")
    return project


def test_the_settings_line_is_all_that_a_project_needs(newcomer: Newcomer) -> None:
    """Tasks in a module of any name, and in `models`, which is imported before there are models."""
    newcomer.configure()
    (newcomer.folder / "shop/models.py").write_text(MODELS.replace("PACKAGE", PACKAGE))
    (newcomer.folder / "shop/letters.py").write_text(JOBS.replace("PACKAGE", PACKAGE))
    newcomer.run("manage.py", "makemigrations", "shop")
    newcomer.run("manage.py", "migrate")
    newcomer.run("manage.py", "check", "--fail-level", "ERROR")
    ids = newcomer.script(ENQUEUE)[-1].split()
    assert len(ids) == 3
    assert "sending to Ada" in newcomer.run("manage.py", "runworker", "--burst")
    assert newcomer.script(READ.replace("IDS", repr(ids)))[-3:] == [
        "SUCCESSFUL ['Ada', 2, 1] 1 1",
        "FAILED ValueError ValueError: no such street",
        "1",
    ]


def test_modules_called_tasks_and_those_of_the_options_are_imported_at_the_start(newcomer: Newcomer) -> None:
    newcomer.configure()
    (newcomer.folder / "shop/tasks.py").write_text(JOBS.replace("PACKAGE", PACKAGE))
    (newcomer.folder / "letters.py").write_text(JOBS.replace("PACKAGE", PACKAGE))
    newcomer.append("mysite/settings.py", "TASKS['default']['OPTIONS'] = {'modules': ['letters']}\n")
    look = "import sys; print(*[name in sys.modules for name in ('shop.tasks', 'letters')])"
    assert newcomer.script(look)[-1] == "True True"
    newcomer.append("mysite/settings.py", "del TASKS\n")
    assert newcomer.script(look)[-1] == "False False"


def blocks_of_the_page() -> list[tuple[str, str]]:
    """The fenced blocks of the page, as (language, text), for the interface of this Django."""
    text = (ROOT / "docs/django-tasks.md").read_text(encoding="utf-8").replace("from django.tasks ", f"from {PACKAGE} ")
    return BLOCK.findall(text)


def test_the_page_works_word_for_word(newcomer: Newcomer) -> None:
    settings, _, tasks, enqueue, read, options, tests = [text for language, text in blocks_of_the_page()]
    for text in (settings, tasks, options, tests):
        named = NAMED.match(text)
        assert named is not None
        newcomer.append(named[1], named[2])
    newcomer.run("manage.py", "migrate")
    newcomer.run("manage.py", "check", "--fail-level", "ERROR")
    result_id = newcomer.script(enqueue)[-1]
    newcomer.run("manage.py", "runworker", "--burst")
    assert newcomer.script(f"id = {result_id!r}\n{read}")[-1] == "SUCCESSFUL 1 [] sent for 42"
    newcomer.run("manage.py", "test", "shop")


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python with the settings of this suite, on a database that it does not touch."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"} | environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


START = "import django; django.setup(); import sys; "


def test_a_project_without_the_backend_imports_nothing_of_it() -> None:
    look = f"print(sorted(name for name in sys.modules if name.startswith(({PACKAGE!r}, 'durable.tasks.'))))"
    done = run(START + look)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['durable.tasks.available', 'durable.tasks.setup']"


NO_INTERFACE = """
import sys
from importlib.machinery import PathFinder

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "django_tasks":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "django_tasks" else real(name, *rest)
sys.meta_path.insert(0, Nothing())
import django
django.VERSION = (5, 2, 0, "final", 0)
from django.conf import settings
settings.TASKS = {"default": {"BACKEND": "durable.tasks.DurableBackend"}}
django.setup()
"""


def test_without_a_task_interface_the_check_says_what_is_missing() -> None:
    check = "from durable.tasks.setup import check_interface; print(*[(m.id, m.hint) for m in check_interface(None)])"
    done = run(NO_INTERFACE + check)
    assert done.returncode == 0, done.stderr
    assert "durable.E013" in done.stdout
    assert "durable-django[tasks]" in done.stdout


def test_without_a_task_interface_using_the_backend_says_what_is_missing() -> None:
    done = run(NO_INTERFACE + "from durable.tasks import DurableBackend")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("durable.errors.ConfigurationError")
    assert "durable-django[tasks]" in done.stderr


def test_without_a_task_interface_everything_else_works() -> None:
    done = run(NO_INTERFACE + "import durable.tasks; print([n for n in sys.modules if 'django_tasks' in n])")
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_the_interface_is_djangos_own_from_six_on() -> None:
    from durable.tasks.interface import BaseTaskBackend

    assert BaseTaskBackend.__module__.partition(".backends")[0] == PACKAGE
    assert ("django.tasks" if django.VERSION >= (6, 0) else "django_tasks") == PACKAGE


# --- checks ---


def messages(**options: Any) -> list[Any]:
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": options}}):
        return list(task_backends["default"].check())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"retry": Retry(max_attempts=3)},
        {"retry": {"*": Retry(), "tests.tasks.jobs.note": Retry(max_attempts=9)}},
        {"modules": ["tests.tasks.jobs"]},
        {"modules": ("tests.tasks.jobs",)},
    ],
    ids=str,
)
def test_the_checks_have_nothing_to_say_of_right_options(options: Any) -> None:
    assert messages(**options) == []


@pytest.mark.parametrize(
    ("options", "fault", "cure"),
    [
        ({"retries": Retry()}, "'retries'", "'retry' and 'modules'"),
        ({"retry": 3}, "is 3", "durable.Retry"),
        ({"retry": {"tests.tasks.jobs.note": 3}}, "note", "durable.Retry"),
        ({"retry": {3: Retry()}}, "3", "durable.Retry"),
        ({"retry": {"tests.tasks.jobs.nothing": Retry()}}, "tests.tasks.jobs.nothing", "module_path"),
        ({"modules": "tests.tasks.jobs"}, "'tests.tasks.jobs'", "list"),
        ({"modules": [3]}, "[3]", "list"),
    ],
    ids=str,
)
def test_the_checks_name_what_is_wrong_and_what_to_write(options: Any, fault: str, cure: str) -> None:
    [message] = messages(**options)
    assert isinstance(message, Error)
    assert message.id == "durable.E014"
    assert fault in message.msg
    assert "TASKS['default']['OPTIONS']" in message.msg
    assert cure in str(message.hint)


def test_options_that_are_no_dict_are_named() -> None:
    with override_settings(TASKS={"default": {**TASKS["default"], "OPTIONS": "retry"}}):
        [message] = task_backends["default"].check()
    assert message.id == "durable.E014"


def test_the_checks_miss_the_app() -> None:
    with override_settings(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"]):
        [message] = task_backends["default"].check()
    assert message.id == "durable.E015"
    assert "INSTALLED_APPS" in str(message.hint)


def test_a_backend_that_cannot_be_imported_does_not_stop_the_start() -> None:
    with override_settings(TASKS={"default": {"BACKEND": "nowhere.Backend"}, "other": "nonsense", "third": {}}):
        setup.start()
        assert setup.check_interface(None) == []


def test_a_subclass_of_the_backend_counts_as_one() -> None:
    with override_settings(TASKS={"default": {"BACKEND": f"{__name__}.Mine"}}):
        assert list(setup._aliases_of_ours()) == ["default"]  # what it finds shows in a later process only


def __getattr__(name: str) -> Any:
    if name == "Mine":
        from durable.tasks import DurableBackend

        return type("Mine", (DurableBackend,), {})
    raise AttributeError(name)

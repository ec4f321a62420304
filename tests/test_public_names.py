"""What `durable` exports is exactly what can be imported."""

from __future__ import annotations

import subprocess
import sys

import durable
from durable import errors, operations


def test_the_list_is_sorted_and_everything_on_it_is_there():
    assert durable.__all__ == sorted(durable.__all__, key=lambda name: (not name.isupper(), name))
    assert operations.__all__ == sorted(operations.__all__)
    space: dict[str, object] = {}
    exec("from durable import *", space)
    assert set(durable.__all__) <= set(space)
    assert set(durable.__all__) <= set(dir(durable))


def test_nothing_public_is_there_that_is_not_on_the_list():
    code = (
        "import durable, types, durable.errors\n"
        "print(*sorted(n for n, v in vars(durable).items() if not n.startswith('_') and n not in durable.__all__"
        " and not isinstance(v, types.ModuleType)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert set(answer.stdout.split()) == {"TYPE_CHECKING", "Any", "annotations"}


def test_every_error_that_callers_meet_is_exported():
    """Refusals of redrive go with `durable.operations`; the rest never leaves the engine."""
    inside = {"PoisonTurn", "StackExhausted", "TokenMissing", "TransactionLeftOpen", "TransactionSpoilt"}
    expected = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, errors.DurableError)
        and not issubclass(value, errors.RedriveRefused)
    }
    assert expected - inside == {name for name in durable.__all__ if name in expected}


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(durable, "redrive")


def test_importing_it_imports_no_django_model():
    code = "import durable, sys\nprint('durable.models' in sys.modules, 'django.db.models' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert answer.stdout.split() == ["False", "False"]

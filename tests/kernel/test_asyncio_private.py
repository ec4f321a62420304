"""What the kernel uses of asyncio beyond its documentation: it fits this Python, and nobody else notices."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from typing import Any

import pytest

from durable.errors import ConfigurationError
from durable.kernel.loop import asyncio_private
from tests.kernel.harness import play

SPAWNED = 30


def test_asyncio_of_this_python_fits() -> None:
    assert asyncio_private.misfits() == ()
    asyncio_private.refuse_unfit()


def test_trying_it_out_inside_a_running_loop_leaves_that_loop_and_its_task_alone() -> None:
    async def host() -> None:
        before = asyncio.get_running_loop(), asyncio.current_task()
        assert asyncio_private.misfits() == ()
        assert (asyncio.get_running_loop(), asyncio.current_task()) == before

    asyncio.run(host())


def test_importing_durable_replaces_nothing_of_asyncio() -> None:
    program = """
import asyncio, asyncio.tasks, asyncio.events, asyncio.futures, asyncio.base_events

def everything():
    for module in (asyncio, asyncio.tasks, asyncio.events, asyncio.futures, asyncio.base_events):
        for name, value in vars(module).items():
            if name != "__warningregistry__":
                yield module.__name__, name, id(value)
            if isinstance(value, type) and value.__module__.partition(".")[0] in ("asyncio", "_asyncio"):
                yield from ((name, inner, id(held)) for inner, held in list(vars(value).items()))

before = set(everything())
import durable, durable.kernel.replay.execution
print(sorted(set(everything()) ^ before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SPAWNED, check=True)
    assert done.stdout.strip() == "[]", done.stdout


def test_a_gathering_of_another_loop_is_asyncios_own_also_while_workflows_run() -> None:
    async def flow() -> str:
        return type(asyncio.gather(asyncio.sleep(0))).__name__

    async def host() -> type:
        gathering = asyncio.gather(asyncio.sleep(0))
        play(flow)
        await gathering
        return type(gathering)

    assert play(flow).result == "GatheringFuture"
    assert asyncio.run(host()).__module__ == "asyncio.tasks"


def test_a_gathering_of_a_workflow_is_still_one_of_asyncios() -> None:
    """Cancelling it cancels its parts, which only its own class does."""

    async def flow() -> list[Any]:
        parts = [asyncio.create_task(asyncio.sleep(60)) for _ in range(2)]
        gathering = asyncio.gather(*parts)
        gathering.cancel()
        await asyncio.gather(gathering, return_exceptions=True)
        return [part.cancelled() for part in parts]

    assert play(flow).result == [True, True]


@pytest.mark.parametrize(
    ("name", "otherwise", "said"),
    [
        ("GATHERING", (lambda: None).__code__, "asyncio.gather"),
        ("number_gathering", lambda asking, number: None, "asyncio.gather"),
        ("unseen_error", lambda task: task.exception(), "marked as seen"),
        ("unseen_error", lambda task: task._no_such_name, "marked as seen"),
        ("_AS_COMPLETED", (), "as_completed"),
        ("enter_task", lambda loop, task: None, "current task"),
    ],
    ids=[
        "other code asks",
        "nothing is numbered",
        "looking marks",
        "no such name",
        "other functions",
        "no task is set",
    ],
)
def test_a_python_whose_asyncio_does_otherwise_is_refused_with_what_it_does(
    monkeypatch: pytest.MonkeyPatch, name: str, otherwise: Any, said: str
) -> None:
    monkeypatch.setattr(asyncio_private, name, otherwise)
    (text,) = asyncio_private.misfits()
    assert said in text
    with pytest.raises(ConfigurationError, match=said):
        asyncio_private.refuse_unfit()


def test_a_python_that_lacks_a_name_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(asyncio.tasks, "_GatheringFuture")
    monkeypatch.delitem(sys.modules, asyncio_private.__name__)
    with pytest.raises(ImportError, match=r"durable does not fit Python .*_GatheringFuture"):
        importlib.import_module(asyncio_private.__name__)

"""What a workflow can not have is refused at the call, with the cure."""

from __future__ import annotations

import asyncio
import signal as os_signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable.errors import InsideWorkflow, OutsideWorkflow
from tests.kernel.harness import echo, play


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def _nothing() -> None:
    pass


REFUSED: dict[str, Callable[[], Any]] = {
    "to_thread": lambda: asyncio.to_thread(print),
    "run_in_executor": lambda: _loop().run_in_executor(None, print),
    "open_connection": lambda: asyncio.open_connection("localhost", 1),
    "start_server": lambda: asyncio.start_server(print, "localhost", 1),
    "getaddrinfo": lambda: _loop().getaddrinfo("localhost", 1),
    "sock_recv": lambda: _loop().sock_recv(None, 1),  # type: ignore[arg-type]
    "subprocess": lambda: asyncio.create_subprocess_exec("true"),
    "shell": lambda: asyncio.create_subprocess_shell("true"),
    "add_reader": lambda: _loop().add_reader(0, print),
    "set_task_factory": lambda: _loop().set_task_factory(asyncio.Task),  # type: ignore[arg-type]
    "set_exception_handler": lambda: _loop().set_exception_handler(None),
    "set_debug": lambda: _loop().set_debug(True),
    "signal handler": lambda: _loop().add_signal_handler(os_signal.SIGTERM, print),
    "run_until_complete": lambda: _loop().run_until_complete(_nothing()),
    "stop": lambda: _loop().stop(),
    "close": lambda: _loop().close(),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_call_to_the_outside_is_refused_with_the_cure(call: Callable[[], Any]) -> None:
    async def flow() -> str:
        try:
            answer = call()
            if isinstance(answer, Awaitable):
                await answer
        except InsideWorkflow as error:
            return str(error)
        return "accepted"

    text = play(flow).result
    assert "cannot be used inside workflow code" in text
    assert any(cure in text for cure in ("activity", "engine", "replay", "signal"))


def test_asyncio_run_raises() -> None:
    async def flow() -> str:
        inner = _nothing()
        try:
            asyncio.run(inner)
        except RuntimeError as error:
            inner.close()
            return str(error)
        return "accepted"

    assert "running event loop" in play(flow).result


def test_as_completed_over_bare_coroutines_is_refused_with_advice_and_without_warnings() -> None:
    async def child(value: int) -> Any:
        return await echo.execute(value)

    async def flow() -> str:
        try:
            for first in asyncio.as_completed([child(1), child(2), child(3)]):
                await first
        except InsideWorkflow as error:
            return str(error)
        return "accepted"

    assert "create_task" in play(flow).result


def test_coroutines_go_into_gather_and_ensure_future() -> None:
    async def child(value: int) -> int:
        return value

    async def flow() -> list[int]:
        return [*await asyncio.gather(child(1), child(2)), await asyncio.ensure_future(child(3))]

    assert play(flow).result == [1, 2, 3]


def test_eager_task_is_refused() -> None:
    async def flow() -> str:
        try:
            _loop().create_task(_nothing(), eager_start=True)  # type: ignore[call-arg]
        except InsideWorkflow as error:
            return str(error)
        return "accepted"

    assert "eager" in play(flow).result


def test_result_from_another_thread_is_refused() -> None:
    async def flow() -> list[str]:
        loop, refused = _loop(), []

        def foreign() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except InsideWorkflow as error:
                refused.append(str(error))
            try:
                echo.execute(1)
            except OutsideWorkflow as error:
                refused.append(str(error))

        thread = threading.Thread(target=foreign)
        thread.start()
        thread.join()
        return refused

    first, second = play(flow).result
    assert "another thread" in first
    assert "works only inside a running workflow" in second


def test_call_soon_threadsafe_of_the_own_thread_is_call_soon() -> None:
    async def flow() -> list[str]:
        seen: list[str] = []
        _loop().call_soon_threadsafe(seen.append, "called")
        await asyncio.sleep(0)
        return seen

    assert play(flow).result == ["called"]


def test_loop_answers_what_asyncio_asks_it() -> None:
    async def flow() -> list[Any]:
        loop = _loop()
        return [
            loop.get_debug(),
            loop.is_running(),
            loop.is_closed(),
            loop.get_task_factory(),
            loop.get_exception_handler(),
        ]

    assert play(flow).result == [False, True, False, None, None]

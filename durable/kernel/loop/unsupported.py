"""What other event loops offer and a workflow cannot have; each call is refused with the cure."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from types import CoroutineType
from typing import Any, NoReturn

from durable.errors import InsideWorkflow
from durable.kernel.loop.asyncio_private import unordered_of

_ACTIVITY = "Its outcome would differ at every replay: do it in an activity, and await `.execute(...)`."
_ENGINE = "The engine runs this loop: it begins and ends with the workflow's turn."
_SETTING = "A replay has to run under the same loop: it cannot be configured."
_SIGNALS = "Signals of the operating system are the worker's; a workflow waits with `durable.wait_for_signal(name)`."

_REFUSED: dict[str, tuple[str, ...]] = {
    _ACTIVITY: (
        *("run_in_executor", "getaddrinfo", "getnameinfo"),
        *("create_connection", "create_server", "create_unix_connection", "create_unix_server"),
        *("create_datagram_endpoint", "connect_accepted_socket", "start_tls", "sendfile"),
        *("sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into", "sock_sendall", "sock_sendto"),
        *("sock_connect", "sock_accept", "sock_sendfile"),
        *("add_reader", "remove_reader", "add_writer", "remove_writer"),
        *("connect_read_pipe", "connect_write_pipe", "subprocess_exec", "subprocess_shell"),
    ),
    _ENGINE: (
        *("run_forever", "run_until_complete", "stop", "close"),
        *("shutdown_asyncgens", "shutdown_default_executor"),
    ),
    _SETTING: ("set_task_factory", "set_default_executor", "set_exception_handler", "set_debug"),
    _SIGNALS: ("add_signal_handler", "remove_signal_handler"),
}

_SPOKEN = {
    "run_in_executor": "A thread or executor (asyncio.to_thread, loop.run_in_executor)",
    "subprocess_exec": "A subprocess (asyncio.create_subprocess_exec)",
    "subprocess_shell": "A subprocess (asyncio.create_subprocess_shell)",
    "create_connection": "A network connection (asyncio.open_connection, loop.create_connection)",
    "create_server": "A network server (asyncio.start_server, loop.create_server)",
}


class RefusingLoop(asyncio.AbstractEventLoop):
    """An event loop whose every call to the outside raises `InsideWorkflow`."""


def _refusal(name: str, advice: str) -> Callable[..., NoReturn]:
    def refuse(self: asyncio.AbstractEventLoop, *args: Any, **kwargs: Any) -> NoReturn:
        for argument in args:
            close_unstarted(argument)
        raise InsideWorkflow(_SPOKEN.get(name, f"The event loop's {name}()"), advice)

    refuse.__name__ = name
    return refuse


for _advice, _names in _REFUSED.items():
    for _name in _names:
        setattr(RefusingLoop, _name, _refusal(_name, _advice))


def close_unstarted(value: Any) -> None:
    """Closes a coroutine that will not run, and the coroutines that it would have awaited, to avoid warnings."""
    if not isinstance(value, CoroutineType) or inspect.getcoroutinestate(value) != inspect.CORO_CREATED:
        return
    held = [] if value.cr_frame is None else list(value.cr_frame.f_locals.values())
    value.close()
    for inner in held:
        for item in inner if isinstance(inner, list | tuple | set) else (inner,):
            close_unstarted(item)


def refuse_unordered(coro: Any) -> None:
    """Refuses `as_completed` over bare coroutines: it makes its tasks in the order of a set of addresses.

    Called for each new task; looks further only when the task is made by `ensure_future`.
    """
    unordered = unordered_of(sys._getframe(2))
    if unordered is None:
        return
    for awaitable in unordered:
        close_unstarted(awaitable)
    close_unstarted(coro)
    raise InsideWorkflow(
        "asyncio.as_completed over bare coroutines",
        "It would start them in the order of their addresses. Make tasks first: "
        "asyncio.as_completed([asyncio.create_task(c) for c in coroutines]).",
    )

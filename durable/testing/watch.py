"""Watching what workflow code really calls: clocks, randomness, files, network, threads.

The system check reads the source; this sees the calls themselves, under any name and at any depth. It needs a hook on
every call, so it is only for replays in tests.
"""

from __future__ import annotations

import _thread
import builtins
import datetime as dt
import gc
import os
import random
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from durable.conf import settings
from durable.kernel.definitions.purity import ADVICE
from durable.testing.errors import Impure

_TIME = (
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
    "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "sleep",
)  # fmt: skip
_OS = (
    "urandom", "getrandom", "open", "stat", "lstat", "listdir", "scandir", "mkdir", "remove", "unlink", "rename",
    "replace", "rmdir", "system", "fork",
)  # fmt: skip
_SOCKET = ("create_connection", "create_server", "getaddrinfo", "gethostbyname", "socketpair")


def _builtin_calls() -> dict[Any, str]:
    described: dict[Any, str] = {builtins.open: "builtins.open", _thread.start_new_thread: "threading.Thread.start"}
    for module, names in ((time, _TIME), (os, _OS), (socket, ("gethostbyname",))):
        for name in names:
            if hasattr(module, name):
                described[getattr(module, name)] = f"{module.__name__}.{name}"
    for name in ("now", "utcnow", "today"):
        described[getattr(dt.datetime, name)] = f"datetime.datetime.{name}"
    described[dt.date.today] = "datetime.date.today"
    for name in ("random", "getrandbits"):
        described[getattr(random, name)] = f"random.{name}"
    return described


def _python_calls() -> dict[int, str]:
    """By the identity of the code object: comparing code objects is slow, and equal code in two places would match."""
    named: dict[str, Any] = {
        "uuid.uuid1": uuid.uuid1,
        "uuid.uuid4": uuid.uuid4,
        "socket.socket": socket.socket.__init__,
        "threading.Thread.start": threading.Thread.start,
        "subprocess.Popen": subprocess.Popen.__init__,
    }
    for name in _SOCKET:
        named[f"socket.{name}"] = getattr(socket, name, None)
    codes = {name: getattr(function, "__code__", None) for name, function in named.items()}
    return {id(code): name for name, code in codes.items() if isinstance(code, CodeType)}


_BUILTINS = _builtin_calls()
_CODES = _python_calls()
_GLOBAL_RANDOM = random.random.__self__  # type: ignore[attr-defined]
_RANDOM_FILE = random.Random.seed.__code__.co_filename

_HARMLESS = frozenset(
    {"logging", "structlog", "warnings", "traceback", "linecache", "importlib", "inspect", "zipimport"}
)
"""Packages whose own calls change nothing that the workflow could see: they log, or load code."""

_STANDARD = tuple(str(Path(sysconfig.get_paths()[name])) for name in ("stdlib", "platstdlib"))
_PACKAGES = ("site-packages", "dist-packages")
_OURS = "durable."


class _Watch:
    """The hook of one replay. The first finding counts; it is also raised at once, so that the call is not made."""

    def __init__(self, codec: type) -> None:
        self.found: Impure | None = None
        self._codec = codec

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            name = _BUILTINS.get(argument)
            caller: FrameType | None = frame
        elif event == "call":
            name = _CODES.get(id(frame.f_code)) or _of_random(frame)
            caller = frame.f_back
        else:
            return
        if name is None or self.found is not None:
            return
        culprit = _culprit(caller, self._codec)
        if culprit is not None:
            self.found = Impure(
                call=name.removeprefix("builtins."),
                function=culprit.f_code.co_qualname,
                file=culprit.f_code.co_filename,
                line=culprit.f_lineno,
                advice=_advice(name),
            )
            raise self.found


@contextmanager
def watching() -> Iterator[None]:
    """Raises `Impure` for the first call in workflow code that a replay cannot repeat, at the end of the block at the
    latest.
    """
    watch = _Watch(type(settings.codec()))
    collects = gc.isenabled()
    gc.disable()  # callbacks of the garbage collector run anywhere, and are not workflow code
    before, before_in_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(watch)  # a deep caller's replay runs in a thread of its own
    sys.setprofile(watch)
    try:
        yield
    # Whatever the outcome, the call is reported.
    except BaseException as error:
        if watch.found is not None and error is not watch.found:
            raise watch.found from error
        raise
    finally:
        sys.setprofile(before)
        threading.setprofile(before_in_threads)
        if collects:
            gc.enable()
    if watch.found is not None:
        raise watch.found


def _of_random(frame: FrameType) -> str | None:
    """Functions of `random` are methods of one hidden object; a `Random()` without a seed is not repeatable either."""
    code = frame.f_code
    if code.co_filename != _RANDOM_FILE:
        return None
    owner = frame.f_locals.get("self")
    if owner is _GLOBAL_RANDOM and not code.co_name.startswith("_"):
        return f"random.{code.co_name}"
    if code.co_name == "seed" and frame.f_locals.get("a") is None and isinstance(owner, random.Random):
        return "random.Random"
    return None


def _culprit(frame: FrameType | None, codec: type) -> FrameType | None:
    """The nearest code of the project between the call and the engine, else of a package. None if there is neither.

    The engine makes none of these calls for a workflow, so a call without other code in between is its own; and a codec
    that encrypts needs randomness, which the workflow never sees.
    """
    package: FrameType | None = None
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in _HARMLESS or "importlib" in module:
            return None
        if module.startswith(_OURS) and not module.startswith("durable.testing"):
            return package
        if module.startswith("durable.testing"):
            return None
        file = frame.f_code.co_filename
        if any(name in file for name in _PACKAGES):
            package = package or frame
        elif not file.startswith((*_STANDARD, "<frozen")):
            return None if type(frame.f_locals.get("self")) is codec else frame
        frame = frame.f_back
    return None


def _advice(name: str) -> str:
    if name == "random.Random":
        return "Give it a seed that replays, such as durable.random()."
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        advice = ADVICE.get(".".join(parts[:length]))
        if advice:
            return advice
    return "Do it in an activity."

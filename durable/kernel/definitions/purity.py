"""Searches the source of workflow code for what a replay cannot repeat: clocks, randomness, files, network, threads.

The source shows the common mistakes, not all; `durable.testing` watches the real calls while it replays.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from durable.kernel.definitions.definition import ActivityDefinition

_CLOCK = "Use durable.now(), which replays."
_RANDOM = "Use durable.random() or durable.uuid4(), which replay."
_SLEEP = "Use `await durable.sleep(...)`, which survives a restart."
_EFFECT = "Do it in an activity, and await its .execute(...)."
_THREAD = "Workflow code runs on one thread, on the engine's loop; do it in an activity."

ADVICE: dict[str, str] = {
    "time.sleep": _SLEEP,
    "time": _CLOCK,
    "datetime.datetime.now": _CLOCK,
    "datetime.datetime.utcnow": _CLOCK,
    "datetime.datetime.today": _CLOCK,
    "datetime.date.today": _CLOCK,
    "django.utils.timezone.now": _CLOCK,
    "django.utils.timezone.localtime": _CLOCK,
    "django.utils.timezone.localdate": _CLOCK,
    "random.Random": "",
    "random": _RANDOM,
    "secrets": _RANDOM,
    "uuid.uuid1": _RANDOM,
    "uuid.uuid4": _RANDOM,
    "os.urandom": _RANDOM,
    "os.path": "Only pure functions of paths replay. " + _EFFECT,
    "os": _EFFECT,
    "builtins.open": _EFFECT,
    "builtins.input": _EFFECT,
    "builtins.print": "Use durable.logger, which is silent in replay.",
    "io.open": _EFFECT,
    "pathlib.Path.open": _EFFECT,
    "shutil": _EFFECT,
    "tempfile": _EFFECT,
    "subprocess": _EFFECT,
    "socket": _EFFECT,
    "ssl": _EFFECT,
    "http.client": _EFFECT,
    "urllib.request": _EFFECT,
    "urllib3": _EFFECT,
    "requests": _EFFECT,
    "httpx": _EFFECT,
    "aiohttp": _EFFECT,
    "smtplib": _EFFECT,
    "boto3": _EFFECT,
    "redis": _EFFECT,
    "psycopg": _EFFECT,
    "sqlite3": _EFFECT,
    "django.core.mail": _EFFECT,
    "django.core.cache": _EFFECT,
    "django.db": _EFFECT,
    "threading": _THREAD,
    "multiprocessing": _THREAD,
    "concurrent.futures": _THREAD,
    "asgiref.sync": _THREAD,
    "asyncio.to_thread": _THREAD,
    "asyncio.run": _THREAD,
    "asyncio.new_event_loop": _THREAD,
    "asyncio.open_connection": _EFFECT,
    "asyncio.start_server": _EFFECT,
    "asyncio.create_subprocess_exec": _EFFECT,
    "asyncio.create_subprocess_shell": _EFFECT,
}
"""Maps dotted names, and all below them, to advice. The longest match counts; empty advice allows the call."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One call in workflow code that a replay cannot repeat. `function` is the function that contains the call."""

    function: str
    file: str
    line: int
    call: str
    advice: str


def findings(fn: types.FunctionType) -> list[Finding]:
    """The findings in the source of `fn`, and of functions of its own module that it calls, in order of lines.

    Empty if the source of the function cannot be read.
    """
    by_place: dict[tuple[str, int, str], Finding] = {}
    seen: set[types.FunctionType] = set()
    waiting = [fn]
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        for finding, helper in _read(function):
            if finding is not None:
                by_place.setdefault((finding.file, finding.line, finding.call), finding)
            if helper is not None and helper.__module__ == fn.__module__:
                waiting.append(helper)
    return sorted(by_place.values(), key=lambda finding: (finding.file, finding.line, finding.call))


def _read(function: types.FunctionType) -> Iterator[tuple[Finding | None, types.FunctionType | None]]:
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return
    names = _names(function, tree)
    file = inspect.getsourcefile(function) or ""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _in_decorator(tree, node):
            continue
        shown, target = _resolve(node.func, names)
        if isinstance(target, types.FunctionType):
            yield None, target
        advice = _advice(shown, target, node.func, names)
        if advice and not _said_of_what_it_is_called_on(node.func, names):
            call = ast.unparse(node.func)
            yield Finding(function.__qualname__, file, first + node.lineno - 1, f"{call}(...)", advice), None


def _said_of_what_it_is_called_on(node: ast.expr, names: dict[str, Any]) -> bool:
    """Whether the first calls of a chain, as in `async_to_sync(fn)(...)` or `get(...).json()`, are findings already."""
    while isinstance(node, ast.Attribute | ast.Call):
        if isinstance(node, ast.Call):
            shown, target = _resolve(node.func, names)
            if _advice(shown, target, node.func, names):
                return True
            node = node.func
        else:
            node = node.value
    return False


def _in_decorator(tree: ast.Module, node: ast.Call) -> bool:
    outer = tree.body[0] if tree.body else None
    decorators = getattr(outer, "decorator_list", [])
    return any(node is inner for decorator in decorators for inner in ast.walk(decorator))


def _names(function: types.FunctionType, tree: ast.Module) -> dict[str, Any]:
    """The objects behind the names in the function: built-ins, globals, closure, and what it imports itself."""
    names: dict[str, Any] = {**vars(builtins), **function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    local = set(function.__code__.co_varnames) | set(function.__code__.co_cellvars)
    for name in local:
        names.pop(name, None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = alias.name if alias.asname else alias.name.partition(".")[0]
                names[alias.asname or module] = _module(module)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            source = _module(node.module)
            for alias in node.names:
                names[alias.asname or alias.name] = getattr(source, alias.name, _Foreign(f"{node.module}.{alias.name}"))
    return names


@dataclass(frozen=True, slots=True)
class _Foreign:
    """An object of a module that is not imported here; only its name is known."""

    name: str


def _module(name: str) -> Any:
    if name in sys.stdlib_module_names or name in sys.modules:
        return importlib.import_module(name)
    return _Foreign(name)


def _resolve(node: ast.expr, names: dict[str, Any]) -> tuple[str, Any]:  # noqa: PLR0911 - one return a kind of node
    """The dotted name that an expression stands for (empty if unknown), and the object where there is one."""
    if isinstance(node, ast.Name):
        target = names.get(node.id)
        return _dotted(target) or (node.id if isinstance(target, _Foreign) else ""), target
    if isinstance(node, ast.Attribute):
        shown, owner = _resolve(node.value, names)
        if owner is None and not shown:
            return "", None
        if isinstance(owner, types.ModuleType | type):
            target = inspect.getattr_static(owner, node.attr, None)
            if isinstance(owner, types.ModuleType):
                return f"{owner.__name__}.{node.attr}", target
            return f"{_dotted(owner)}.{node.attr}", target
        return f"{shown}.{node.attr}" if shown else "", None
    if isinstance(node, ast.Call):
        shown, _ = _resolve(node.func, names)
        return shown, None
    return "", None


def _dotted(target: Any) -> str:
    if isinstance(target, _Foreign):
        return target.name
    if isinstance(target, types.ModuleType):
        return target.__name__
    if isinstance(target, types.MethodType | types.BuiltinMethodType) and type(target.__self__).__module__ == "random":
        return f"random.{target.__name__}"  # random.choice and the like are methods of one hidden object
    if isinstance(target, type | types.FunctionType | types.BuiltinFunctionType):
        module = _PUBLIC.get(target.__module__ or "", target.__module__ or "")
        return f"{module}.{target.__qualname__}"
    return ""


_PUBLIC = {
    "_io": "io",
    "posix": "os",
    "nt": "os",
    "_socket": "socket",
    "_thread": "threading",
    "io": "io",
    "pathlib._local": "pathlib",  # Python 3.13
}
"""Modules by which functions call themselves, to those from which they are imported."""


def _advice(shown: str, target: Any, node: ast.expr, names: dict[str, Any]) -> str:
    if isinstance(target, ActivityDefinition):
        return f"Use `await {target.fn.__name__}.execute(...)`: a plain call runs again at every replay."
    if isinstance(node, ast.Attribute) and (_of_model(node, names) or _of_manager(node, target)):
        return "Database rows change between replays. " + _EFFECT
    for name in (shown, _dotted(target)):
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            advice = ADVICE.get(".".join(parts[:length]))
            if advice is not None:
                return advice
    return ""


MANAGERS = frozenset({"objects", "_default_manager", "_base_manager"})
"""Names under which Django's models have their managers."""

_GIVE_MODELS = frozenset({"get_model", "get_registered_model", "get_user_model", "model_class"})

ASYNC_ORM = frozenset(
    """
    aadd aaggregate abulk_create abulk_update aclear acontains acount acreate adelete aearliest aexists aexplain afirst
    aget aget_or_create ain_bulk aiterator alast alatest arefresh_from_db aremove asave aset aupdate aupdate_or_create
    """.split()  # noqa: SIM905 - six lines of quotes say no more
)
"""Methods that only rows, their managers and queries have."""


def _of_manager(node: ast.Attribute, target: Any) -> bool:
    """Whether it looks like a database query, however the model was reached: by a variable, or by its name as text.

    A known function or class of the project is not taken for one.
    """
    if target is not None:
        return False
    if node.attr in ASYNC_ORM:
        return True
    inner: ast.expr = node.value
    while isinstance(inner, ast.Attribute | ast.Call):
        if isinstance(inner, ast.Attribute) and inner.attr in MANAGERS and _is_model_by_looks(inner):
            return True
        inner = inner.value if isinstance(inner, ast.Attribute) else inner.func
    return False


def _is_model_by_looks(manager: ast.Attribute) -> bool:
    """`get_model(...).objects` and `Order.objects` of a variable, but not an attribute `objects` of other data."""
    owner = manager.value
    if isinstance(owner, ast.Call):
        called = owner.func
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        return name in _GIVE_MODELS
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return manager.attr != "objects" or name[:1].isupper()


def _of_model(node: ast.expr, names: dict[str, Any]) -> bool:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    target = names.get(node.id) if isinstance(node, ast.Name) else None
    return isinstance(target, type) and any(
        (ancestor.__module__, ancestor.__name__) == ("django.db.models.base", "Model") for ancestor in target.__mro__
    )

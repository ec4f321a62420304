"""What `OPTIONS` of a backend choose: retry policies, and modules that workers may import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from durable.errors.showing import shown
from durable.kernel.definitions.retry import Retry

ONE_ATTEMPT: Final = Retry(max_attempts=1)
"""The policy of tasks for which nothing else is chosen."""

ALL_OTHERS: Final = "*"
"""In place of a task's path: all tasks that are not named."""

_KEYS: Final = ("retry", "modules")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The options of one backend. `problems` are pairs of fault and cure; where there are some, the rest is empty."""

    retries: Mapping[str, Retry] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()

    def retry_of(self, path: str) -> Retry:
        """The policy of the task with this path."""
        return self.retries.get(path) or self.retries.get(ALL_OTHERS) or ONE_ATTEMPT


def read(alias: str, options: Any) -> Chosen:
    """The options of a backend as `TASKS` has them. Raises nothing."""
    place = f"TASKS[{alias!r}]['OPTIONS']"
    if not isinstance(options, Mapping):
        return Chosen(problems=((f"{place} is {shown(options)}.", "It has to be a dict."),))
    problems = [
        (f"{place}[{key!r}] is not an option.", f"The options are {' and '.join(map(repr, _KEYS))}.")
        for key in options
        if key not in _KEYS
    ]
    retries, modules = _retries(options.get("retry", {})), options.get("modules", ())
    if retries is None:
        cure = "It has to be a durable.Retry, or a dict from paths of tasks ('*' for all others) to such."
        problems.append((f"{place}['retry'] is {shown(options['retry'])}.", cure))
    if not isinstance(modules, list | tuple) or not all(isinstance(name, str) and name for name in modules):
        cure = "It has to be a list of names of modules, as in ['shop.emails']."
        problems.append((f"{place}['modules'] is {shown(modules)}.", cure))
    if problems or retries is None:
        return Chosen(problems=tuple(problems))
    return Chosen(retries, tuple(modules))


def _retries(value: Any) -> dict[str, Retry] | None:
    if isinstance(value, Retry):
        return {ALL_OTHERS: value}
    if not isinstance(value, Mapping):
        return None
    fits = all(isinstance(path, str) and isinstance(retry, Retry) for path, retry in value.items())
    return dict(value) if fits else None

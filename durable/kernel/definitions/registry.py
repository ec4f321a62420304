"""Which workflows and activities this process knows, by name.

A name given to the decorator is registered at once. The default is `app_label.function`; since the app's label is known
only when all apps are loaded, such names are computed at the first look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from durable.errors import AlreadyRegistered, NotRegistered
from durable.kernel.definitions import code_version
from durable.kernel.definitions.definition import ActivityDefinition, WorkflowDefinition
from durable.kernel.definitions.naming import labels

D = TypeVar("D", ActivityDefinition[Any, Any], WorkflowDefinition[Any, Any])


@dataclass
class _Shelf(Generic[D]):
    kind: str
    entries: dict[tuple[str, str | None], D] = field(default_factory=dict)
    index: dict[str, list[D]] | None = None

    def add(self, definition: D) -> None:
        entry = (definition.place, definition.explicit_name)
        name = definition.explicit_name
        if name is not None:
            for place, other in self.entries:
                if other == name and place != definition.place:
                    raise AlreadyRegistered(self.kind, name, place, definition.place)
        self.entries[entry] = definition
        self.index = None

    def by_name(self) -> dict[str, list[D]]:
        index = self.index
        if index is None:
            index = {}
            for definition in self.entries.values():
                index.setdefault(definition.name, []).append(definition)
            self.index = index
        return index

    def get(self, name: str) -> D:
        definitions = self.by_name().get(name)
        if definitions is None:
            raise NotRegistered(self.kind, name)
        if len(definitions) > 1:
            raise AlreadyRegistered(self.kind, name, definitions[0].place, definitions[1].place)
        return definitions[0]

    def all(self) -> list[D]:
        return sorted(self.entries.values(), key=lambda definition: (definition.name, definition.place))

    def clashes(self) -> list[AlreadyRegistered]:
        return [
            AlreadyRegistered(self.kind, name, definitions[0].place, definitions[1].place)
            for name, definitions in sorted(self.by_name().items())
            if len(definitions) > 1
        ]


class Registry:
    """The workflows and activities of a process. Use the one that this module holds: `registry`."""

    def __init__(self) -> None:
        self._activities: _Shelf[ActivityDefinition[Any, Any]] = _Shelf("activity")
        self._workflows: _Shelf[WorkflowDefinition[Any, Any]] = _Shelf("workflow")
        self._version: str | None = None
        self._modules: dict[str, bytes] = {}
        self.finder: Callable[[str], ActivityDefinition[Any, Any] | None] | None = None
        """Finds an activity that nothing has registered, by its name. Set by what defines activities in another way."""

    @property
    def label_for(self) -> Callable[[str], str]:
        """Maps a module's name to the label with which default names begin. The app sets it from Django's registry."""
        return labels.label_for

    @label_for.setter
    def label_for(self, hook: Callable[[str], str]) -> None:
        labels.label_for = hook
        self._touch()

    def add_activity(self, definition: ActivityDefinition[Any, Any]) -> None:
        """Registers it; the same function of a module that is imported again replaces itself. Raises
        `AlreadyRegistered`.
        """
        self._activities.add(definition)
        self._touch()

    def add_workflow(self, definition: WorkflowDefinition[Any, Any]) -> None:
        """As `add_activity`, for a workflow."""
        self._workflows.add(definition)
        self._touch()

    def activity(self, name: str) -> ActivityDefinition[Any, Any]:
        """The activity of a name: a registered one, else one that the finder knows. Raises `NotRegistered`, and
        `AlreadyRegistered` when two claim it.
        """
        try:
            return self._activities.get(name)
        except NotRegistered:
            definition = None if self.finder is None else self.finder(name)
            if definition is None:
                raise
            return definition

    def workflow(self, name: str) -> WorkflowDefinition[Any, Any]:
        """The workflow of a name. Raises as `activity` does."""
        return self._workflows.get(name)

    def activities(self) -> list[ActivityDefinition[Any, Any]]:
        """All activities, by name."""
        return self._activities.all()

    def workflows(self) -> list[WorkflowDefinition[Any, Any]]:
        """All workflows, by name."""
        return self._workflows.all()

    def clashes(self) -> list[AlreadyRegistered]:
        """Names that two functions have."""
        return self._activities.clashes() + self._workflows.clashes()

    def version(self) -> str:
        """A digest of the code of all registered functions, of the modules that they are in, and of every other loaded
        module of the project: all that are neither Python's, nor in site-packages, nor of `durable`; and of what
        the engine knows of histories.

        Processes of one Python version that have loaded the same modules have the same version; other code has another
        version. Computed once, and again after a registration; of a module that it has seen, it keeps what it was.
        """
        if self._version is None:
            self._version = code_version.of([*self.activities(), *self.workflows()], self._modules)
        return self._version

    @contextmanager
    def isolated(self) -> Iterator[Registry]:
        """Empties the registry for a block, for tests, and restores it afterwards, the label hook included."""
        before = self._activities, self._workflows, labels.label_for
        self._activities, self._workflows = _Shelf("activity"), _Shelf("workflow")
        self._touch()
        try:
            yield self
        finally:
            self._activities, self._workflows, labels.label_for = before
            self._touch()

    def _touch(self) -> None:
        self._version = None
        self._activities.index = self._workflows.index = None


registry = Registry()

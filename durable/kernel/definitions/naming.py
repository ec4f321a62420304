"""The label with which default names begin: `app_label.function`."""

from __future__ import annotations

from collections.abc import Callable


def label_of_module(module: str) -> str:
    """The label of a module without Django's help: the package before `workflows` or `activities`, else the package."""
    parts = module.split(".")
    for word in ("workflows", "activities"):
        if word in parts[1:]:
            return parts[parts.index(word, 1) - 1]
    return parts[-2] if len(parts) > 1 else parts[0]


class Labels:
    """Maps a module's name to its label. `generation` changes whenever the map does: names that were made before it
    are made anew.
    """

    def __init__(self) -> None:
        self._label_for: Callable[[str], str] = label_of_module
        self.generation = 0

    @property
    def label_for(self) -> Callable[[str], str]:
        """The map. The app sets it from Django's registry."""
        return self._label_for

    @label_for.setter
    def label_for(self, hook: Callable[[str], str]) -> None:
        self._label_for = hook
        self.generation += 1


labels = Labels()

"""Fields whose values no error quotes: what the project names, and what its functions mark.

Errors are made where nobody knows the settings or what is registered. Whoever knows tells it here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Final

HIDDEN_VALUE: Final = "<hidden>"
"""What stands in an error for a value."""


class Hiding(threading.local):
    """Knows whom to ask for the names, in lower case. While that is being asked it hides nothing: the answer may be an
    error itself.
    """

    asked_for_names: Callable[[], frozenset[str]] = staticmethod(frozenset)
    _asking = False

    def is_named_in(self, text: str) -> bool:
        """Whether a text (a path to a value, or the repr of one) has such a name in it, as a word of its own."""
        if HIDDEN_VALUE in text:
            return True  # the name itself was hidden where it stood, as a key of a mapping
        if self._asking:
            return False
        self._asking = True
        try:
            names = [re.escape(name) for name in type(self).asked_for_names() if name]
        finally:
            self._asking = False
        return bool(names) and re.search(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", text.casefold()) is not None


hiding = Hiding()


def hide(names: Callable[[], frozenset[str]]) -> None:
    """From now on errors quote no value of what these are, whenever one is made."""
    Hiding.asked_for_names = staticmethod(names)

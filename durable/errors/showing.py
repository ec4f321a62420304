"""What objects of unknown origin say of themselves, as plain text: nothing that they raise gets out of here.

`str()`, `repr()`, a class's `__module__`, even `isinstance` (which asks for `__class__`) run code of whoever wrote the
object, and that code may raise anything, `SystemExit` included. Whoever needs such a text asks here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final
from unicodedata import category, combining, is_normalized, normalize

from durable.errors.hiding import HIDDEN_VALUE, hiding

SHORT: Final = 80
"""Characters of a value's repr in a sentence."""

_qualname: Callable[[type], Any] = type.__dict__["__qualname__"].__get__
_module: Callable[[type], Any] = type.__dict__["__module__"].__get__
_mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
# The metaclass's own attributes would be asked by the usual way; it may be anybody's.


def is_a(value: Any, *kinds: type) -> bool:
    """`isinstance` by what the value is, whatever it or its class claims: no code of its own runs."""
    return descends(type(value), *kinds)


def descends(kind: type, *ancestors: type) -> bool:
    """`issubclass` by the real line of descent; a metaclass has no say in it."""
    return any(base is ancestor for base in _mro(kind) for ancestor in ancestors)


def real_mro(kind: type) -> tuple[type, ...]:
    """A class and its ancestors, whatever its metaclass says."""
    return _mro(kind)


def class_name(kind: type) -> str:
    """The qualified name of a class, without its module."""
    return _text_or(_qualname(kind), "<unnamed>")


def full_name(kind: type) -> str:
    """The qualified name of a class behind its module; built-in classes, those of `__main__`, and those whose module is
    not text, go without it.
    """
    module = _module_name(kind)
    return class_name(kind) if module in ("builtins", "__main__") else dotted_name(kind)


def dotted_name(kind: type) -> str:
    """The qualified name of a class behind its module, whatever that is."""
    module = _module_name(kind)
    return f"{module}.{class_name(kind)}" if module else class_name(kind)


def said(value: Any, limit: int, *, what: str = "object") -> str:
    """`str(value)`, storable, and cut after `limit` characters; what it raised instead, if it did."""
    return cut_end(_asked(str, value, f"str() of this {what}"), limit)


def shown(value: Any, limit: int = SHORT) -> str:
    """`repr(value)` for a sentence: storable, cut, and what it raised instead if it did. Nothing of one in which a
    hidden field is named: a name stands before its value, so that the cut leaves no value without it.
    """
    text = _asked(repr, value, "repr()")
    if len(text) <= limit:
        text = clean(text)
    if len(text) > limit:
        text = f"{clean(text[: limit * 3 // 4])[: limit * 3 // 4]}…"
    return HIDDEN_VALUE if hiding.is_named_in(text) else text


def clean(text: str) -> str:
    """Text that both databases can store: NUL and lone surrogates become escapes."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def cut_end(text: str, limit: int) -> str:
    """The beginning of a text, storable, of `limit` characters at most, and how many more there were."""
    kept = clean(text[:limit])  # cut first: a text of 100 MB is not copied to be thrown away
    left = len(text) - limit if len(text) > limit else len(kept) - limit
    return f"{kept[:limit]}… ({left:,} more characters)" if left > 0 else kept


def cut_start(text: str, limit: int) -> str:
    """The end of a text, storable, of `limit` characters at most, and how many there were before."""
    kept = clean(text[-limit:])
    left = len(text) - limit if len(text) > limit else len(kept) - limit
    return f"({left:,} earlier characters) …{kept[-limit:]}" if left > 0 else kept


def visible(text: str, *, lines: bool = False, escape: Callable[[str], str] | None = None) -> str:
    """A text of somebody else's, for people: what cannot be seen, or would change how the rest is seen, stands there as
    Python's escape of it, or by `escape`. Bidi controls, zero widths, escape sequences and line breaks are among that.

    With `lines` it is a text of several lines, and line breaks, tabs and wide spaces stay. Without, it is a name:
    spaces that are no plain space are written out as well, and so are accents that are a character of their own where
    Unicode has one for both, since two names that differ in nothing else look alike.
    """
    is_normal = lines or is_normalized("NFC", text)
    if is_normal and text.isprintable() and not _UNSEEN.search(text):
        return text
    written, hides = escape or _escape, _hides_in_lines if lines else _hides
    if is_normal:
        return "".join(written(char) if hides(char) else char for char in text)
    return "".join(
        written(char) if hides(char) or _is_apart(before, char) else char
        for before, char in zip(["", *text], text, strict=False)
    )


_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What Python calls printable, and leaves no mark."""

_STAY_IN_LINES: Final = frozenset({"Zs", "Co", "Cn"})


def _hides(char: str) -> bool:
    return not char.isprintable() or _UNSEEN.match(char) is not None


def _hides_in_lines(char: str) -> bool:
    return _hides(char) and char not in "\n\t" and category(char) not in _STAY_IN_LINES


def _is_apart(before: str, char: str) -> bool:
    """Whether Unicode has another way to write this character, alone or with the one before it."""
    alone = normalize("NFC", char) == char and not combining(char)
    return not alone or normalize("NFC", before + char) != normalize("NFC", before) + char


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _module_name(kind: type) -> str:
    try:
        return _text_or(_module(kind), "")
    except AttributeError:  # `del cls.__module__`
        return ""


def _asked(way: Callable[[Any], str], value: Any, call: str) -> str:
    try:
        text = way(value)
    except BaseException as broken:  # noqa: BLE001 - the user's code: `sys.exit()` in it ends nothing but its own text
        return f"<{call} raised {class_name(type(broken))}>"
    return _text_or(text, "")


def _text_or(text: Any, otherwise: str) -> str:
    """Exact text: a subclass of `str` brings methods of its own."""
    if type(text) is str:
        return text
    return str.__str__(text) if issubclass(type(text), str) else otherwise

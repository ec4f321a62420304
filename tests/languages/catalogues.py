"""The catalogues in `durable/locale`: what they hold, and how they are brought up to date."""

from __future__ import annotations

import gettext
import io
import re
from collections.abc import Mapping
from pathlib import Path

import polib

from tests.languages import texts
from tests.languages.texts import APP, Text

LANGUAGES = ("de", "fr")
PLACEHOLDER = re.compile(r"%(?:\((\w+)\))?[sd%]")
OF_DJANGO = frozenset({"Action:", "Home", "Select all objects on this page for an action"})
"""Texts that Django has, too, and means in the same way: its own translations are used, and ours leave them out."""
_HEADER = {
    "Project-Id-Version": "durable-django",
    "MIME-Version": "1.0",
    "Content-Type": "text/plain; charset=UTF-8",
    "Content-Transfer-Encoding": "8bit",
}
_PLURALS = {"de": "nplurals=2; plural=(n != 1);", "fr": "nplurals=2; plural=(n > 1);"}


def source_of(language: str) -> Path:
    """The catalogue that people edit."""
    return APP / "locale" / language / "LC_MESSAGES" / "django.po"


def compiled_of(language: str) -> Path:
    """The catalogue that Django reads."""
    return source_of(language).with_suffix(".mo")


def read(language: str) -> polib.POFile:
    """The catalogue of a language."""
    return polib.pofile(str(source_of(language)), encoding="utf-8", wrapwidth=100)


def text_of(entry: polib.POEntry) -> Text:
    """The text that an entry translates."""
    return Text(entry.msgid, entry.msgctxt or "", entry.msgid_plural or "")


def translations_of(entry: polib.POEntry) -> list[str]:
    """The translation, or all plural forms of it."""
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


def compiled(catalogue: polib.POFile) -> dict[object, str]:
    """What Django gets of a catalogue, by key."""
    return _messages(catalogue.to_binary())


def in_compiled_file(language: str) -> dict[object, str]:
    """What Django gets of the compiled file."""
    return _messages(compiled_of(language).read_bytes())


def _messages(binary: bytes) -> dict[object, str]:
    read = gettext.GNUTranslations(io.BytesIO(binary))
    return {key: value for key, value in read._catalog.items() if key}  # type: ignore[attr-defined]


def update(language: str, found: Mapping[Text, list[str]]) -> polib.POFile:
    """The catalogue with all texts of the app and no other. New ones have no translation yet."""
    path = source_of(language)
    before = {text_of(entry): entry for entry in read(language)} if path.exists() else {}
    catalogue = polib.POFile(encoding="utf-8", wrapwidth=100)
    catalogue.metadata = {**_HEADER, "Language": language, "Plural-Forms": _PLURALS[language]}
    for text, files in sorted(found.items(), key=lambda item: (item[1][0], item[0])):
        if text.text in OF_DJANGO and not text.context:
            continue
        entry = before.get(text) or polib.POEntry(
            msgid=text.text,
            msgctxt=text.context or None,
            msgid_plural=text.plural,
            msgstr_plural={0: "", 1: ""} if text.plural else {},
        )
        entry.obsolete = False
        entry.msgstr = typeset(language, entry.msgstr)
        entry.msgstr_plural = {form: typeset(language, said) for form, said in entry.msgstr_plural.items()}
        entry.occurrences = [(name, "") for name in files]
        entry.flags = ["python-format"] if "%(" in text.text else []
        catalogue.append(entry)
    return catalogue


def typeset(language: str, text: str) -> str:
    """The text with the spaces of its language that no line may break at: in French those of punctuation."""
    if language != "fr":
        return text
    text = re.sub(r"« ", "«\N{NO-BREAK SPACE}", re.sub(r" (?=[:»])", "\N{NO-BREAK SPACE}", text))
    return re.sub(r" (?=[;!?])", "\N{NARROW NO-BREAK SPACE}", text)


def write(language: str, catalogue: polib.POFile) -> None:
    """Both files of a catalogue."""
    source_of(language).parent.mkdir(parents=True, exist_ok=True)
    catalogue.save(str(source_of(language)))
    compiled_of(language).write_bytes(catalogue.to_binary())


def update_all() -> dict[str, int]:
    """Both files of every language, as the code is now; and how many texts still want a translation."""
    found = texts.of_the_app()
    missing = {}
    for language in LANGUAGES:
        catalogue = update(language, found)
        write(language, catalogue)
        missing[language] = len(catalogue.untranslated_entries())
    return missing

"""The catalogues hold every text of the app, whole and right, and what Django reads is what people edit."""

from __future__ import annotations

import gettext
import re
from pathlib import Path

import django
import polib
import pytest

from tests.languages import catalogues, texts
from tests.languages.catalogues import LANGUAGES, OF_DJANGO, PLACEHOLDER, text_of, translations_of
from tests.languages.texts import Text

MARKUP = re.compile(r"</?[a-z]+[^>]*>")


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def faults(entry: polib.POEntry) -> list[str]:
    """What is wrong with a translation, whatever its language."""
    wrong = []
    for translation in translations_of(entry):
        for wanted in {entry.msgid, entry.msgid_plural} - {""}:
            if sorted(PLACEHOLDER.findall(wanted)) != sorted(PLACEHOLDER.findall(translation)):
                wrong.append("other placeholders")
            if sorted(MARKUP.findall(wanted)) != sorted(MARKUP.findall(translation)):
                wrong.append("other markup")
            if wanted[-1] in ".:" and translation[-1] != wanted[-1]:
                wrong.append("another end")
    return wrong


def test_every_text_of_the_app_is_translated(language: str) -> None:
    there = {text_of(entry) for entry in catalogues.read(language).translated_entries()}
    wanted = {text for text in texts.of_the_app() if text.context or text.text not in OF_DJANGO}
    assert wanted - there == set(), "python -m tests.languages puts them into the catalogues; then translate them"


def test_nothing_is_translated_that_the_app_does_not_say(language: str) -> None:
    entries = {text_of(entry) for entry in catalogues.read(language)}
    assert entries - texts.of_the_app().keys() == set(), "python -m tests.languages drops them"


def test_no_translation_is_a_guess_or_a_leftover(language: str) -> None:
    catalogue = catalogues.read(language)
    assert [*catalogue.fuzzy_entries(), *catalogue.obsolete_entries()] == []


def test_translations_have_the_placeholders_and_the_markup_of_the_text(language: str) -> None:
    wrong = {entry.msgid: found for entry in catalogues.read(language) if (found := faults(entry))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "translation", "fault"),
    [
        ("%(count)s rows", "%(anzahl)s Zeilen", "other placeholders"),
        ("%(count)s rows", "Zeilen", "other placeholders"),
        ("<b>rows</b>", "<b>Zeilen<b>", "other markup"),
        ("Rows.", "Zeilen", "another end"),
    ],
)
def test_a_wrong_translation_is_found(text: str, translation: str, fault: str) -> None:
    assert faults(polib.POEntry(msgid=text, msgstr=translation)) == [fault]


def test_no_line_breaks_before_punctuation(language: str) -> None:
    """`python -m tests.languages` puts the spaces right."""
    said = [text for entry in catalogues.read(language) for text in translations_of(entry)]
    assert [text for text in said if catalogues.typeset(language, text) != text] == []
    assert catalogues.typeset("fr", "Quoi ? « Rien » : fin") == (
        "Quoi\N{NARROW NO-BREAK SPACE}? «\N{NO-BREAK SPACE}Rien\N{NO-BREAK SPACE}»\N{NO-BREAK SPACE}: fin"
    )


def test_what_django_reads_is_what_people_edit(language: str) -> None:
    assert catalogues.in_compiled_file(language) == catalogues.compiled(catalogues.read(language))


def test_texts_that_django_has_too_are_left_to_it_or_have_a_context(language: str) -> None:
    """A catalogue of ours would change them in all of the site's admin, and another app's would change ours."""
    ours = {entry.msgid for entry in catalogues.read(language) if not entry.msgctxt}
    of_django = _texts_of_django(language)
    assert ours & of_django == set()
    assert of_django >= OF_DJANGO


def test_leaving_a_form_and_cancelling_a_workflow_are_two_words(language: str) -> None:
    """German has one word for both, and Django's own catalogue has it."""
    catalogue = catalogues.read(language)
    cancels = {entry.msgctxt: entry.msgstr for entry in catalogue if entry.msgid == "Cancel" and entry.msgctxt}
    assert len(cancels) == len(set(cancels.values())) == 2
    assert {"Abbrechen", "Annuler"} & set(cancels.values()) == set()


def test_a_text_with_and_without_a_plural_is_one_entry(language: str) -> None:
    """As msgfmt wants it; Python finds the singular by either."""
    keys = [(entry.msgid, entry.msgctxt) for entry in catalogues.read(language)]
    assert len(keys) == len(set(keys))


def test_new_texts_are_put_in_and_translations_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "APP", tmp_path)
    first = catalogues.update("de", {Text("Back"): ["a.py"]})
    first[0].msgstr = "Zurück"
    catalogues.write("de", first)
    second = catalogues.update("de", {Text("Back"): ["a.py"], Text("%(count)s row", "", "%(count)s rows"): ["b.py"]})
    assert [(entry.msgid, entry.msgstr) for entry in second] == [("Back", "Zurück"), ("%(count)s row", "")]
    assert [entry.msgid for entry in catalogues.update("de", {Text("On"): ["a.py"]})] == ["On"]


def _texts_of_django(language: str) -> set[str]:
    texts_of_django: set[str] = set()
    for path in Path(django.__file__).parent.glob(f"**/locale/{language}/LC_MESSAGES/django.mo"):
        with path.open("rb") as file:
            keys = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        texts_of_django |= {key if isinstance(key, str) else key[0] for key in keys}
    return texts_of_django

"""The codec that encrypts: what it writes, and what it refuses to read."""

from __future__ import annotations

import base64
import traceback
import uuid
from typing import Any

import pytest

from durable import EncryptionKeyUnknown, PayloadError, PayloadMoved, PayloadNotEncrypted
from durable.conf import problems
from durable.conf import settings as current
from durable.crypto import EncryptingCodec
from durable.errors import ConfigurationError
from durable.kernel.payloads import birthplace
from tests.crypto.conftest import NEW, OLD

ONE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
HERE = birthplace.signal(ONE, "go")


def codec(**keys: str) -> EncryptingCodec:
    return EncryptingCodec(keys=keys, reads_plain=False)


def test_what_is_stored_names_its_key_and_shows_nothing_else():
    stored = codec(old=OLD).encode({"card": "4111"}, path="value", birthplace=HERE)
    assert stored.startswith("aes1.old.")
    assert "4111" not in stored
    assert b"4111" not in base64.urlsafe_b64decode(stored.rpartition(".")[2])
    assert codec(old=OLD).decode(stored, path="value", birthplace=HERE) == {"card": "4111"}


def test_the_same_text_is_never_written_alike():
    assert len({codec(old=OLD).wrap("1", HERE) for _ in range(100)}) == 100


def test_the_first_key_writes_and_each_one_reads():
    stored = codec(old=OLD).wrap("1", HERE)
    both = codec(new=NEW, old=OLD)
    assert both.unwrap(stored, HERE) == "1"
    assert not both.is_current(stored)
    renewed = both.rewrap(stored, path="value", birthplace=HERE)
    assert renewed.startswith("aes1.new.")
    assert both.is_current(renewed)
    assert codec(new=NEW).unwrap(renewed, HERE) == "1"


def test_a_key_id_that_begins_like_another_is_another_key():
    stored = codec(**{"prod.2026": OLD}).wrap("1", HERE)
    both = codec(**{"prod": NEW, "prod.2026": OLD})
    assert not both.is_current(stored)
    renewed = both.rewrap(stored, path="value", birthplace=HERE)
    assert both.is_current(renewed)
    assert codec(prod=NEW).unwrap(renewed, HERE) == "1"


MOVES = [
    birthplace.signal(OTHER, "go"),
    birthplace.signal(ONE, "stop"),
    birthplace.result(ONE, 1),
    birthplace.arguments(ONE, "go"),
]


@pytest.mark.parametrize("place", MOVES, ids=str)
def test_a_payload_of_another_place_is_refused(place):
    stored = codec(old=OLD).wrap('"pin 1234"', HERE)
    with pytest.raises(PayloadMoved, match="was not encrypted for this place") as raised:
        codec(old=OLD).decode(stored, path="value", birthplace=place)
    assert str(place) in str(raised.value)
    assert "1234" not in str(raised.value)


@pytest.mark.parametrize("damage", ["", "AAAA", "A" * 60, "not base64!", "=", "ä"])
def test_a_damaged_payload_is_refused(damage):
    with pytest.raises(PayloadMoved):
        codec(old=OLD).decode(f"aes1.old.{damage}", path="value", birthplace=HERE)


def test_each_changed_character_is_noticed():
    stored = codec(old=OLD).wrap("[1,2,3]", HERE)
    begin = len("aes1.old.")
    for at in range(begin, len(stored) - 4):  # the last group may hold bits that base64 does not use
        changed = stored[:at] + ("A" if stored[at] != "A" else "B") + stored[at + 1 :]
        with pytest.raises(PayloadMoved):
            codec(old=OLD).unwrap(changed, HERE)


def test_an_id_that_was_given_to_another_key_is_refused():
    with pytest.raises(PayloadMoved, match="two keys have the same id"):
        codec(old=NEW).unwrap(codec(old=OLD).wrap("1", HERE), HERE)


def test_reporters_that_print_variables_print_no_key():
    """Sentry and Django's page of an error show the variables of each frame; a changed byte makes the error."""
    stored = codec(new=NEW, old=OLD).wrap('"pin"', HERE)
    for attack in (f"{stored}AAAA", stored.replace(".new.", ".old."), stored.replace(".new.", ".gone."), "plain"):
        with pytest.raises(PayloadError) as raised:
            codec(new=NEW, old=OLD).decode(attack, path="value", birthplace=HERE)
        errors: list[BaseException | None] = [raised.value]
        shown = ""
        while errors:
            error = errors.pop()
            if error is not None:
                errors += [error.__cause__, error.__context__]
                frames = [frame for frame, _line in traceback.walk_tb(error.__traceback__)]
                shown += "".join(repr(frame.f_locals) for frame in frames if frame.f_globals is not globals())
        assert "birthplace" in shown
        for key in (OLD, NEW):
            assert key not in shown
            assert repr(base64.urlsafe_b64decode(key)) not in shown


def test_a_key_that_is_not_here_is_named_with_the_cure():
    stored = codec(old=OLD).wrap("1", HERE)
    with pytest.raises(EncryptionKeyUnknown, match="with the key 'old', and the keys here are new") as raised:
        codec(new=NEW).decode(stored, path="value", birthplace=HERE)
    assert isinstance(raised.value, PayloadError)
    assert raised.value.key_id == "old"
    assert "ENCRYPTION_KEYS" in raised.value.cure


def test_what_was_stored_in_plain_is_read_only_where_that_is_said():
    with pytest.raises(PayloadNotEncrypted, match="READ_UNENCRYPTED"):
        codec(old=OLD).decode("[1]", path="value", birthplace=HERE)
    assert EncryptingCodec(keys={"old": OLD}, reads_plain=True).decode("[1]", path="value", birthplace=HERE) == [1]


@pytest.mark.parametrize("text", ["aes1", "aes1.", "aes1.old", "aes1..", "aes2.old.AAAA", "", "\0"])
def test_whatever_else_stands_there_is_a_payload_error(text):
    with pytest.raises(PayloadError):
        codec(old=OLD).decode(text, path="value", birthplace=HERE)


def test_a_deploy_says_its_keys(keyed):
    keyed("new", "old")
    stored = current.codec().encode(1, path="value", birthplace=HERE)
    assert stored.startswith("aes1.new.")
    assert "READ_UNENCRYPTED" not in str(problems())
    keyed("old", READ_UNENCRYPTED=True)
    assert current.codec().decode("2", path="value", birthplace=HERE) == 2


WRONG: list[tuple[Any, str]] = [
    (["old"], "it is no dict"),
    ({"": OLD}, "the id of key 1"),
    ({"o d": OLD}, "the id of key 1"),
    ({"old": "secretsecret"}, "it has 9 bytes, not 32"),
    ({"old": "secret!"}, "it is not base64"),
    ({"old": 42}, "it is neither text nor bytes"),
    ({"old": OLD, "new": OLD}, "two of its ids have the same key"),
]


@pytest.mark.parametrize(("keys", "said"), WRONG, ids=range(len(WRONG)))
def test_wrong_keys_are_refused_without_a_word_of_them(settings, keys, said):
    settings.DURABLE = {"CODEC": "durable.crypto.EncryptingCodec", "ENCRYPTION_KEYS": keys}
    (problem,) = problems()
    assert said in problem.cure
    assert "secret" not in f"{problem.text}{problem.cure}"
    assert OLD not in f"{problem.text}{problem.cure}"


def test_a_deploy_without_a_key_is_refused_by_the_check(settings):
    settings.DURABLE = {"CODEC": "durable.crypto.EncryptingCodec"}
    (problem,) = problems()
    assert (problem.id, "ENCRYPTION_KEYS" in problem.cure) == ("durable.E003", True)
    with pytest.raises(ConfigurationError, match="ENCRYPTION_KEYS"):
        EncryptingCodec(keys={}, reads_plain=False)


def test_the_settings_do_not_show_their_keys(keyed):
    keyed("old")
    assert current.max_payload_bytes  # read once
    assert OLD not in repr(current._read)  # type: ignore[attr-defined]

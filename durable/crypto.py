"""A codec that encrypts every payload: `DURABLE["CODEC"] = "durable.crypto.EncryptingCodec"`.

AES-256 in GCM, by `cryptography` (the extra `durable-django[crypto]`). What is stored reads
`aes1.<key id>.<nonce, ciphertext and tag in URL-safe base64>`. The birthplace of a payload is authenticated with it, so
that a text that was copied to another workflow, or to another place in the same one, is refused.

Every workflow has a key of its own, derived from that of `ENCRYPTION_KEYS` by HKDF-Expand (RFC 5869, SHA-256): random
nonces of 96 bits may not be used for more than some billions of texts under one key, and a fleet may write more.
"""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Mapping
from typing import Any, Final

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as missing:
    raise ImportError(
        "durable.crypto needs the package `cryptography`: pip install 'durable-django[crypto]'"
    ) from missing

from durable.conf import settings
from durable.errors import ConfigurationError, EncryptionKeyUnknown, PayloadMoved, PayloadNotEncrypted
from durable.kernel.codec import JsonCodec
from durable.kernel.limits import DEFAULT_PAYLOAD_BYTES
from durable.kernel.payloads.birthplace import Birthplace
from durable.kernel.payloads.encryption_keys import key_bytes

FORMAT: Final = "aes1"
"""Begins every text that this codec writes, and no JSON text does."""

_NONCE_BYTES = 12
_DERIVED = b"durable payloads of workflow "


class EncryptingCodec(JsonCodec):
    """Payloads as encrypted JSON. The first of the keys writes; all of them read.

    `keys` are those of `ENCRYPTION_KEYS` (key id to 32 bytes, also in base64); `reads_plain` is `READ_UNENCRYPTED`:
    whether what was stored without encryption is read. Reading raises `EncryptionKeyUnknown`, `PayloadMoved` and
    `PayloadNotEncrypted`, each a `PayloadError`: the workflow or activity can continue when the key is back.
    """

    @classmethod
    def fault(cls, options: Mapping[str, Any]) -> str:
        """It needs a key."""
        return "" if options.get("ENCRYPTION_KEYS") else "It needs a key: set DURABLE['ENCRYPTION_KEYS']."

    def __init__(
        self,
        *,
        max_bytes: int = DEFAULT_PAYLOAD_BYTES,
        keys: Mapping[str, str | bytes] | None = None,
        reads_plain: bool | None = None,
        **more: Any,
    ) -> None:
        super().__init__(max_bytes=max_bytes, **more)
        chosen = settings.encryption_keys if keys is None else keys
        if not chosen:
            raise ConfigurationError(
                "DURABLE['ENCRYPTION_KEYS'] is empty, and durable.crypto.EncryptingCodec has no key to write with."
            )
        self._keys = {key_id: _Key(key_bytes(key)) for key_id, key in chosen.items()}
        self._current = next(iter(self._keys))
        self._begin = f"{FORMAT}.{self._current}."
        self._reads_plain = settings.read_unencrypted if reads_plain is None else reads_plain

    def wrap(self, text: str, birthplace: Birthplace) -> str:
        """The text, encrypted under the first key for this birthplace."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = (
            self._keys[self._current]
            .cipher(birthplace)
            .encrypt(nonce, text.encode(), _bound(self._current, birthplace))
        )
        return self._begin + base64.urlsafe_b64encode(nonce + sealed).decode()

    def unwrap(self, text: str, birthplace: Birthplace) -> str:
        """The text that was encrypted for this birthplace, with any of the keys."""
        form, _, rest = text.partition(".")
        if form != FORMAT:
            if self._reads_plain:
                return text
            raise PayloadNotEncrypted(birthplace)
        key_id, _, body = rest.rpartition(".")
        key = self._keys.get(key_id)
        if key is None:
            raise EncryptionKeyUnknown(birthplace, key_id, tuple(self._keys))
        try:
            raw = base64.urlsafe_b64decode(body)
            cipher = key.cipher(birthplace)
            plain = cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _bound(key_id, birthplace))
        except (InvalidTag, ValueError):
            raise PayloadMoved(birthplace, key_id) from None
        return plain.decode()

    def is_current(self, stored: str) -> bool:
        """Whether it was encrypted under the key that writes now."""
        # A key id may hold a dot, so one can begin like another: what follows is base64, which holds none.
        return stored.startswith(self._begin) and "." not in stored[len(self._begin) :]


class _Key:
    """A key whose repr hides it: error reporters (Sentry, Django's debug page) print the variables of every frame, and
    one changed byte in the database is enough to raise an error here.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def cipher(self, birthplace: Birthplace) -> AESGCM:
        """The cipher of one workflow: HKDF-Expand to a single block."""
        return AESGCM(hmac.digest(self._raw, _DERIVED + birthplace.workflow_id.bytes + b"\x01", "sha256"))


def _bound(key_id: str, birthplace: Birthplace) -> bytes:
    """The additional authenticated data. Neither a key id nor a kind contains a NUL, so no two places give the same
    data.
    """
    workflow_id, kind, path = birthplace
    return b"\0".join((FORMAT.encode(), key_id.encode(), workflow_id.bytes, kind.value.encode(), path.encode()))

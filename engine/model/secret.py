"""Replaces secret literals of the defs by placeholders with a salted hash; the values stay in memory."""

import hashlib
import re
import threading
from collections.abc import Callable

_PLACEHOLDER = re.compile(r"%\{secret\.([0-9a-f]{32})\}")
_VARIABLES = re.compile(r"%\{(?:env|secret)\.[^{}]*\}|\b(?:basic|bearer|digest|token)(?=\s)", re.IGNORECASE)
_ENCODED_VARIABLE = re.compile(r"%%7B((?:env|secret)\.[^{}%]*)%7D", re.IGNORECASE)
SALT_BYTES = 16
COOKIE_KEY_ID = "636f6f6b696573206f66206120736974"
"""Of the key with which the cookies that nodes share are encrypted."""
_SCRYPT_COST = 2**12
"""About 10 ms a secret: a weak password in a stolen store costs that for each guess."""


class SecretVault:
    """The secrets that one supervisor has read. Any thread may seal; a value is hashed once.

    A placeholder is `%{secret.HASH}`: equal texts have equal placeholders under one salt, so a changed secret is a
    changed text of the defs, and a job keeps the secret it was created with.
    """

    def __init__(self, salt: bytes) -> None:
        """`salt`: random, one for each data dir."""
        self._salt = salt
        self._lock = threading.Lock()
        self._placeholders: dict[str, str] = {}
        self._entries: list[tuple[str, str]] = []

    def __repr__(self) -> str:
        return f"SecretVault({len(self._entries)} secrets)"

    def seal(self, text: str) -> str:
        """The placeholder of a literal. A text made of variables alone stays as written, as does an empty one."""
        if not holds_literal(text):
            return text
        with self._lock:
            placeholder = self._placeholders.get(text)
            if placeholder is None:
                encoded = text.encode("utf-8", "surrogatepass")
                id_ = hashlib.scrypt(encoded, salt=self._salt, n=_SCRYPT_COST, r=8, p=1, dklen=16).hex()
                placeholder = self._placeholders[text] = f"%{{secret.{id_}}}"
                self._entries.append((id_, text))
        return placeholder

    def add(self, id_: str, value: str) -> None:
        """Add a value that no text of the defs holds, under an id of its own."""
        with self._lock:
            self._entries.append((id_, value))

    def find(self, id_: str) -> str | None:
        """The value of an id; None: there is none."""
        with self._lock:
            return next((value for entry, value in self._entries if entry == id_), None)

    def seal_userinfo(self, userinfo: str) -> str:
        """The `user:password` of a URL, each part sealed."""
        user, colon, password = decode_variables(userinfo).partition(":")
        return f"{self.seal(user)}{colon}{self.seal(password)}"

    def values_from(self, position: int) -> list[tuple[str, str]]:
        """The ids and values sealed since there were `position` of them, in order."""
        with self._lock:
            return self._entries[position:]

    def lacks(self, text: str) -> bool:
        """Whether the text holds a placeholder of a secret that this vault never sealed."""
        with self._lock:
            ids = {id_ for id_, _ in self._entries}
        return any(id_ not in ids for id_ in _PLACEHOLDER.findall(decode_variables(text)))


def holds_literal(text: str) -> bool:
    """Whether a value of the defs holds more than variables, and so may be a secret itself."""
    return bool(_VARIABLES.sub("", text).strip())


def decode_variables(url_part: str) -> str:
    """A part of a normalized URL with its variables as written: normalization encodes their braces."""
    return _ENCODED_VARIABLE.sub(r"%{\1}", url_part) if "%%7" in url_part else url_part


def find_ids(text: str) -> list[str]:
    """The ids of the secrets whose placeholders the text holds."""
    return _PLACEHOLDER.findall(text) if "%{secret." in text else []


def open_placeholders(text: str, lookup: Callable[[str], str]) -> str:
    """The text with each placeholder replaced by its secret; `lookup` gives the secret of an id."""
    return _PLACEHOLDER.sub(lambda match: lookup(match.group(1)), text)

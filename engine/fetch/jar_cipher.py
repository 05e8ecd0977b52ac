"""Encrypts the cookies that nodes share; the key is not in the data dir."""

import os
from hashlib import blake2b
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12


class JarUnreadable(Exception):
    """The cookies were encrypted with another key, or are damaged."""


class JarCipher:
    """AES-GCM with one key; thread-safe."""

    def __init__(self, key: str) -> None:
        """`key`: 32 bytes in hexadecimal."""
        self._cipher = AESGCM(bytes.fromhex(key))
        self.name = key_name(key)
        """Of the key, to be stored beside what it encrypts."""

    def encrypt(self, site: str, entries: list[dict[str, Any]]) -> bytes:
        """The cookies of a site, as JSON, encrypted; they open as those of that site alone."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, orjson.dumps(entries), site.encode())

    def decrypt(self, site: str, jar: bytes) -> list[dict[str, Any]]:
        """The cookies of a site. Raises JarUnreadable."""
        try:
            plain = self._cipher.decrypt(jar[:_NONCE_BYTES], jar[_NONCE_BYTES:], site.encode())
            entries: list[dict[str, Any]] = orjson.loads(plain)
        except (InvalidTag, ValueError) as error:
            raise JarUnreadable(site) from error
        return entries


def key_name(key: str) -> str:
    """A name for a key, from which the key cannot be found."""
    return blake2b(bytes.fromhex(key), digest_size=8, person=b"cookie jar").hexdigest()

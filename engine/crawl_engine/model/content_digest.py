"""Digests of rows and documents, and sums of digests that do not depend on their order.

Sums are taken modulo 2^128, so that everything added can be subtracted again, in any order.
"""

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from json.encoder import encode_basestring_ascii
from typing import Any

from xxhash import xxh3_128_digest

from crawl_engine.model.record import as_text

DIGEST_BYTES = 16
_BYTES_TO_UNPACK = 1_024 * DIGEST_BYTES
_decoder = json.JSONDecoder(parse_float=str, parse_int=str, strict=False)
_MODULUS = 1 << (8 * DIGEST_BYTES)


class Digests:
    """Digests in one piece of memory: a page may have hundreds of thousands of rows."""

    __slots__ = ("_packed",)

    def __init__(self, packed: bytes = b"") -> None:
        """`packed`: the concatenated digests."""
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed) // DIGEST_BYTES

    def sum(self) -> int:
        """The sum of all digests, as `add_digests` adds them."""
        total = 0
        for start in range(0, len(self._packed), _BYTES_TO_UNPACK):
            piece = self._packed[start : start + _BYTES_TO_UNPACK]
            words = struct.unpack(f">{len(piece) // 8}Q", piece)
            total += (sum(words[::2]) << 64) + sum(words[1::2])
        return total % _MODULUS

    def __iter__(self) -> Iterator[bytes]:
        packed = self._packed
        return (packed[start : start + DIGEST_BYTES] for start in range(0, len(packed), DIGEST_BYTES))


def row_digests(data_def: str, texts: Iterable[str | bytes | memoryview]) -> Digests:
    """The digest of each row of a dataDef: of its name and the row's JSON text."""
    base = blake2b(data_def.encode("utf-8", "surrogatepass") + b"\0", digest_size=DIGEST_BYTES)
    packed = bytearray()
    for text in texts:
        digest = base.copy()
        digest.update(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
        packed += digest.digest()
    return Digests(bytes(packed))


def key_digest(row: str, fields: Sequence[str]) -> bytes:
    """A 16-byte hash of the row's key; of the whole row if there is no key or all its fields are missing.

    A number counts as its digits: 1 equals the text 1, and 1.50 differs from 1.5. An absent field counts as missing.
    """
    return _hash(_encode_key(row, fields) or row)


def unique_keys(data_def: str, fields: Sequence[str], texts: Iterable[str | memoryview]) -> list[bytes | None]:
    """By row of a dataDef: the hash of its key, which counts once a run; None if all its fields are missing."""
    scope = json.dumps([data_def, *fields])
    keys = [_encode_key(as_text(text), fields) for text in texts]
    return [_hash(scope + key) if key else None for key in keys]


def _encode_key(row: str, fields: Sequence[str]) -> str:
    decoded = _decoder.raw_decode(row)[0] if fields else {}
    values = [decoded.get(name) for name in fields]
    return f"[{','.join(map(_encode, values))}]" if any(value is not None for value in values) else ""


def _encode(value: Any) -> str:
    """A value of a key as JSON in ASCII. A text, as nearly all are, without an encoder made for it."""
    if type(value) is str:
        return encode_basestring_ascii(value)
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def body_digest(body: bytes) -> bytes:
    """The digest of a body. It detects damage, not forgery."""
    return xxh3_128_digest(body)


def document_digest(url: str, status: int, body: bytes) -> bytes:
    """The digest of a document: of its URL, its HTTP status and the digest of its body."""
    head = f"{status} {url}\n".encode("utf-8", "surrogatepass")
    return blake2b(head + body, digest_size=DIGEST_BYTES).digest()


def is_document(digest: bytes, url: str, status: int, body: bytes) -> bool:
    """Whether this is the digest of a document with this body."""
    return digest == document_digest(url, status, body_digest(body))


def add_digests(total: int, digests: Iterable[bytes | None]) -> int:
    """A sum with these digests added; None counts as zero."""
    return (total + sum(int.from_bytes(digest, "big") for digest in digests if digest is not None)) % _MODULUS


def sum_to_bytes(total: int) -> bytes:
    """A sum in its stored form; a negative one subtracts."""
    return (total % _MODULUS).to_bytes(DIGEST_BYTES, "big")

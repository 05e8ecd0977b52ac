"""Digests of rows and documents, and sums of digests that do not depend on their order.

Sums are taken modulo 2^128, so that everything added can be subtracted again, in any order.
"""

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from xxhash import xxh3_128_digest

DIGEST_BYTES = 16
_BYTES_TO_UNPACK = 1_024 * DIGEST_BYTES
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

"""The bytes of a document; large ones stay compressed in memory while they are not read."""

from collections.abc import Callable

import zstandard

from crawl_engine.model.content_digest import body_digest

_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(3, hash_log=15, chain_log=14, write_checksum=True)
"""Tables that fit into the cache of a core: faster, and hardly larger."""


def new_compressor() -> zstandard.ZstdCompressor:
    """A compressor without a dictionary. Used by one thread."""
    return zstandard.ZstdCompressor(compression_params=_PARAMETERS)


class Body:
    """Used by one thread at a time."""

    __slots__ = ("_digest", "_plain", "_unpack", "frame", "size")

    def __init__(
        self, plain: bytes, frame: bytes | None = None, unpack: Callable[[bytes], bytes] | None = None
    ) -> None:
        """`frame`: the same bytes as compressed, with what unpacks them."""
        self._plain: bytes | None = plain
        self._unpack = unpack or _unpack
        self._digest: bytes | None = None
        self.frame = frame
        """What is stored; None: not compressed yet."""
        self.size = len(plain)

    @property
    def plain(self) -> bytes | None:
        """The bytes; None if they are not in memory."""
        return self._plain

    def read(self) -> bytes:
        """The bytes; a packed body is unpacked for this call alone."""
        if self._plain is None:
            assert self.frame is not None, "the body was forgotten"
            return self._unpack(self.frame)
        return self._plain

    @property
    def digest(self) -> bytes:
        """The digest of the bytes, computed once."""
        if self._digest is None:
            self._digest = body_digest(self.read())
        return self._digest

    def pack(self) -> None:
        """Compress the bytes, without the interpreter lock."""
        if self.frame is None and self._plain is not None:
            _ = self.digest  # while the plain bytes are here
            self.frame = new_compressor().compress(self._plain)

    def keep_packed(self) -> None:
        """Drop the plain bytes of a packed body."""
        if self.frame is not None:
            self._plain = None

    def forget(self) -> None:
        """Drop bytes and frame, once the body is stored."""
        self._plain = self.frame = None


def _unpack(frame: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(frame)

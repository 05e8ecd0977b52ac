"""Packing: a body in pages.db is a zstd frame, made with a dictionary learnt from earlier pages where one pays."""

import contextlib
from collections.abc import Sequence

import zstandard

from engine.errors import StorageError
from engine.store.db.connector import Busy, Database

_TO_TRY = "SELECT id FROM dictionaries ORDER BY id = ? DESC, id DESC LIMIT ?"
_LEARN = "INSERT INTO dictionaries (id, body) VALUES (?, ?)"
_BODY = "SELECT body FROM dictionaries WHERE id = ?"

_PLAIN = zstandard.ZstdCompressionParameters.from_level(3, hash_log=15, chain_log=14, write_checksum=True)
"""Tables that stay in a processor's own cache: a tenth faster, and half a percent larger at most."""
_AIDED = zstandard.ZstdCompressionParameters.from_level(1, write_dict_id=True, write_checksum=True)
_LESSON, _TRIAL, _SAMPLE_BYTES = 32, 16, 32_768
"""Samples to learn from, others to try it on, and how much of a body is one."""
_APART = 1_600
"""Pages between two looks at what a dictionary saves."""
_PAYS = 0.9
"""Of what the bodies take without it, a dictionary that is worth its reading leaves so much at most."""
_SMALLEST, _LARGEST, _OF_SAMPLES = 4_096, 65_536, 4
"""Bytes of a dictionary, and of how many bytes of samples one is learnt."""
_SEGMENT, _COMPARED = 1_024, 8
"""How the learning cuts its samples: with fixed values it needs 10 ms, a quarter of what finding better ones takes."""
_RESERVED = 32_768
"""Numbers below are for dictionaries that are registered with the makers of the format (RFC 8878, 6.1)."""
_KEPT = 8
"""Dictionaries that are tried before another is learnt, and that are held ready for reading."""


class Packing:
    """Packs and unpacks the bodies of one pages.db. One owner thread."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._plain = zstandard.ZstdCompressor(compression_params=_PLAIN)
        self._number, self._compressor = 0, self._plain
        self._samples: list[bytes] = []
        self._rest = 0
        self._unpackers: dict[int, zstandard.ZstdDecompressor] = {0: zstandard.ZstdDecompressor()}

    def pack(self, bodies: Sequence[bytes]) -> list[bytes]:
        """The bodies as frames, in order."""
        return _packed(self._compressor, bodies)

    def learn(self, bodies: Sequence[bytes]) -> None:
        """Bodies were stored. Now and then it looks whether a dictionary would serve the next ones."""
        if self._rest > 0:
            self._rest -= len(bodies)
            return
        self._samples += [body[:_SAMPLE_BYTES] for body in bodies if body]
        if len(self._samples) >= _LESSON + _TRIAL:
            lesson, trial = self._samples[:_LESSON], self._samples[_LESSON : _LESSON + _TRIAL]
            self._samples = []
            with contextlib.suppress(Busy):
                self._number, self._compressor = self._serving(lesson, trial) or (0, self._plain)
                self._rest = _APART

    def unpack(self, frame: bytes) -> bytes:
        """The body in a frame. Raises StorageError where it, or its dictionary, is damaged."""
        try:
            return self._unpacker(zstandard.get_frame_parameters(frame).dict_id).decompress(frame)
        except (zstandard.ZstdError, MemoryError) as error:
            raise self._damaged(str(error) or "a size that cannot be") from error

    def _unpacker(self, number: int) -> zstandard.ZstdDecompressor:
        if number not in self._unpackers:
            dictionary = self._db.value(_BODY, (number,))
            if dictionary is None:
                raise self._damaged(f"dictionary {number} is missing")
            if len(self._unpackers) > _KEPT:
                del self._unpackers[next(number for number in self._unpackers if number)]
            self._unpackers[number] = _unpacker(dictionary)
        return self._unpackers[number]

    def _damaged(self, what: str) -> StorageError:
        return StorageError(
            f"{self._db.path}: damaged ({what})", "Restore it from a copy, or fetch the pages again in a new run."
        )

    def _serving(self, lesson: Sequence[bytes], trial: Sequence[bytes]) -> tuple[int, zstandard.ZstdCompressor] | None:
        """Number and compressor of the dictionary in use while it pays, else of another that is there or learnt now.

        All in one transaction: of several writers one learns, and the others find what it learnt. Nothing is packed
        with a dictionary that is not on disk. Raises Busy.
        """
        most = _PAYS * sum(map(len, _packed(self._plain, trial)))
        with self._db.transaction():
            there = [int(row[0]) for row in self._db.all(_TO_TRY, (self._number, _KEPT))]
            for number in there:
                aided = _paying(number, self._db.value(_BODY, (number,)), trial, most)
                if aided is not None:
                    return number, aided
            number = max(there, default=_RESERVED - 1) + 1
            dictionary = _learnt(lesson, number)
            aided = _paying(number, dictionary, trial, most)
            if aided is None:
                return None
            self._db.execute(_LEARN, (number, dictionary))
        return number, aided


def _paying(number: int, dictionary: bytes, bodies: Sequence[bytes], most: float) -> zstandard.ZstdCompressor | None:
    """What packs the bodies with it into `most` bytes, from which they come back; None where there is no such thing."""
    if not dictionary:
        return None
    try:
        aided, unpacker = _compressor(dictionary), _unpacker(dictionary)
        frames = _packed(aided, bodies)
        if sum(map(len, frames)) > most or any(zstandard.get_frame_parameters(f).dict_id != number for f in frames):
            return None  # a damaged one may name another number, or none, and nobody could read what it packs
        return aided if all(unpacker.decompress(f) == b for f, b in zip(frames, bodies, strict=True)) else None
    except zstandard.ZstdError:
        return None


def _packed(compressor: zstandard.ZstdCompressor, bodies: Sequence[bytes]) -> list[bytes]:
    # All bodies in one call: the interpreter's lock is handed around once, not once a page. It takes no empty ones.
    frames = compressor.multi_compress_to_buffer([body or b"\0" for body in bodies])
    return [frames[i].tobytes() if body else compressor.compress(b"") for i, body in enumerate(bodies)]


def _compressor(dictionary: bytes) -> zstandard.ZstdCompressor:
    prepared = zstandard.ZstdCompressionDict(dictionary)
    prepared.precompute_compress(compression_params=_AIDED)
    return zstandard.ZstdCompressor(compression_params=_AIDED, dict_data=prepared)


def _unpacker(dictionary: bytes) -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(dictionary))


def _learnt(samples: Sequence[bytes], number: int) -> bytes:
    """A dictionary; empty where the samples are too small or have too little in common."""
    size = min(_LARGEST, sum(map(len, samples)) // _OF_SAMPLES)
    if size < _SMALLEST:
        return b""
    try:
        return zstandard.train_dictionary(size, list(samples), k=_SEGMENT, d=_COMPARED, dict_id=number).as_bytes()
    except zstandard.ZstdError:
        return b""

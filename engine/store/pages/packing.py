"""Packing: a body in pages.db is a zstd frame, made with a dictionary learnt from earlier pages where one pays."""

import contextlib
from collections.abc import Sequence

import zstandard

from engine.errors import StorageError
from engine.store.db.connector import Database, DatabaseBusy

_DICTIONARIES_TO_TRY = "SELECT id FROM dictionaries ORDER BY id = ? DESC, id DESC LIMIT ?"
_ADD_DICTIONARY = "INSERT INTO dictionaries (id, body) VALUES (?, ?)"
_DICTIONARY = "SELECT body FROM dictionaries WHERE id = ?"

_PLAIN_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(3, hash_log=15, chain_log=14, write_checksum=True)
"""Tables that stay in a processor's own cache: a tenth faster, and half a percent larger at most."""
_DICTIONARY_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, write_dict_id=True, write_checksum=True)
_TRAINING_SAMPLES, _TEST_SAMPLES, _SAMPLE_BYTES = 32, 16, 32_768
"""Samples to learn from, others to try it on, and how much of a body is one."""
_TRAINING_INTERVAL = 1_600
"""Pages between two looks at what a dictionary saves."""
_MAX_RATIO = 0.9
"""Of what the bodies take without it, a dictionary that is worth its reading leaves so much at most."""
_MIN_DICTIONARY_BYTES, _MAX_DICTIONARY_BYTES, _SAMPLE_RATIO = 4_096, 65_536, 4
"""Bytes of a dictionary, and of how many bytes of samples one is learnt."""
_SEGMENT_BYTES, _DMER_BYTES = 1_024, 8
"""How the learning cuts its samples: with fixed values it needs 10 ms, a quarter of what finding better ones takes."""
_FIRST_DICTIONARY_ID = 32_768
"""Numbers below are for dictionaries that are registered with the makers of the format (RFC 8878, 6.1)."""
_MAX_DICTIONARIES = 8
"""Dictionaries that are tried before another is learnt, and that are held ready for reading."""


class BodyCompressor:
    """Packs and unpacks the bodies of one pages.db. One owner thread."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._plain_compressor = zstandard.ZstdCompressor(compression_params=_PLAIN_PARAMETERS)
        self._dictionary_id, self._compressor = 0, self._plain_compressor
        self._samples: list[bytes] = []
        self._until_training = 0
        self._decompressors: dict[int, zstandard.ZstdDecompressor] = {0: zstandard.ZstdDecompressor()}

    def compress(self, bodies: Sequence[bytes]) -> list[bytes]:
        """The bodies as frames, in order."""
        return _compress_all(self._compressor, bodies)

    def add_samples(self, bodies: Sequence[bytes]) -> None:
        """Bodies were stored. Now and then it looks whether a dictionary would serve the next ones."""
        if self._until_training > 0:
            self._until_training -= len(bodies)
            return
        self._samples += [body[:_SAMPLE_BYTES] for body in bodies if body]
        if len(self._samples) >= _TRAINING_SAMPLES + _TEST_SAMPLES:
            lesson, trial = (
                self._samples[:_TRAINING_SAMPLES],
                self._samples[_TRAINING_SAMPLES : _TRAINING_SAMPLES + _TEST_SAMPLES],
            )
            self._samples = []
            with contextlib.suppress(DatabaseBusy):
                self._dictionary_id, self._compressor = self._choose_dictionary(lesson, trial) or (
                    0,
                    self._plain_compressor,
                )
                self._until_training = _TRAINING_INTERVAL

    def decompress(self, frame: bytes) -> bytes:
        """The body in a frame. Raises StorageError where it, or its dictionary, is damaged."""
        try:
            return self._decompressor_for(zstandard.get_frame_parameters(frame).dict_id).decompress(frame)
        except (zstandard.ZstdError, MemoryError) as error:
            raise self._damaged_error(str(error) or "a size that cannot be") from error

    def _decompressor_for(self, number: int) -> zstandard.ZstdDecompressor:
        if number not in self._decompressors:
            dictionary = self._db.value(_DICTIONARY, (number,))
            if dictionary is None:
                raise self._damaged_error(f"dictionary {number} is missing")
            if len(self._decompressors) > _MAX_DICTIONARIES:
                del self._decompressors[next(number for number in self._decompressors if number)]
            self._decompressors[number] = _build_decompressor(dictionary)
        return self._decompressors[number]

    def _damaged_error(self, what: str) -> StorageError:
        return StorageError(
            f"{self._db.path}: damaged ({what})", "Restore it from a copy, or fetch the pages again in a new run."
        )

    def _choose_dictionary(
        self, lesson: Sequence[bytes], trial: Sequence[bytes]
    ) -> tuple[int, zstandard.ZstdCompressor] | None:
        """Number and compressor of the dictionary in use while it pays, else of another that is there or learnt now.

        All in one transaction: of several writers one learns, and the others find what it learnt. Nothing is packed
        with a dictionary that is not on disk. Raises Busy.
        """
        most = _MAX_RATIO * sum(map(len, _compress_all(self._plain_compressor, trial)))
        with self._db.transaction():
            there = [
                int(row[0]) for row in self._db.all(_DICTIONARIES_TO_TRY, (self._dictionary_id, _MAX_DICTIONARIES))
            ]
            for number in there:
                aided = _try_dictionary(number, self._db.value(_DICTIONARY, (number,)), trial, most)
                if aided is not None:
                    return number, aided
            number = max(there, default=_FIRST_DICTIONARY_ID - 1) + 1
            dictionary = _train_dictionary(lesson, number)
            aided = _try_dictionary(number, dictionary, trial, most)
            if aided is None:
                return None
            self._db.execute(_ADD_DICTIONARY, (number, dictionary))
        return number, aided


def _try_dictionary(
    number: int, dictionary: bytes, bodies: Sequence[bytes], most: float
) -> zstandard.ZstdCompressor | None:
    """What packs the bodies with it into `most` bytes, from which they come back; None where there is no such thing."""
    if not dictionary:
        return None
    try:
        aided, unpacker = _build_compressor(dictionary), _build_decompressor(dictionary)
        frames = _compress_all(aided, bodies)
        if sum(map(len, frames)) > most or any(zstandard.get_frame_parameters(f).dict_id != number for f in frames):
            return None  # a damaged one may name another number, or none, and nobody could read what it packs
        return aided if all(unpacker.decompress(f) == b for f, b in zip(frames, bodies, strict=True)) else None
    except zstandard.ZstdError:
        return None


def _compress_all(compressor: zstandard.ZstdCompressor, bodies: Sequence[bytes]) -> list[bytes]:
    # All bodies in one call: the interpreter's lock is handed around once, not once a page. It takes no empty ones.
    frames = compressor.multi_compress_to_buffer([body or b"\0" for body in bodies])
    return [frames[i].tobytes() if body else compressor.compress(b"") for i, body in enumerate(bodies)]


def _build_compressor(dictionary: bytes) -> zstandard.ZstdCompressor:
    prepared = zstandard.ZstdCompressionDict(dictionary)
    prepared.precompute_compress(compression_params=_DICTIONARY_PARAMETERS)
    return zstandard.ZstdCompressor(compression_params=_DICTIONARY_PARAMETERS, dict_data=prepared)


def _build_decompressor(dictionary: bytes) -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(dictionary))


def _train_dictionary(samples: Sequence[bytes], number: int) -> bytes:
    """A dictionary; empty where the samples are too small or have too little in common."""
    size = min(_MAX_DICTIONARY_BYTES, sum(map(len, samples)) // _SAMPLE_RATIO)
    if size < _MIN_DICTIONARY_BYTES:
        return b""
    try:
        return zstandard.train_dictionary(
            size, list(samples), k=_SEGMENT_BYTES, d=_DMER_BYTES, dict_id=number
        ).as_bytes()
    except zstandard.ZstdError:
        return b""

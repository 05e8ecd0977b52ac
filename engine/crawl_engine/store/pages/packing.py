"""Compresses page bodies with zstd, with a dictionary trained on earlier pages where one saves space."""

import contextlib
from collections.abc import Sequence

import zstandard

from crawl_engine.errors import StorageError
from crawl_engine.store.db.connector import Database, DatabaseBusy
from crawl_engine.store.pages.body import new_compressor

_DICTIONARIES_TO_TRY = "SELECT id, body FROM dictionaries ORDER BY id = ? DESC, id DESC LIMIT +?"

_DICTIONARY_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, write_dict_id=True, write_checksum=True)
_TRAINING_SAMPLES, _TEST_SAMPLES, _SAMPLE_BYTES = 32, 16, 32_768
"""Samples for training, further ones for testing, and the bytes taken of each body."""
_TRAINING_INTERVAL = 1_600
"""Pages between two tests of the dictionary."""
_MAX_RATIO = 0.9
"""A dictionary is used if the test samples take at most this part of their size without it."""
_MIN_DICTIONARY_BYTES, _MAX_DICTIONARY_BYTES, _SAMPLE_RATIO = 4_096, 65_536, 4
"""Size of a dictionary, and bytes of samples for each of its bytes."""
_SEGMENT_BYTES, _DMER_BYTES = 1_024, 8
"""Fixed training parameters: a search for better ones takes far longer."""
_FIRST_DICTIONARY_ID = 32_768
"""Lower ids are reserved for registered dictionaries (RFC 8878, 6.1)."""
_MAX_DICTIONARIES = 8
"""Dictionaries tried before another is trained, and decompressors kept in memory."""


class BodyCompressor:
    """Compresses and decompresses the bodies of one pages.db. Used by one thread."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._plain_compressor = new_compressor()
        self._dictionary_id, self._compressor = 0, self._plain_compressor
        self._samples: list[bytes] = []
        self._until_training = 0
        self._decompressors: dict[int, zstandard.ZstdDecompressor] = {0: zstandard.ZstdDecompressor()}

    def compress(self, bodies: Sequence[bytes]) -> list[bytes]:
        """The bodies as frames, in order."""
        return _compress_all(self._compressor, bodies)

    def add_samples(self, bodies: Sequence[bytes]) -> None:
        """Sample stored bodies; with enough samples, choose the dictionary for the next bodies."""
        if self._until_training > 0:
            self._until_training -= len(bodies)
            return
        self._samples += [body[:_SAMPLE_BYTES] for body in bodies if body]
        if len(self._samples) < _TRAINING_SAMPLES + _TEST_SAMPLES:
            return
        samples, self._samples = self._samples, []
        with contextlib.suppress(DatabaseBusy):  # new samples are taken then
            self._choose_dictionary(
                samples[:_TRAINING_SAMPLES], samples[_TRAINING_SAMPLES : _TRAINING_SAMPLES + _TEST_SAMPLES]
            )
            self._until_training = _TRAINING_INTERVAL

    def decompress(self, frame: bytes) -> bytes:
        """The body of a frame. Raises StorageError if the frame or its dictionary is damaged."""
        try:
            return self._decompressor_for(zstandard.get_frame_parameters(frame).dict_id).decompress(frame)
        except (zstandard.ZstdError, MemoryError) as error:
            raise self._damaged_error(str(error) or "an impossible size") from error

    def _decompressor_for(self, dictionary_id: int) -> zstandard.ZstdDecompressor:
        if dictionary_id not in self._decompressors:
            dictionary = self._db.value("SELECT body FROM dictionaries WHERE id = ?", (dictionary_id,))
            if dictionary is None:
                raise self._damaged_error(f"dictionary {dictionary_id} is missing")
            if len(self._decompressors) > _MAX_DICTIONARIES:
                del self._decompressors[next(id_ for id_ in self._decompressors if id_)]
            self._decompressors[dictionary_id] = _build_decompressor(dictionary)
        return self._decompressors[dictionary_id]

    def _damaged_error(self, reason: str) -> StorageError:
        return StorageError(
            f"{self._db.path}: damaged ({reason})", "Restore it from a copy, or fetch the pages again in a new run."
        )

    def _choose_dictionary(self, training: Sequence[bytes], test: Sequence[bytes]) -> None:
        """Keep the current dictionary while it saves space, else use a stored or a new one, or none.

        One transaction: of several writers one trains, and the others find its dictionary. A dictionary is on disk
        before a frame uses it. Raises DatabaseBusy.
        """
        max_bytes = _MAX_RATIO * sum(map(len, _compress_all(self._plain_compressor, test)))
        with self._db.transaction():
            stored = self._db.all(_DICTIONARIES_TO_TRY, (self._dictionary_id, _MAX_DICTIONARIES))
            for id_, dictionary in stored:
                compressor = _test_dictionary(id_, dictionary, test, max_bytes)
                if compressor is not None:
                    break
            else:
                id_ = max((row[0] for row in stored), default=_FIRST_DICTIONARY_ID - 1) + 1
                dictionary = _train_dictionary(training, id_)
                compressor = _test_dictionary(id_, dictionary, test, max_bytes)
                if compressor is not None:
                    self._db.execute("INSERT INTO dictionaries (id, body) VALUES (?, ?)", (id_, dictionary))
        self._dictionary_id, self._compressor = (0, self._plain_compressor) if compressor is None else (id_, compressor)


def _test_dictionary(
    dictionary_id: int, dictionary: bytes, bodies: Sequence[bytes], max_bytes: float
) -> zstandard.ZstdCompressor | None:
    """A compressor that packs the bodies into `max_bytes` and gets them back; None if the dictionary cannot."""
    if not dictionary:
        return None
    try:
        compressor, decompressor = _build_compressor(dictionary), _build_decompressor(dictionary)
        frames = _compress_all(compressor, bodies)
        ids = {zstandard.get_frame_parameters(frame).dict_id for frame in frames}
        if sum(map(len, frames)) > max_bytes or ids != {dictionary_id}:
            return None  # a damaged dictionary may write another id, and its frames could not be read
        restored = [decompressor.decompress(frame) for frame in frames]
    except zstandard.ZstdError:
        return None
    return compressor if restored == list(bodies) else None


def _compress_all(compressor: zstandard.ZstdCompressor, bodies: Sequence[bytes]) -> list[bytes]:
    if len(bodies) < 2:
        return [compressor.compress(body) for body in bodies]  # makes no second copy of the frame
    # one call for all bodies releases the interpreter lock once; it rejects empty ones
    frames = compressor.multi_compress_to_buffer([body or b"\0" for body in bodies])
    return [frames[i].tobytes() if body else compressor.compress(b"") for i, body in enumerate(bodies)]


def _build_compressor(dictionary: bytes) -> zstandard.ZstdCompressor:
    prepared = zstandard.ZstdCompressionDict(dictionary)
    prepared.precompute_compress(compression_params=_DICTIONARY_PARAMETERS)
    return zstandard.ZstdCompressor(compression_params=_DICTIONARY_PARAMETERS, dict_data=prepared)


def _build_decompressor(dictionary: bytes) -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(dictionary))


def _train_dictionary(samples: Sequence[bytes], dictionary_id: int) -> bytes:
    """A dictionary; empty if the samples are too small or have too little in common."""
    size = min(_MAX_DICTIONARY_BYTES, sum(map(len, samples)) // _SAMPLE_RATIO)
    if size < _MIN_DICTIONARY_BYTES:
        return b""
    try:
        return zstandard.train_dictionary(
            size, list(samples), k=_SEGMENT_BYTES, d=_DMER_BYTES, dict_id=dictionary_id
        ).as_bytes()
    except zstandard.ZstdError:
        return b""

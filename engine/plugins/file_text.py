"""Plugin files as JSON, for processes that run users' code."""

from collections.abc import Sequence

import orjson
from msgspec.structs import asdict

from engine.model.step import PluginFile


def encode_files(files: Sequence[PluginFile]) -> bytes:
    """Plugin files as the JSON that a process of users' code gets."""
    return orjson.dumps([asdict(file) for file in files])


def decode_files(text: bytes) -> tuple[PluginFile, ...]:
    """The plugin files of a JSON text from `encode_files`."""
    return tuple(PluginFile(**file) for file in orjson.loads(text))

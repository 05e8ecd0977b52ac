"""Plugin files: as JSON for processes that run plugins, on disk for programs."""

import base64
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import orjson
from msgspec.structs import asdict

from crawl_engine.model.step import PluginFile, is_plugin_path

PLUGINS = "plugins"
"""The folder for them in a data dir."""


def encode_files(files: Sequence[PluginFile]) -> bytes:
    """Plugin files as JSON for a process with plugins."""
    return orjson.dumps([asdict(file) for file in files])


def decode_files(text: bytes) -> tuple[PluginFile, ...]:
    """The plugin files of a JSON text from `encode_files`."""
    return tuple(PluginFile(**file) for file in orjson.loads(text))


def resolve_arguments(run: Sequence[str], files: Sequence[PluginFile], folder: Path) -> list[str]:
    """The arguments of a command; a plugin file (`plugins/…`) becomes the path of a copy below `folder`.

    Raises OSError.
    """
    paths = {f"plugins/{file.path}" for file in files}
    if not any(is_plugin_path(argument) and argument in paths for argument in run):
        return list(run)
    copies = write_files(files, folder)
    return [str(copies / argument.removeprefix("plugins/")) if argument in paths else argument for argument in run]


def write_files(files: Sequence[PluginFile], folder: Path) -> Path:
    """A folder below `folder` with these files, which several processes may write at once. Raises OSError."""
    digest = hashlib.blake2b(digest_size=8)
    for file in files:
        digest.update(f"{file.path}\0{file.text}\0".encode("utf-8", "surrogatepass"))
    target = folder / digest.hexdigest()
    if target.is_dir():
        return target
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder, prefix=".new-"))
    for file in files:
        path = beside / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(file.text) if file.is_base64 else file.text.encode())
        path.chmod(0o700)  # the first line of a script may name its interpreter
    try:
        os.replace(beside, target)  # noqa: PTH105  a folder of that name is another process's
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)
        if not target.is_dir():
            raise
    return target

"""Reads the files below `defs/plugins`, which become part of the defs."""

import base64
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.sources import format_display_path
from crawl_engine.model.step import PluginFile
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.plugins.source_scan import scan_source

FOLDER = "plugins"
MAX_BYTES = 4_000_000
"""Of all files together: every version of the defs stores them."""


def plugins_dir(defs: Path) -> Path:
    """Where the plugins of a defs dir, or of a single defs file, are."""
    return (defs if defs.is_dir() else defs.parent) / FOLDER


def read(defs: Path, problems: Problems) -> tuple[PluginFile, ...]:
    """All plugin files in path order. Adds unreadable ones to `problems`."""
    folder = plugins_dir(defs)
    if not folder.is_dir():
        return ()
    files: list[PluginFile] = []
    size = 0
    for path in sorted(_list_files(folder), key=lambda path: path.as_posix()):
        shown = format_display_path(defs if defs.is_dir() else defs.parent, path)
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                problems.add(SourcePosition(shown, 1, 1), "unreadable", "this is not a regular file")
                continue
            size += path.stat().st_size
            if size > MAX_BYTES:
                message = f"the files in {FOLDER}/ have more than {MAX_BYTES:,} bytes together; keep data elsewhere"
                problems.add(SourcePosition(shown, 1, 1), "too-large", message)
                return tuple(files)
            raw = path.read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            problems.add(SourcePosition(shown, 1, 1), "unreadable", f"cannot read this file: {reason}")
            continue
        files.append(_to_plugin_file(path.relative_to(folder).as_posix(), raw))
    return tuple(files)


def check(files: Iterable[PluginFile], defs: Path, problems: Problems) -> None:
    """Checks that the Python among the files can be parsed."""
    folder = plugins_dir(defs)
    for file in files:
        if file.path.endswith(".py"):
            root = defs if defs.is_dir() else defs.parent
            _check_python(file, format_display_path(root, folder / file.path), problems)


def _list_files(folder: Path) -> Iterator[Path]:
    """Without hidden names and caches, which belong to tools."""
    for at, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        yield from (Path(at, name) for name in names if not name.startswith(".") and not name.endswith((".pyc", "~")))


def _to_plugin_file(path: str, raw: bytes) -> PluginFile:
    try:
        return PluginFile(path=path, text=raw.decode())
    except UnicodeDecodeError:
        return PluginFile(path=path, text=base64.b64encode(raw).decode(), is_base64=True)


def _check_python(file: PluginFile, shown: str, problems: Problems) -> None:
    if file.is_base64:
        problems.add(SourcePosition(shown, 1, 1), "not-utf8", "Python files must be UTF-8; save it as UTF-8")
        return
    try:
        scan_source(file.text)
    except SyntaxError as error:
        place = SourcePosition(shown, error.lineno or 1, error.offset or 1)
        problems.add(place, "bad-python", f"this Python cannot be parsed: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "it is too deeply nested"
        problems.add(SourcePosition(shown, 1, 1), "bad-python", f"this Python cannot be parsed: {reason}")

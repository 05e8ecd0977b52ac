"""Finds and reads the files of the defs. Knows the file system; nothing of YAML."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePath

from engine.defs.problems import Problems, escape_unprintable
from engine.model.definition import SourcePosition

SUFFIXES = (".yml", ".yaml")
MAX_BYTES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DefFile:
    """One def file. `shown` is its name in messages and places."""

    path: Path
    display_path: str
    text: str


def format_display_path(root: Path, path: Path) -> str:
    """A file's name in messages: as the user wrote it, or below the parent of an absolute `root`: `defs/shop.yml`."""
    return escape_unprintable((path.relative_to(root.parent) if root.is_absolute() else PurePath(path)).as_posix())


def resolve_display_path(root: Path, shown: str) -> Path:
    """The file that a shown name stands for: the reverse of `shown_as`."""
    return root.parent / shown if root.is_absolute() else Path(shown)


def root_place(root: Path) -> SourcePosition:
    """The place of a mistake that no single file has."""
    return SourcePosition(format_display_path(root, root), 1, 1)


def read(root: Path, problems: Problems) -> list[DefFile]:
    """All def files below a directory, or the one file, in path order; what cannot be read is added to `problems`."""
    at = root_place(root)
    try:
        is_folder = stat.S_ISDIR(root.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        remedy = "name a directory of .yml files, or one such file"
        problems.add(at, "no-defs", f"there is no '{root}'; {remedy}")
        return []
    except (OSError, ValueError) as error:
        problems.add(at, "unreadable", f"cannot look at it: {_reason(error)}")
        return []
    paths = _list_files(root, root, problems) if is_folder else [root]
    if not paths and not problems.has_errors:
        problems.add(at, "no-defs", "no .yml or .yaml file is in this directory; put your defs here")
    read_ones = (_read_file(path, format_display_path(root, path), problems) for path in paths)
    return [source for source in read_ones if source is not None]


def _list_files(root: Path, folder: Path, problems: Problems) -> list[Path]:
    """Def files in path order. Names with a leading dot are editors' and tools' own, and are passed over."""
    found: list[Path] = []

    def unlisted(error: OSError) -> None:
        place = SourcePosition(format_display_path(root, Path(error.filename)), 1, 1)
        problems.add(place, "unreadable", f"cannot list this directory: {_reason(error)}; give it read permission")

    for at, folders, files in os.walk(folder, onerror=unlisted):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in [name for name in folders if name.endswith(SUFFIXES)]:
            folders.remove(name)
            place = SourcePosition(format_display_path(root, Path(at, name)), 1, 1)
            problems.add(place, "unreadable", "this is a directory with the name of a def file; rename it")
        found += [Path(at, name) for name in files if name.endswith(SUFFIXES) and not name.startswith(".")]
    return sorted(found, key=lambda path: path.as_posix())


def _read_file(path: Path, shown: str, problems: Problems) -> DefFile | None:
    start = SourcePosition(shown, 1, 1)
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            problems.add(start, "unreadable", "this is not a regular file; defs are text files")
            return None
        if about.st_size > MAX_BYTES:
            problems.add(start, "unreadable", f"larger than {MAX_BYTES:,} bytes; split it into several files")
            return None
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        problems.add(start, "unreadable", f"cannot read it: {_reason(error)}; mend the file or its permissions")
        return None
    try:
        return DefFile(path=path, display_path=shown, text=raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig", "replace")
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        message = f"the byte 0x{raw[error.start]:02X} is not UTF-8; save the file as UTF-8"
        problems.add(SourcePosition(shown, line, column), "not-utf8", message)
        return None


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()

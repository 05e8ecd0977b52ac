"""What a thing may be called, above all where its name becomes a file's. Knows texts and their places."""

import unicodedata

from engine.defs.problems import Problems
from engine.defs.yaml_node import YamlNode
from engine.model.definition import SourcePosition

MAX_LENGTH = 200
_SECTIONS = ("locatorGroups", "taskGroups", "dataDefs", "steps", "appenders", "hosts")


def check(root: YamlNode, problems: Problems) -> None:
    """All names of the defs: none empty or with control characters, those of files fit to be files."""
    for section in _SECTIONS:
        for name, entry in root.entries_of(section):
            _check_name(name, entry.place, problems)
    for _, group in root.entries_of("taskGroups"):
        for name, entry in group.node.entries.items():
            _check_name(name, entry.place, problems)
    for _, data_def in root.entries_of("dataDefs"):
        _check_fields(data_def.node, problems)
    _check_files(root, problems)


def fold_file_name(name: str) -> str:
    """What two names have in common when a file system may take them for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _check_files(root: YamlNode, problems: Problems) -> None:
    seen: dict[str, tuple[str, SourcePosition]] = {}
    for name, entry in root.entries_of("dataDefs"):
        _check_file_name(name, entry.place, problems)
        other, place = seen.setdefault(fold_file_name(name), (name, entry.place))
        if other != name:
            message = f"'{name}' and '{other}' ({place}) name the same file on some systems; rename one"
            problems.add(entry.place, "bad-name", message)
    for _, entry in root.entries_of("appenders"):
        path = entry.node.get("path")
        if path is not None and path.kind == "scalar":
            _check_name(path.text, path.place, problems)
            _check_file_name(path.text, path.place, problems)


def _check_fields(node: YamlNode, problems: Problems) -> None:
    for name, field in node.entries_of("fields"):
        _check_name(name, field.place, problems)
        _check_fields(field.node, problems)


def _check_name(name: str, place: SourcePosition, problems: Problems) -> None:
    why = _name_problem(name)
    if why:
        problems.add(place, "bad-name", why)


def _check_file_name(name: str, place: SourcePosition, problems: Problems) -> None:
    """What `_check_plain` lets pass may still make no file name."""
    if "/" in name or "\\" in name:
        problems.add(place, "bad-name", f"'{name}' becomes a file name and cannot hold a path separator")
    elif ".." in name or name == ".":
        problems.add(place, "bad-name", f"'{name}' becomes a file name and cannot be or hold '..'")
    elif len(name.encode()) > MAX_LENGTH:
        problems.add(place, "bad-name", f"this becomes a file name and is longer than {MAX_LENGTH} bytes")


def _name_problem(name: str) -> str | None:
    if not name.strip():
        return "a name cannot be empty"
    odd = next((char for char in name if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")), None)
    return None if odd is None else f"a name cannot hold the invisible character U+{ord(odd):04X}"

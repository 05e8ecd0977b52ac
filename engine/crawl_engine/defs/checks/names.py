"""Checks names, above all those that become file names."""

import unicodedata

from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.model.stored_form import SourcePosition

MAX_LENGTH = 200
_SECTIONS = ("locatorGroups", "taskGroups", "dataDefs", "steps", "appenders", "hosts")


def check(root: YamlNode, problems: Problems) -> None:
    """Checks all names: not empty, without invisible characters, and valid as file names if files get them."""
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
    """The form in which two names are equal if some file systems treat them as the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _check_files(root: YamlNode, problems: Problems) -> None:
    first_places: dict[str, tuple[str, SourcePosition]] = {}
    for name, entry in root.entries_of("dataDefs"):
        _check_file_name(name, entry.place, problems)
        other, place = first_places.setdefault(fold_file_name(name), (name, entry.place))
        if other != name:
            message = f"'{name}' and '{other}' ({place}) name the same file on some systems; rename one"
            problems.add(entry.place, "bad-name", message)
    for _, entry in root.entries_of("appenders"):
        path = entry.node.get("path")
        if path is not None and path.kind == "scalar":
            _check_name(path.text, path.place, problems)


def _check_fields(node: YamlNode, problems: Problems) -> None:
    for name, field in node.entries_of("fields"):
        _check_name(name, field.place, problems)
        _check_fields(field.node, problems)


def _check_name(name: str, place: SourcePosition, problems: Problems) -> None:
    problem = _name_problem(name)
    if problem:
        problems.add(place, "bad-name", problem)


def _check_file_name(name: str, place: SourcePosition, problems: Problems) -> None:
    """Checks what `_check_name` does not: whether a valid name is also a valid file name."""
    if "/" in name or "\\" in name:
        problems.add(place, "bad-name", f"'{name}' becomes a file name and cannot contain a path separator")
    elif ".." in name or name == ".":
        problems.add(place, "bad-name", f"'{name}' becomes a file name and cannot be '.' or contain '..'")
    elif len(name.encode()) > MAX_LENGTH:
        problems.add(place, "bad-name", f"this name becomes a file name and is longer than {MAX_LENGTH} bytes")


def _name_problem(name: str) -> str | None:
    if not name.strip():
        return "a name cannot be empty"
    invisible = next((char for char in name if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")), None)
    return None if invisible is None else f"a name cannot contain the invisible character U+{ord(invisible):04X}"

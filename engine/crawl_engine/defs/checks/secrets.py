"""Finds the secret files of requests, those that cannot be read, and secrets written as literals."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from crawl_engine import urls
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Keys, YamlNode, iter_scalars
from crawl_engine.defs.yaml.sources import resolve_beside
from crawl_engine.errors import DefsError
from crawl_engine.late_regex import late_regex
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.model.variables import (
    SECRET_PREFIXES,
    UnusableVariable,
    has_secrets,
    holds_literal,
    read_secret,
    variable_names,
)

_FILE = late_regex(r"(%%\{)|%\{file\.([^{}]*)\}")
_CREDENTIAL = late_regex(
    r"auth|cookie|token|secret|passw|api.?key|sess|credential|jwt|csrf|(?:^|[-_])sid$", re.IGNORECASE
)
"""Names of headers and cookies that carry credentials."""
_DATABASE_PASSWORD = late_regex(r"postgres(?:ql)?://(?:[^/?#]*?:([^/?#]*)@|.*[?&]password=([^&]*))")
UNSET = "unset-variable"
"""The code of a problem: the secret of a variable cannot be read."""
_BODIES = frozenset({"body", "form", "json"})


def resolve_files(root: YamlNode, file: Path) -> None:
    """Make the paths of `%{file.PATH}` absolute: they are relative to the file of the defs."""
    for _, node in iter_scalars(root):
        if "%{file." in node.text:
            node.text = _FILE.sub(lambda match: match[1] or f"%{{file.{resolve_beside(file, match[2])}}}", node.text)


def require_secrets(root: YamlNode, files: tuple[str, ...]) -> None:
    """Before defs are in force: raise DefsError if the secret of a variable of a request cannot be read."""
    problems = Problems()
    for place, reason in find_unusable(root):
        problems.add(place, UNSET, reason)
    if problems.has_errors:
        raise DefsError(problems.in_file_order(files))


def find_unusable(root: YamlNode) -> Iterator[tuple[SourcePosition, str]]:
    """The places of variables of requests whose secrets cannot be read here and now, each with the reason."""
    for path, node in iter_scalars(root):
        if path[:1] == ("dataDefs",) and not {"links", "next"} & set(path[2:]):
            continue
        for name in variable_names(node.text):
            try:
                if name.startswith(SECRET_PREFIXES):
                    read_secret(name, os.environ)
            except UnusableVariable as error:
                yield node.place, str(error)


def warn_of_literals(root: YamlNode, problems: Problems) -> None:
    """Warn of literals where secrets stand: they are stored in the data directory."""
    for path, node in iter_scalars(root):
        if _is_literal_secret(path, node.text):
            _warn(problems, node, f"`{_section(path)}` has a literal secret")
    for _, host in root.entries_of("hosts"):
        login = host.node.get("login")
        form = None if login is None else login.get("form")
        if form is not None and form.entries and not any(has_secrets(node.text) for _, node in iter_scalars(form)):
            _warn(problems, form, "`form` of the login has literal secrets")


def _is_literal_secret(path: Keys, text: str) -> bool:
    if path[:1] == ("dataDefs",) and path[-2:-1] == ("headers",) and {"links", "next"} & set(path):
        return _CREDENTIAL.search(path[-1]) is not None and not variable_names(text)
    if not path or path[0] not in ("locatorGroups", "hosts", "appenders", "baseUrl"):
        return False
    section = _section(path)
    if section == "auth":
        return not has_secrets(text)
    if section in ("headers", "cookies"):
        return _CREDENTIAL.search(path[-1]) is not None and not has_secrets(text) and holds_literal(text)
    if not _BODIES.isdisjoint(path):
        return False
    database = _DATABASE_PASSWORD.match(text)
    password = (database[1] or database[2]) if database else urls.split_userinfo(text)[1].partition(":")[2]
    return bool(password) and not has_secrets(password)


def _section(path: Keys) -> str:
    """The key that a message names."""
    return next((key for key in path[-2:] if key in ("auth", "headers", "cookies")), path[-1])


def _warn(problems: Problems, node: YamlNode, text: str) -> None:
    message = f"{text}, which the data directory will hold; write `%{{env.NAME}}` or `%{{file.PATH}}`"
    problems.warn(node.place, "literal-secret", message)

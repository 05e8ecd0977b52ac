"""The text of a def file as a screen may show it: without the secrets that stand in it."""

from collections.abc import Iterator

from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.defs.yaml.tree import parse
from crawl_engine.late_regex import late_regex
from crawl_engine.model.host import SAFE_HEADERS
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.model.variables import holds_literal

HIDDEN = "•••"
_SECTIONS = frozenset({"headers", "cookies", "auth", "form"})
_SECTION = late_regex(r"\b(?:headers|cookies|auth|form)['\"]?\s*:")
_USERINFO = late_regex(r"(//)[^/\s'\"]+(?=@)")
_VALUE = late_regex(r"(^\s*(?:- *)?(?:[^\s:]+:)?\s*).*")
_REMARK = late_regex(r"((?:^|\s)#\s*)(.*)")
_DISTINCT = 8
"""Characters of a secret that is hidden in remarks, too."""


def shown_lines(text: str) -> list[str]:
    """The lines, each secret replaced by `•••`: values of headers, cookies, `auth` and forms, and credentials in URLs.

    A remark that holds one is hidden as a whole: a missing word would tell the secret. Of a file that is not YAML, all
    that stands in those sections is hidden.
    """
    lines = text.splitlines()
    root = parse(text, "", Problems())
    secrets = {} if root is None else {node.place: node.text for node in _secrets(root, secret=False)}
    backwards = sorted(
        secrets, key=lambda place: (place.line, place.column), reverse=True
    )  # so that columns stay right
    if root is None or not all(_hide(lines, place, secrets[place]) for place in backwards):
        lines = _without_sections(text.splitlines())
    remarks = "\n".join(match[2] for line in lines if (match := _REMARK.search(line)))
    parts = {part for secret in secrets.values() for part in (secret, *secret.split(":", 1))}
    in_remarks = [part for part in parts if len(part) >= _DISTINCT and part in remarks and holds_literal(part)]
    return [_USERINFO.sub(rf"\1{HIDDEN}", _hide_remark(line, in_remarks)) for line in lines]


def _secrets(node: YamlNode, *, secret: bool) -> Iterator[YamlNode]:
    """The scalars below that are secrets."""
    if node.kind == "scalar":
        if secret and holds_literal(node.text):
            yield node
        return
    for item in node.items:
        yield from _secrets(item, secret=secret)
    for key, entry in node.entries.items():
        is_secret = (secret and key.lower() not in SAFE_HEADERS) or key in _SECTIONS
        yield from _secrets(entry.node, secret=is_secret)


def _hide(lines: list[str], place: SourcePosition, secret: str) -> bool:
    """Hide a secret in its line; False if the line does not hold its text, for example if it spans several lines."""
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    at = line.find(secret, max(0, place.column - 1))
    if at < 0:
        return False
    lines[place.line - 1] = line[:at] + HIDDEN + line[at + len(secret) :]
    return True


def _hide_remark(line: str, secrets: list[str]) -> str:
    """The line, its remark hidden if that holds a secret."""
    remark = _REMARK.search(line) if secrets else None
    if remark is None or not any(secret in remark[2] for secret in secrets):
        return line
    return f"{line[: remark.start(2)]}{HIDDEN}"


def _without_sections(lines: list[str]) -> list[str]:
    """The lines without the values in the sections, which end where the indentation does."""
    shown: list[str] = []
    section: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        match = _SECTION.search(line)
        if section is not None and (indent > section or not line.strip()):
            shown.append(_VALUE.sub(rf"\g<1>{HIDDEN}", line) if line.strip() else line)
            continue
        section = indent if match is not None else None
        shown.append(
            line if match is None else line[: match.end()] + (f" {HIDDEN}" if line[match.end() :].strip() else "")
        )
    return shown

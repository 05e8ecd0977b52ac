"""Finds and substitutes `%{name}` variables in texts of the defs. `%%{` is a literal `%{`."""

import re
from collections.abc import Callable, Mapping

_TOKEN = re.compile(r"%%\{|%\{([^{}]*)\}")

DOCUMENT_VARIABLES = frozenset(
    {
        "document.url",
        "document.fetchedAt",
        "document.status",
        "locator.name",
        "locator.group",
        "locator.url",
        "depth",
        "run.id",
        "run.time",
    }
)
"""Variables of a field's `value`; `env.NAME` is only for locators and hosts."""
CARRIED = "carried."
"""Begins the names of variables with what the page that leads to this one carries to it."""


class UnusableVariable(LookupError):
    """An environment variable that a text names is not set, or is no text."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"environment variable {name} {problem}")
        self.name = name


def variable_names(text: str) -> tuple[str, ...]:
    """The names of the variables in a text, in order."""
    return tuple(m.group(1) for m in _TOKEN.finditer(text) if m.group(1) is not None)


def render(text: str, lookup: Callable[[str], str | None]) -> str:
    """The text with each variable replaced; a variable for which `lookup` returns None stays as written."""
    if "%{" not in text:
        return text

    def substitute(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "%{"
        value = lookup(name)
        return match.group(0) if value is None else value

    return _TOKEN.sub(substitute, text)


def render_environment(text: str, environment: Mapping[str, str], encode: Callable[[str], str] | None = None) -> str:
    """The text with each `%{env.NAME}` replaced, encoded for the place where it stands. Raises UnusableVariable."""

    def look_up(name: str) -> str | None:
        if not name.startswith("env."):
            return None
        variable = name.removeprefix("env.")
        if variable not in environment:
            raise UnusableVariable(variable, "is not set")
        value = environment[variable]
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise UnusableVariable(variable, "is not UTF-8")
        return value if encode is None else encode(value)

    return render(text, look_up)

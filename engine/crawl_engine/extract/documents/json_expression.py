"""A JMESPath expression that is compiled once and never raises on a value."""

import re
from collections.abc import Callable
from typing import Any

from crawl_engine.late_regex import late_regex

_NAME = r'(?:[A-Za-z_]\w*|"[^"\\]+")'
_PATH = late_regex(rf"(?:@|{_NAME})(?:\.{_NAME}|\[-?\d{{1,9}}\]|\[\])*", re.ASCII)
"""Most expressions are a path of names, indexes and `[]`, which is quickly read directly."""
_STEP = late_regex(r'"[^"]+"|\w+|\[-?\d+\]|\[\]', re.ASCII)

_Step = Callable[[Any], Any]


class JsonExpression:
    """A compiled expression. Thread-safe."""

    def __init__(self, text: str) -> None:
        """Raises `ValueError`."""
        self.search: Callable[[Any], Any] = self._search_safely
        """What the expression selects in a JSON value; None if it selects nothing or does not fit the value."""
        if _PATH.fullmatch(text):
            self.search = _compile_path(_STEP.findall(text.removeprefix("@")))
            return
        import jmespath  # few defs need it

        try:
            self._search = jmespath.compile(text).search
        except RecursionError:
            raise ValueError("the JMESPath expression is nested too deep") from None

    def _search_safely(self, value: Any) -> Any:
        try:
            return self._search(value)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError):
            return None


def list_names(text: str) -> set[str]:
    """The names of keys that an expression reads. Raises `ValueError`."""
    import jmespath

    names, todo = set[str](), [jmespath.compile(text).parsed]
    while todo:
        node = todo.pop()
        if node["type"] == "field":
            names.add(str(node["value"]))
        todo.extend(child for child in node["children"] if isinstance(child, dict))
    return names


def _compile_path(steps: list[str]) -> _Step:
    """A function for a path: each part behind a `[]` goes through the values of the list before it."""
    parts: list[list[str | int]] = [[]]
    for step in steps:
        if step == "[]":
            parts.append([])
        else:
            parts[-1].append(int(step[1:-1]) if step[0] == "[" else step.strip('"'))
    first, *others = [_compile_part(part) for part in parts]
    return _through_lists(first, others) if others else first


def _through_lists(first: _Step, others: list[_Step]) -> _Step:
    def read(value: Any) -> Any:
        value = first(value)
        for part in others:
            if type(value) is not list:
                return None
            flat = [inner for item in value for inner in (item if type(item) is list else (item,))]
            value = [found for item in flat if (found := part(item)) is not None]
        return value

    return read


def _compile_part(steps: list[str | int]) -> _Step:
    """A function for names and indexes alone. The most common case, one name, has a shorter one."""
    match steps:
        case [str(name)]:
            return lambda value: value.get(name) if type(value) is dict else None

    def read(value: Any) -> Any:
        for step in steps:
            if isinstance(step, str):
                value = value.get(step) if type(value) is dict else None
            elif type(value) is list and -len(value) <= step < len(value):
                value = value[step]
            else:
                return None
        return value

    return read

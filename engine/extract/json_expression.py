"""A JMESPath expression that is compiled once and never raises on a value."""

import re
from collections.abc import Callable
from typing import Any

_NAME = r'(?:[A-Za-z_]\w*|"[^"\\]+")'
_PATH = re.compile(rf"(?:@|{_NAME})(?:\.{_NAME}|\[-?\d{{1,9}}\]|\[\])*", re.ASCII)
"""Most expressions are a path of names, indexes and `[]`: reading it directly takes a tenth of the time."""
_STEP = re.compile(r'"[^"]+"|\w+|\[-?\d+\]|\[\]', re.ASCII)

_Step = Callable[[Any], Any]


class JsonExpression:
    """A compiled expression. Thread-safe."""

    def __init__(self, text: str) -> None:
        """Raises `ValueError`."""
        self.search: Callable[[Any], Any] = self._search_safely
        """What the expression selects in a JSON value; None if it selects nothing, or does not fit the value."""
        if _PATH.fullmatch(text):
            self._parts = _split_at_lists(_STEP.findall(text.removeprefix("@")))
            self.search = self._read_name if len(self._parts) == 1 and len(self._parts[0]) == 1 else self._read_path
            return
        import jmespath  # takes 10 ms, and few defs need it

        try:
            self._search = jmespath.compile(text).search
        except RecursionError:
            raise ValueError("the JMESPath expression is nested too deep") from None

    def _search_safely(self, value: Any) -> Any:
        try:
            return self._search(value)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError):
            return None

    def _read_name(self, value: Any) -> Any:
        return self._parts[0][0](value)

    def _read_path(self, value: Any) -> Any:
        """Read the first part; each further one goes through the values of the list before it."""
        first, *others = self._parts
        value = _walk(value, first)
        for part in others:
            if type(value) is not list:
                return None
            flat = [inner for item in value for inner in (item if type(item) is list else (item,))]
            value = [_walk(item, part) for item in flat] if part else flat
            value = [item for item in value if item is not None]
        return value


def _split_at_lists(steps: list[str]) -> list[tuple[_Step, ...]]:
    """The steps between the `[]` of a path."""
    parts: list[list[_Step]] = [[]]
    for step in steps:
        if step == "[]":
            parts.append([])
        elif step[0] == "[":
            parts[-1].append(_index(int(step[1:-1])))
        else:
            parts[-1].append(_member(step.strip('"')))
    return [tuple(part) for part in parts]


def _walk(value: Any, steps: tuple[_Step, ...]) -> Any:
    for step in steps:
        value = step(value)
        if value is None:
            return None
    return value


def _member(name: str) -> _Step:
    return lambda value: value.get(name) if type(value) is dict else None


def _index(at: int) -> _Step:
    def read(value: Any) -> Any:
        return value[at] if type(value) is list and -len(value) <= at < len(value) else None

    return read

"""A JMESPath expression that is compiled once and never raises on a value."""

import re
from collections.abc import Callable
from typing import Any

_PATH = re.compile(r'(?:[A-Za-z_]\w*|"[^"\\]+")(?:\.(?:[A-Za-z_]\w*|"[^"\\]+"))*', re.ASCII)
"""Most expressions are a path of names: reading it directly takes a twentieth of the time."""
_NAME = re.compile(r'\w+|"[^"]+"', re.ASCII)


class JsonExpression:
    """A compiled expression. Thread-safe."""

    def __init__(self, text: str) -> None:
        """Raises `ValueError`."""
        self._names: tuple[str, ...] = ()
        self.search: Callable[[Any], Any] = self._search_safely
        """What the expression selects in a JSON value; None if it selects nothing, or does not fit the value."""
        if _PATH.fullmatch(text):
            self._names = tuple(name.strip('"') for name in _NAME.findall(text))
            self.search = self._read_path
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

    def _read_path(self, value: Any) -> Any:
        for name in self._names:
            if type(value) is not dict:
                return None
            value = value.get(name)
        return value

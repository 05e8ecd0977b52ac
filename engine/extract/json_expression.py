"""A JMESPath expression that is compiled once and never raises on a value."""

from typing import Any


class JsonExpression:
    """A compiled expression. Thread-safe."""

    def __init__(self, text: str) -> None:
        """Raises `ValueError`."""
        import jmespath  # takes 10 ms, and few defs need it

        try:
            self._search = jmespath.compile(text).search
        except RecursionError:
            raise ValueError("the JMESPath expression is nested too deep") from None

    def search(self, value: Any) -> Any:
        """What the expression selects in a JSON value; None if it selects nothing, or does not fit the value."""
        try:
            return self._search(value)
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError):
            return None

"""How fields reach the converters of users' code."""

from collections.abc import Callable

FieldConverter = Callable[[str], str]
"""Converts the text of a field; an empty text: the value is missing. Raises ValueError: the record is rejected."""
ConverterSource = Callable[[str], FieldConverter]
"""Finds a converter by its name in the defs. Raises ValueError."""


def no_converters(name: str) -> FieldConverter:
    """Raises ValueError: users' code runs in extraction processes alone."""
    raise ValueError(f"the converter {name} is not available here")

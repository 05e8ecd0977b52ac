"""The types of fields, and which keys a field of a type may have."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

FieldType = Literal[
    "str", "int", "float", "decimal", "bool", "date", "url", "json", "price", "table", "file", "markdown"
]
MARKED_TYPES: Mapping[str, tuple[FieldType, ...]] = MappingProxyType(
    {
        "decimalMark": ("float", "decimal", "price"),
        "groupMark": ("int", "float", "decimal", "price"),
        "magnitudes": ("int", "float", "decimal"),
    }
)
"""By key, the types of numbers that may be written with it."""

"""The types of fields, each declared once; `extract/fields/types` reads their values."""

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.errors import UsageError
from crawl_engine.installed import FIELD_TYPES as GROUP
from crawl_engine.installed import NameTable

Stored = Literal["text", "int", "float", "decimal", "bool", "json", "rows", "object"]
"""What a row holds: rows are a list of objects, an object has `parts`."""
ColumnKind = Literal[
    "str", "int", "float", "decimal", "bool", "date", "url", "json", "price", "table", "file", "markdown"
]
"""The kinds of columns: of most types their own; a price and a file are objects of `parts`."""


Need = tuple[str, str | bool] | None
"""The key, and its value, without which another key has no effect."""


class TypeKey(Struct, frozen=True):
    """A key that fields of a type may have, and of others only some."""

    name: str
    beside: Need = None
    values: tuple[str, ...] = ()
    """What it may be; empty: anything that its kind allows."""
    in_step: bool = False
    """Whether a field that a step fills may have it."""


class FieldType(Struct, frozen=True, kw_only=True):
    """The part of a type that the program uses without the type's reader."""

    name: str
    stored: Stored = "text"
    keys: tuple[TypeKey, ...] = ()
    """Its own keys."""
    has_text: bool = True
    """Whether a value is read from a text, which the keys of a field edit."""
    has_map: bool = True
    """Whether its values may be those of `map`."""
    whole: str = ""
    """What `split` would cut; empty: its texts may be split."""
    keeps_space: bool = False
    """Whether white space around a value may belong to it."""
    is_match: bool = False
    """Whether `match` makes the value: true where it is found."""
    is_default_read: bool = True
    """Whether a default that cannot be read is a problem of the defs, and not of the records that lack the field."""
    parts: tuple[tuple[str, str], ...] = ()
    """By name, the types of the values in its value."""
    column: ColumnKind = "str"
    """In typed outputs: Parquet, DuckDB, PostgreSQL, SQLite and Excel; one of parts is an object."""
    extra: str = ""
    """The extra of the package that its reader needs."""
    is_slow: bool = False
    """Whether its pages are extracted in a process of their own in any case, as those of packages are."""
    reader: str = ""
    """`module:name` of its `TypeReader`; empty: `READER` of the built-in module that has its name."""

    @property
    def keeps_written(self) -> bool:
        """Whether a default keeps its digits and signs as written: `0.10` is not `0.1`, `+49` is not 49."""
        return self.stored in ("text", "decimal", "object")

    def find_key(self, name: str) -> TypeKey | None:
        """Its own key of that name."""
        return next((key for key in self.keys if key.name == name), None)


_MAGNITUDES = ("magnitudes", True)
UNIX_FORMATS: Mapping[str, int] = MappingProxyType({"unix": 1, "unix-ms": 1_000})
"""The formats of dates that are numbers: how many of their units are a second."""
_MARKS = (TypeKey("decimalMark"), TypeKey("groupMark"))
_OF_NUMBERS = (TypeKey("magnitudes"), TypeKey("locale", beside=_MAGNITUDES))
_NUMBERS = "crawl_engine.extract.fields.types.numbers"
_URLS = "crawl_engine.extract.fields.types.urls"
_BUILT_IN: Mapping[str, FieldType] = MappingProxyType(
    {
        type_.name: type_
        for type_ in (
            FieldType(name="str", keeps_space=True),
            FieldType(
                name="int", stored="int", column="int", reader=f"{_NUMBERS}:INT",
                keys=(TypeKey("decimalMark", beside=_MAGNITUDES), TypeKey("groupMark"), *_OF_NUMBERS),
            ),
            FieldType(
                name="float", stored="float", column="float", reader=f"{_NUMBERS}:FLOAT", keys=(*_MARKS, *_OF_NUMBERS)
            ),
            FieldType(
                name="decimal", stored="decimal", column="decimal", reader=f"{_NUMBERS}:DECIMAL",
                keys=(*_MARKS, *_OF_NUMBERS),
            ),
            FieldType(name="bool", stored="bool", column="bool", is_match=True),
            FieldType(
                name="date", column="date", is_default_read=False,
                keys=(TypeKey("format", in_step=True), TypeKey("locale", beside=("format", "any"), in_step=True)),
            ),
            FieldType(name="url", column="url", is_default_read=False, reader=f"{_URLS}:URL"),
            FieldType(name="json", stored="json", column="json", has_map=False, whole="JSON text"),
            FieldType(
                name="price", stored="object", column="price", parts=(("amount", "decimal"), ("currency", "str")),
                keys=(TypeKey("decimalMark", values=(",", ".")), TypeKey("groupMark"), TypeKey("locale", in_step=True)),
            ),
            FieldType(name="table", stored="rows", column="table", keys=(TypeKey("header"),), has_text=False),
            FieldType(
                name="file", column="file", is_default_read=False, reader=f"{_URLS}:FILE",
                parts=(
                    ("path", "str"), ("size", "int"), ("hash", "str"), ("type", "str"), ("name", "str"), ("url", "str")
                ),
            ),
            FieldType(
                name="markdown", column="markdown", has_map=False, whole="HTML", extra="markdown", is_slow=True
            ),
        )
    }
)  # fmt: skip
FIELD_TYPES = NameTable(GROUP, _BUILT_IN, lambda entry: isinstance(entry, FieldType), "a FieldType")
OWN_KEYS = tuple(dict.fromkeys(key.name for type_ in _BUILT_IN.values() for key in type_.keys))
"""The keys that only some types have."""
STEP_KEYS = tuple(dict.fromkeys(key.name for type_ in _BUILT_IN.values() for key in type_.keys if key.in_step))
"""Those of them that fields may have which a step fills."""


def find_field_type(name: str) -> FieldType:
    """The type of that name; one that is not installed is a text, and told where it is read."""
    with suppress(KeyError, UsageError):
        type_ = FIELD_TYPES[name]
        return type_ if type_.name == name else replace(type_, name=name)
    return FieldType(name=name)


def is_built_in(name: str) -> bool:
    """Whether a type is part of the program, and none of an installed package."""
    return name in _BUILT_IN


def needs_process(name: str) -> bool:
    """Whether pages with such a field are never extracted in a node. No package is imported to know it."""
    return not is_built_in(name) or _BUILT_IN[name].is_slow


def types_with(key: str, types: Mapping[str, FieldType] = _BUILT_IN) -> list[tuple[Need, list[str]]]:
    """The names of the types that have a key, by what it must stand beside."""
    by_need: dict[Need, list[str]] = {}
    for type_ in types.values():
        if (own := type_.find_key(key)) is not None:
            by_need.setdefault(own.beside, []).append(type_.name)
    return [*by_need.items()]

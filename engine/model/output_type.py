"""Lists the output types; `engine/append/formats/<name>.py` implements a type of files."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

OutputTypeName = Literal["csv", "jsonl", "scoopi", "sqlite", "duckdb"]


class OutputType(Struct, frozen=True, kw_only=True):
    """The part of a type that the program uses without the type's implementation."""

    name: OutputTypeName
    suffixes: tuple[str, ...]
    """File suffixes without the dot; new files get the first one."""
    shared_file: bool = False
    """Whether one file can hold the rows of several dataDefs."""
    typed: bool = False
    """Whether its columns have the types of the fields, and of list items."""


SCOOPI: Literal["scoopi"] = "scoopi"
"""Lines without header and quotes, as Scoopi writes them."""

OUTPUT_TYPES: Mapping[str, OutputType] = MappingProxyType(
    {
        "csv": OutputType(name="csv", suffixes=("csv",)),
        "jsonl": OutputType(name="jsonl", suffixes=("jsonl",)),
        SCOOPI: OutputType(name="scoopi", suffixes=("txt",)),
        "sqlite": OutputType(name="sqlite", suffixes=("db", "sqlite"), shared_file=True),
        "duckdb": OutputType(name="duckdb", suffixes=("duckdb",), shared_file=True, typed=True),
    }
)
_BY_SUFFIX = tuple(type_ for type_ in OUTPUT_TYPES.values() if type_.name != SCOOPI)
"""Types that a suffix stands for; `.txt` may be anything."""
SENDER_TYPES: tuple[str, ...] = ("http", "command")
"""Types without a file: rows are sent to a URL, or to a program."""


def default_delimiter(type_: str) -> str:
    """The delimiter of values if an appender sets none."""
    return "|" if type_ == SCOOPI else ","


def is_shared_file(type_: str) -> bool:
    """Whether one file of a type can hold the rows of several dataDefs; False for plugin types."""
    return type_ in OUTPUT_TYPES and OUTPUT_TYPES[type_].shared_file


def is_typed(type_: str) -> bool:
    """Whether the columns of a type have the types of the fields; False for plugin types."""
    return type_ in OUTPUT_TYPES and OUTPUT_TYPES[type_].typed


def output_type_for_suffix(suffix: str) -> OutputType | None:
    """The type that a suffix stands for, with or without the dot, in any case. None for others, such as `.txt`."""
    plain = suffix.lower().removeprefix(".")
    return next((type_ for type_ in _BY_SUFFIX if plain in type_.suffixes), None)


def describe_suffixes() -> str:
    """The suffixes that stand for a type: `.csv, .jsonl, .db or .sqlite`."""
    *others, last = (f".{each}" for type_ in _BY_SUFFIX for each in type_.suffixes)
    return f"{', '.join(others)} or {last}"

"""Appenders and their output types; `append/formats/<name>.py` implements a type of files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Struct, field

from crawl_engine.errors import UsageError
from crawl_engine.installed import OUTPUTS, NameTable
from crawl_engine.late_regex import late_regex
from crawl_engine.model.declaration import (
    BatchSize,
    Character,
    DefKey,
    HeaderValue,
    OutputPath,
    Seconds,
    SenderUrl,
    Text,
)
from crawl_engine.model.stored_form import NO_POSITION, OMIT_DEFAULT, SourcePosition

POSTGRESQL: Literal["postgresql"] = "postgresql"
FILES: Literal["files"] = "files"
SCOOPI: Literal["scoopi"] = "scoopi"
"""Lines without header and quotes, as Scoopi writes them."""
STORE_SCHEMES: tuple[str, ...] = ("s3", "gs", "az", "file")
"""What the URL of an object may begin with."""
SENDER_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "http": "Posts rows to a URL.",
        "command": "Writes rows into a program, one JSON line each.",
        POSTGRESQL: "Writes rows to tables of PostgreSQL, each change exactly once.",
    }
)
"""Types without a file, each with what it does: rows are sent to a URL, to a program, or to a database."""
DATABASE_URL_STARTS = ("postgresql://", "postgres://")
DATA_DEF = "{dataDef}"
PATH_NAMES = (DATA_DEF, "{run.id}", "{run.date}", "{run.time}")
"""What a `path` may hold, in its order."""
PATH_NAME = late_regex(r"\{[^{}]*\}")
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
AppenderKind = Literal["built-in", "encoder", "appender", "sender"]


class OutputType(Struct, frozen=True, kw_only=True):
    """The part of a type that the program uses without the type's implementation."""

    name: str
    summary: str
    """What it writes, in one sentence."""
    suffixes: tuple[str, ...]
    """File suffixes without the dot; new files get the first one."""
    shared_file: bool = False
    """Whether one file can hold the rows of several dataDefs."""
    compressible: bool = False
    """Whether its files are streams of bytes, which an ending such as `.gz` compresses."""
    whole: bool = False
    """Whether its files cannot grow: they are written again as a whole."""
    final_at_end: bool = False
    """Whether a whole file is written once more when its run ends, since some of it is not known before."""
    has_column_types: bool = False
    """Whether the settings of its outputs have `column_types`."""
    unchecked: str = ""
    """Why `state --verify` does not compare its files; empty: it does."""
    format: str = ""
    """`module:name` of its `OutputFormat`; empty: `FORMAT` of the built-in module that has its name."""


_BUILT_IN: Mapping[str, OutputType] = MappingProxyType(
    {
        type_.name: type_
        for type_ in (
            OutputType(
                name="csv", suffixes=("csv",), compressible=True,
                summary="RFC 4180 with a header line; lines end in CRLF.",
            ),
            OutputType(
                name="jsonl", suffixes=("jsonl",), compressible=True,
                summary="One JSON object per line, as it is stored.",
            ),
            OutputType(
                name="json", suffixes=("json",), compressible=True, whole=True,
                summary="One JSON array per dataDef, written whole.",
            ),
            OutputType(
                name="parquet", suffixes=("parquet",), whole=True, has_column_types=True,
                summary="One file per dataDef with typed columns, written whole.",
            ),
            OutputType(
                name="xlsx", suffixes=("xlsx",), whole=True, has_column_types=True,
                summary="One workbook of Excel per dataDef with typed cells, written whole.",
            ),
            OutputType(
                name=FILES, suffixes=("links",), whole=True, format="crawl_engine.append.formats.named_files:FORMAT",
                summary="The downloaded files in a folder, under names of fields, and a list of them.",
            ),
            OutputType(
                name=SCOOPI, suffixes=("txt",), compressible=True,
                summary="The values of a row in one line, with `|` between them, without header and quotes.",
            ),
            OutputType(
                name="sqlite", suffixes=("db", "sqlite"), shared_file=True,
                summary="One table per dataDef; rows and their cursor move in one transaction.",
            ),
            OutputType(
                name="duckdb", suffixes=("duckdb",), shared_file=True, has_column_types=True,
                summary="One typed table per dataDef; rows and their cursor move in one transaction.",
                unchecked="a DuckDB file is not compared",
            ),
        )
    }
)  # fmt: skip
CHANGES_OF: Mapping[str, str] = MappingProxyType({"csv": "csv-changes", "jsonl": "jsonl-changes"})
"""The type of an output with `changes`, by the `type` that is written."""
_CHANGES: Mapping[str, OutputType] = MappingProxyType(
    {
        name: OutputType(
            name=name, suffixes=(f"changes.{type_}",), compressible=True, whole=True, final_at_end=True,
            summary="What differs from an earlier run, written whole.",
            unchecked="a comparison with another run is not compared",
        )
        for type_, name in CHANGES_OF.items()
    }
)  # fmt: skip
OUTPUT_TYPES = NameTable(
    OUTPUTS,
    _BUILT_IN,
    lambda entry: isinstance(entry, OutputType),
    "an OutputType",
    is_taken=lambda name: "." in name or name in SENDER_TYPES,  # a dot: a class of the project
    unlisted=_CHANGES,
)


def default_delimiter(type_: str) -> str:
    """The delimiter of values if an appender sets none."""
    return "|" if type_ == SCOOPI else ","


def is_shared_file(type_: str) -> bool:
    """Whether one file of a type can hold the rows of several dataDefs; False for plugin types."""
    return type_ in OUTPUT_TYPES and OUTPUT_TYPES[type_].shared_file


def has_column_types(type_: str) -> bool:
    """Whether the settings of outputs of a type have the types of their columns; False for plugin types."""
    return type_ == POSTGRESQL or (type_ in OUTPUT_TYPES and OUTPUT_TYPES[type_].has_column_types)


def can_delimit(text: str) -> bool:
    """Whether a text can stand between the values of CSV."""
    return len(text) == 1 and text not in '"\r\n'


def is_object(path: str) -> bool:
    """Whether a path is the URL of an object: it is written whole."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme in STORE_SCHEMES


def local_path_of(url: str) -> Path | None:
    """The path of a `file://` URL; None for other stores."""
    return Path(url.removeprefix("file://")) if url.startswith("file://") else None


def is_final_at_end(type_: str) -> bool:
    """Whether files of a type are written once more when their run ends; False for plugin types."""
    return type_ in OUTPUT_TYPES and OUTPUT_TYPES[type_].final_at_end


def is_whole(type_: str) -> bool:
    """Whether files of a type cannot grow; False for plugin types."""
    return type_ in OUTPUT_TYPES and OUTPUT_TYPES[type_].whole


def output_type_of(file: str | Path) -> OutputType | None:
    """The type that the ending of a file stands for, in any case. None for others, such as `.txt`."""
    name = Path(file).name
    suffix = Path(Path(name).stem if compression_of(name) else name).suffix.lower().removeprefix(".")
    return next((type_ for type_ in _types_by_suffix(suffix) if suffix in type_.suffixes), None)


def _types_by_suffix(suffix: str) -> Iterator[OutputType]:
    """The types that a suffix may stand for: not `.txt`, which may be anything, nor that of a list of files."""
    yield from (type_ for type_ in _BUILT_IN.values() if type_.name not in (SCOOPI, FILES))
    if suffix:
        for name, _ in OUTPUT_TYPES.installed():
            with suppress(UsageError):  # it is told where its name is used
                yield OUTPUT_TYPES[name]


def compression_of(file: str | Path) -> str | None:
    """How a file of a compressible type is compressed, by its ending: `gzip`, `zstd`, or None."""
    return _COMPRESSIONS.get(Path(file).suffix.lower())


def file_of_data_def(file: Path, data_def: str) -> Path:
    """The file of one of several dataDefs: `x-book.csv.gz` for `x.csv.gz`."""
    suffix = _suffix_of(file)
    return file.with_name(f"{file.name.removesuffix(suffix)}-{data_def}{suffix}")


def _suffix_of(file: Path) -> str:
    """Its ending, with that of its type: `.csv.gz`."""
    return Path(file.stem).suffix + file.suffix if compression_of(file) else file.suffix


def describe_suffixes() -> str:
    """The suffixes that stand for a type: `.csv, .jsonl, .db or .sqlite`."""
    *others, last = (f".{each}" for type_ in _types_by_suffix("*") for each in type_.suffixes)
    return f"{', '.join(others)} or {last}"


def expand_path(path: str, *, data_def: str, run: str, created_at: float) -> str:
    """The path of the file of a dataDef. `created_at`: when the run was created; date and time are local."""
    created = datetime.fromtimestamp(created_at)
    values = (data_def, run, created.strftime("%Y-%m-%d"), created.strftime("%H%M%S"))
    by_name = dict(zip(PATH_NAMES, values, strict=True))
    return PATH_NAME.sub(lambda name: by_name.get(name[0], name[0]), path)


class AppenderDef(Struct, frozen=True, kw_only=True):
    """One output for rows: one file per dataDef, a receiver, or a plugin class."""

    name: str
    type: Annotated[
        Text,
        DefKey(
            "The type: csv (default), jsonl, sqlite or duckdb files; http, command or postgresql; or a class.",
            examples=(*_BUILT_IN, *SENDER_TYPES),
        ),
    ] = "csv"
    data_defs: Annotated[
        tuple[Text, ...], DefKey("The dataDefs whose rows are written; default: all.", examples=(["book"],))
    ] = ()
    delimiter: Annotated[
        Character, DefKey("The character between CSV values; default a comma.", examples=(",", ";", "\t"))
    ] = ","
    escape_formulas: Annotated[
        bool, DefKey("Whether a leading ' keeps spreadsheets from evaluating text as a formula.")
    ] = False
    bom: Annotated[bool, DefKey("Whether CSV begins with a byte order mark, by which Excel knows UTF-8.")] = False
    quoting: Annotated[
        Literal["minimal", "all", "nonnumeric"],
        DefKey("The CSV values in quotes: those that need them (minimal, default), all, or all but numbers."),
    ] = "minimal"
    columns: Annotated[
        tuple[Text, ...],
        DefKey("The fields to write, in this order; default: all.", examples=(["title", "price.amount"],)),
    ] = ()
    flatten: Annotated[
        bool, DefKey("Whether prices and files become columns of their own, such as `price.amount`.")
    ] = False
    price: Annotated[
        Literal["columns"] | None,
        DefKey("Whether a price is a column for its amount, and one for its currency: `price` and `price_currency`."),
    ] = None
    decimal: Annotated[
        Literal[".", ","], DefKey("The decimal mark of numbers in CSV; default a point.", examples=(",",))
    ] = "."
    include_tags: bool = False
    """For the type `scoopi`: whether page, index and item follow the group."""
    path: Annotated[
        OutputPath | None,
        DefKey(
            "The file: a name, or an absolute path; may hold {dataDef}, {run.id}, {run.date} and {run.time}. "
            "The default is the name of the dataDef with the extension of the type; .gz or .zst compresses.",
            examples=("books.csv", "{dataDef}-{run.date}.csv.gz"),
        ),
    ] = None
    changes: Annotated[
        bool,
        OMIT_DEFAULT,
        DefKey("Whether the file says what was added, changed or vanished since an earlier run, instead of all rows."),
    ] = False
    file_name: Annotated[
        Text | None,
        OMIT_DEFAULT,
        DefKey(
            "The names of files, without ending: `%{field.NAME}`, `%{download.name}` (default), `%{download.number}`.",
            name="fileName",
            examples=("%{field.sku}", "%{field.brand} %{field.title}-%{download.number}"),
        ),
    ] = None
    kind: AppenderKind = "built-in"
    """The category of `type`: built-in files, a plugin Encoder, a plugin Appender, or a built-in sender."""
    options: Annotated[Mapping[str, Any] | None, DefKey("Keyword arguments of the class.")] = None
    url: Annotated[
        SenderUrl, DefKey("Where http posts the rows, or the database of postgresql; may hold `%{env.NAME}`.")
    ] = ""
    headers: Annotated[
        Mapping[str, HeaderValue], DefKey("Headers of http; `%{env.NAME}` keeps secrets out of the file.")
    ] = field(default_factory=lambda: MappingProxyType({}))
    run: Annotated[tuple[Text, ...], DefKey("The program of command, and its arguments.")] = ()
    batch: Annotated[
        BatchSize | None, DefKey("The most rows that are sent at once; default 100, of postgresql 5,000.")
    ] = None
    limit: Annotated[
        Seconds | None,
        DefKey(
            "Seconds for a batch of rows, such as 30; "
            "default: the setting `parse_limit`, of http and command `deadline`."
        ),
    ] = None
    suffix: str = ""
    """Of the files of a plugin encoder."""
    code: str = ""
    """A hash of the code of the class."""
    place: SourcePosition = NO_POSITION

    @property
    def output_type(self) -> str:
        """The type of its outputs."""
        return CHANGES_OF[self.type] if self.changes else self.type

    def divides(self, type_: str) -> bool:
        """Whether the parts of a field of that type are columns of their own."""
        return self.flatten or (type_ == "price" and self.price is not None)

    def column_name(self, path: Sequence[str]) -> str:
        """The name of the column of a field, or of one of its parts."""
        if self.price is not None and path[1:] in (("amount",), ("currency",)):
            return path[0] if path[1] == "amount" else f"{path[0]}_currency"
        return ".".join(path)

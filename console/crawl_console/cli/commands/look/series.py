"""The command `series`: shows one field of the rows over the runs, as a table, JSON, CSV or a plot."""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import orjson
from msgspec import Struct

from crawl_console.cli.options import Number, common_options, complete_names, empty_without_run, lines_option
from crawl_console.cli.output import write_json, write_lines, write_stderr
from crawl_console.cli.tables import shorten_cell, write_csv, write_table
from crawl_console.format import filled_plot, format_date_time, plural, trend
from crawl_console.terminal import ascii_only, to_ascii
from crawl_engine.errors import UsageError, suggest

if TYPE_CHECKING:
    from crawl_engine.model.definition import DataDef
    from crawl_engine.store.db.connector import Database
    from crawl_engine.store.read.field_series import KeySeries, SeriesRun

_TABLE_RUNS = 8
"""Runs that are columns of a table unless `--limit` says otherwise."""
_SCALE_WIDTH, _PLOT_HEIGHT, _MIN_PLOT_WIDTH = 12, 10, 20
_ABSENT = "-"


@click.command()
@click.argument("data_def", shell_complete=complete_names("data_def"))
@click.argument("field")
@click.option(
    "--key", "keys", multiple=True, metavar="KEY", help="Only this row: a key, or FIELD=VALUE; or the key field."
)
@click.option("--since", metavar="RUN", help="From this run on.", shell_complete=complete_names("run"))
@click.option("--limit", type=Number(), metavar="N", help="The newest N runs; default: all, in a table of many keys 8.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--plot", "as_plot", is_flag=True, help="Draw numbers in the terminal.")
@lines_option
@common_options("data")
@empty_without_run
def series(
    data_def: str, field: str, keys: Sequence[str], since: str | None, limit: int | None, as_csv: bool, as_plot: bool,
    as_json: bool, data: Path,
) -> int:  # fmt: skip
    """Show FIELD of the rows of DATADEF over the runs, by their key."""
    from crawl_console.client import find_run, open_latest_run
    from crawl_engine.store.read.field_series import SeriesQuery, list_series_runs, read_series

    if as_json + as_csv + as_plot > 1:
        raise UsageError("series: --json, --csv and --plot exclude each other", "Give one of them.")
    with open_latest_run(data) as (db, run), db.snapshot():
        first = 0 if since is None else find_run(db, since).seq
        runs = list_series_runs(db, data_def, since=first, limit=limit)
        if not runs:
            _check_name(db, run.defs_version, data_def)
            write_stderr(f"no run has rows of {data_def}" + (f" since {since}" if since else ""))
            return 0
        target = _read_data_def(db, runs[-1], data_def)
        path = _find_path(target, field)
        key, wanted = _choose_key(target, path[0], keys)
        query = SeriesQuery(data_def=data_def, field=path, key=key, wanted=wanted)
        found = (one for one in read_series(db, query, runs) if any(part is not None for part in one.key))
        table = _Series(data_def, field, key, runs, limit is not None)
        if as_json:
            _write_json(table, found)
        elif as_csv:
            _write_csv(table, found)
        else:
            _show(table, found, wanted, as_plot=as_plot)
    return 0


class _Series(NamedTuple):
    data_def: str
    field: str
    key: Sequence[str]
    runs: "Sequence[SeriesRun]"
    is_limited: bool
    """Whether the user said how many runs."""


def _check_name(db: "Database", version: int | None, name: str) -> None:
    """Raise UsageError for a dataDef that neither the defs nor the rows of any run have."""
    from crawl_engine.store.read.field_series import list_data_defs
    from crawl_engine.store.tables.run import versions

    names = set(list_data_defs(db))
    if version is not None:
        names |= {one.name for one in versions.read(db, version).data_defs}
    if name not in names:
        raise UsageError(f"unknown dataDef '{name}'{suggest(name, sorted(names))}", "Check its name in the defs.")


def _read_data_def(db: "Database", run: "SeriesRun", name: str) -> "DataDef":
    """A dataDef in the defs of a run that has rows of it."""
    from crawl_engine.model.definition import DataDef
    from crawl_engine.store.tables.run import versions

    found = versions.read(db, run.defs_version).data_def(name) if run.defs_version else None
    return DataDef(name=name) if found is None else found  # the run got defs without it


def _find_path(data_def: "DataDef", field: str) -> tuple[str, ...]:
    """The names down to a field: itself, or of `price.amount` both. Raises UsageError."""
    names = data_def.columns
    if field in names:
        return (field,)
    first, *rest = field.split(".")
    if first in names and all(rest):
        return (first, *rest)
    raise UsageError(
        f"{data_def.name} has no field '{field}'{suggest(field, list(names))}", "Check its name in the defs."
    )


def _choose_key(
    data_def: "DataDef", field: str, given: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:  # fmt: skip
    """The fields that identify a row, and the texts that fields must have. `given`: the values of `--key`.

    The field of the series does not identify its rows, even if it is a part of the declared key. Raises UsageError.
    """
    names, declared = data_def.columns, tuple(name for name in data_def.key if name != field)
    own: list[str] = []
    wanted: list[tuple[str, str]] = []
    for text in given:
        name, sign, value = text.partition("=")
        if sign and name in names:
            wanted.append((name, value))
        elif len(declared) == 1:
            wanted.append((declared[0], text))
        elif declared:
            example = " ".join(f"--key {name}=…" for name in declared)
            raise UsageError(f"--key {text}: the key of {data_def.name} is {', '.join(declared)}", f"Write {example}.")
        elif text in names:
            own.append(text)
        else:
            raise UsageError(
                f"--key {text}: {data_def.name} has no field '{text}'{suggest(text, list(names))}",
                f"Name the field that identifies a row, of {', '.join(names)}.",
            )
    key = declared or tuple(own) or tuple(dict.fromkeys(name for name, _ in wanted))
    if not key:
        problem = f"{field} is the `key` of {data_def.name}" if data_def.key else f"{data_def.name} has no `key`"
        raise UsageError(problem, "Name the field that identifies a row: --key FIELD.")
    return key, tuple(wanted)


class _Value(NamedTuple):
    """A value as it is shown; its number, and the currency of an amount."""

    text: str
    number: Decimal | None = None
    unit: str | None = None


def _read_value(text: str | None) -> _Value:
    """The value of a JSON text; None: the run has no such row."""
    if text is None:
        return _Value(_ABSENT)
    value = json.loads(text, parse_float=Decimal)
    if isinstance(value, str):
        return _Value(value)
    if isinstance(value, dict) and value.keys() == {"amount", "currency"} and value["amount"] is not None:
        unit = value["currency"]
        return _Value(f"{value['amount']} {unit}" if unit else f"{value['amount']}", Decimal(value["amount"]), unit)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _Value(text, Decimal(value))
    return _Value("" if value is None else text)


class Statistics(Struct, frozen=True):
    """Of the numbers of a series."""

    low: Decimal
    median: Decimal
    high: Decimal

    @classmethod
    def of(cls, values: Iterable[_Value]) -> "Statistics | None":
        """None without numbers, for other values, and for amounts in several currencies."""
        known = [value for value in values if value.text not in ("", _ABSENT)]
        numbers = sorted(value.number for value in known if value.number is not None)
        if not numbers or len(numbers) < len(known) or len({value.unit for value in known}) > 1:
            return None
        middle = len(numbers) // 2
        median = numbers[middle] if len(numbers) % 2 else (numbers[middle - 1] + numbers[middle]) / 2
        return cls(numbers[0], median, numbers[-1])

    @property
    def texts(self) -> list[str]:
        return [f"{number:f}" for number in (self.low, self.median, self.high)]


def _write_json(table: _Series, found: "Iterable[KeySeries]") -> None:
    """Print an object for each key and run, the runs of a key one after another."""
    from crawl_engine.extract.page.context import format_utc

    for one in found:
        key = dict(zip(table.key, one.key, strict=True))
        write_json(
            *(
                {"run": run.id, "begun": format_utc(run.created_at), "key": key, "value": orjson.Fragment(text)}
                for run in table.runs
                if (text := one.values.get(run.seq)) is not None
            )
        )


def _write_csv(table: _Series, found: "Iterable[KeySeries]") -> None:
    from crawl_engine.extract.page.context import format_utc

    def lines() -> Iterator[Sequence[str | None]]:
        yield ("run", "begun", *table.key, table.field)
        for one in found:
            for run in table.runs:
                if (text := one.values.get(run.seq)) is not None:
                    yield (run.id, format_utc(run.created_at), *one.key, _read_value(text).text)

    write_csv(lines())


def _show(
    table: _Series, found: "Iterator[KeySeries]", wanted: Sequence[tuple[str, str]], *, as_plot: bool
) -> None:  # fmt: skip
    """Print the runs of one key as lines, those of several keys as columns."""
    start = list(islice(found, 2))
    if not start:
        terms = " and ".join(f"{name} '{value}'" for name, value in wanted)
        write_stderr(
            f"no row of {table.data_def} has {terms or ', '.join(table.key)} in {plural(len(table.runs), 'run')}"
        )
    elif len(start) == 1:
        _show_one(table, start[0], as_plot=as_plot)
    else:
        everything = chain(start, found)
        if as_plot:
            _plot_keys(table, everything)
        else:
            _show_keys(table, everything)


def _show_one(table: _Series, one: "KeySeries", *, as_plot: bool) -> None:
    values = [_read_value(one.values.get(run.seq)) for run in table.runs]
    statistics = Statistics.of(values)
    if as_plot and statistics is None:
        raise UsageError(f"--plot: {table.field} is not a number, or has several currencies", "Leave out --plot.")
    title = ", ".join(f"{name} {part or _ABSENT}" for name, part in zip(table.key, one.key, strict=True))
    write_lines(f"{table.data_def}.{table.field} of {title}")
    if as_plot and statistics is not None:
        _plot(table, values, statistics)
    else:
        cells = zip(table.runs, values, strict=True)
        write_table(
            [("RUN", "BEGUN", table.field)],
            ((run.id, format_date_time(run.created_at), shorten_cell(value.text)) for run, value in cells),
        )
    if statistics is not None:
        write_lines(_describe(statistics, values))


def _describe(statistics: Statistics, values: Sequence[_Value]) -> str:
    low, median, high = statistics.texts
    unit = next((f" {value.unit}" for value in values if value.unit), "")
    return f"min {low}, median {median}, max {high}{unit}"


def _show_keys(table: _Series, found: "Iterable[KeySeries]") -> None:
    """Print a line for each key, and a column for each run."""
    runs = table.runs if table.is_limited else table.runs[-_TABLE_RUNS:]
    ids, moments = [run.id for run in runs], [format_date_time(run.created_at)[:16] for run in runs]

    def lines() -> Iterator[Sequence[str]]:
        for one in found:
            if not one.values.keys().isdisjoint(run.seq for run in runs):
                values = [_read_value(one.values.get(run.seq)) for run in runs]
                statistics = Statistics.of(values)
                cells = [part or _ABSENT for part in one.key] + [value.text for value in values]
                yield [shorten_cell(cell) for cell in cells] + (statistics.texts if statistics else ["", "", ""])

    blank = [""] * len(table.key)
    write_table([[*table.key, *ids, "MIN", "MEDIAN", "MAX"], [*blank, *moments, "", "", ""]], lines())
    if len(runs) < len(table.runs):
        write_stderr(f"the newest {len(runs)} of {plural(len(table.runs), 'run')}; --limit N shows more")


def _plot_keys(table: _Series, found: "Iterable[KeySeries]") -> None:
    """Print a line for each key, with a small plot."""
    plain = ascii_only()

    def lines() -> Iterator[Sequence[str]]:
        for one in found:
            values = [_read_value(one.values.get(run.seq)) for run in table.runs]
            statistics = Statistics.of(values)
            drawn = trend([None if value.number is None else float(value.number) for value in values])
            latest = next((value.text for value in reversed(values) if value.text != _ABSENT), _ABSENT)
            yield [
                *(shorten_cell(part or _ABSENT) for part in one.key), to_ascii(drawn) if plain else drawn,
                *(statistics.texts if statistics else ["", "", ""]), shorten_cell(latest),
            ]  # fmt: skip

    write_table([[*table.key, table.field, "MIN", "MEDIAN", "MAX", "LATEST"]], lines())


def _plot(table: _Series, values: Sequence[_Value], statistics: Statistics) -> None:
    """Draw the numbers of one key, with the lowest and the highest one, and the first and the last run."""
    width = max(_MIN_PLOT_WIDTH, shutil.get_terminal_size().columns - _SCALE_WIDTH - 1)
    low, _, high = statistics.texts
    drawn = filled_plot(
        [None if value.number is None else float(value.number) for value in values], width, _PLOT_HEIGHT
    )
    marks = [high, *[""] * (_PLOT_HEIGHT - 2), low]
    lines = [f"{mark[: _SCALE_WIDTH - 1]:>{_SCALE_WIDTH - 1}} {line}" for mark, line in zip(marks, drawn, strict=True)]
    first, last = (format_date_time(table.runs[at].created_at)[:16] for at in (0, -1))
    lines.append(" " * _SCALE_WIDTH + first + last.rjust(width - len(first)))
    write_lines(*(map(to_ascii, lines) if ascii_only() else lines))

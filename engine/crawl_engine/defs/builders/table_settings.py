"""Copies the settings for tables into the defs, so that nodes need only the stored defs."""

from msgspec.structs import replace

from crawl_engine.defs.builders.steps import default_flavour
from crawl_engine.model.axis import FROM_DATE_PATTERN, AxisTable
from crawl_engine.model.definition import DataDef, Definitions
from crawl_engine.runtime.java_date import format_date
from crawl_engine.settings import Settings
from crawl_engine.settings.values import parse_run_time
from crawl_engine.urls import is_file_url, resolve, without_credentials


def complete_tables(definitions: Definitions, settings: Settings) -> Definitions:
    """The defs with the settings `default_steps`, `fact_…`, `date_time_pattern` and `run_time` in tables."""
    if all(data_def.axis is None for data_def in definitions.data_defs):
        return definitions
    base = settings.base_url or definitions.base_url
    if base is not None and is_file_url(base):
        base = resolve(base, None)
    shown = None if base is None else without_credentials(base)
    data_defs = tuple(_complete(data_def, settings, shown) for data_def in definitions.data_defs)
    return replace(definitions, data_defs=data_defs)


def _complete(data_def: DataDef, settings: Settings, base_url: str | None) -> DataDef:
    table = data_def.axis
    if table is None:
        return data_def
    completed = replace(
        table,
        flavour=table.flavour or default_flavour(settings.default_steps),
        fact_blank=settings.fact_blank,
        fact_not_found=settings.fact_not_found,
        date_pattern=settings.date_time_pattern,
        from_date=_fixed_date(table, settings),
        base_url=base_url,
    )
    return replace(data_def, axis=completed)


def _fixed_date(table: AxisTable, settings: Settings) -> str | None:
    """What `document.getFromDate()` gives with the setting `run_time`; None: it is not set, or the table has no script.

    Only then is it part of the table: a new time must not extract the other tables again.
    """
    axes = (*table.items, *table.dims, *table.facts)
    if settings.run_time is None or all(axis.script is None for axis in axes):
        return None
    pattern = settings.date_time_pattern
    return format_date(parse_run_time(settings.run_time, pattern), pattern or FROM_DATE_PATTERN)

"""Judges a run that ends by what its defs and settings expect of its rows."""

from collections.abc import Iterable, Iterator

from crawl_engine.errors import plural
from crawl_engine.model.definition import Definitions, Expectation, definition_hash
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.data_warnings import DataWarning
from crawl_engine.store.tables.job import jobs
from crawl_engine.store.tables.row import health, rows
from crawl_engine.store.tables.row.health import NOT_APPLIED, DataDefHealth
from crawl_engine.store.tables.row.rows import DataDefRows
from crawl_engine.store.tables.run import versions
from crawl_engine.store.tables.run.runs import Baseline, GivenRows, MissedExpectation


def find_missed(db: Database, run: int, settings: Settings, *, complete: bool) -> list[MissedExpectation]:
    """The missed expectations. `complete`: False for a run cut short, whose rows are not judged."""
    counts, data_defs = rows.counts(db, run), health.read(db, run)
    missed: list[MissedExpectation] = []
    total, rejected = sum(of.rows for of in counts.values()), sum(of.rejected for of in counts.values())
    if complete and settings.min_rows is not None and total < settings.min_rows:
        missed.append(MissedExpectation(f"{plural(total, 'row')}; expected at least {settings.min_rows:,} (min_rows)"))
    if settings.max_rejected_share is not None and rejected > settings.max_rejected_share * (total + rejected):
        share = _percent(rejected, total + rejected)
        most = f"{settings.max_rejected} (max_rejected)"
        missed.append(MissedExpectation(f"{share} of all records were rejected; expected at most {most}"))
    for expectation in versions.list_expectations(db, versions.current(db, run)):
        given = counts.get(expectation.name, DataDefRows())
        data_def = data_defs.get(expectation.name, NOT_APPLIED)
        texts = _missed_of(expectation, given.rows, given.rejected, data_def, complete=complete)
        missed += [MissedExpectation(text, expectation.name) for text in texts]
    return missed


def gave_nothing(db: Database, run: int, settings: Settings, warnings: Iterable[DataWarning]) -> bool:
    """Whether no page was fetched, or all records of a dataDef were rejected that no written limit judges."""
    judged = {one.name for one in versions.list_expectations(db, versions.current(db, run)) if one.rejected is not None}
    return any(
        warning.code == "nothing-fetched"
        or (
            warning.code == "all-rejected"
            and warning.data_def is not None
            and warning.data_def not in judged
            and settings.max_rejected_share is None
        )
        for warning in warnings
    )


def _missed_of(
    expectation: Expectation, written: int, rejected: int, data_def: DataDefHealth, *, complete: bool
) -> Iterator[str]:
    name, records = expectation.name, written + rejected
    if complete and expectation.rows is not None and written < expectation.rows:
        yield f"{name}: {plural(written, 'row')}; expected at least {expectation.rows:,}"
    if expectation.rejected is not None and rejected > expectation.rejected * records:
        most = f"{expectation.rejected * 100:g} %"
        yield f"{name}: {_percent(rejected, records)} of the records were rejected; expected at most {most}"
    for field, share in expectation.filled.items():
        filled = data_def.records - data_def.missing.get(field, 0)
        if data_def.records and filled < share * data_def.records:
            least = f"{share * 100:g} %"
            yield f"{name}.{field}: filled in {_percent(filled, data_def.records)} of the records; expected {least}"


def _percent(count: int, of: int) -> str:
    return f"{100 * count / of:.3g} %"


def build_baseline(db: Database, run: int) -> Baseline:
    """The baseline that an ended run gives to later ones."""
    definitions = versions.read(db, versions.current(db, run))
    counts, applied = rows.counts(db, run), health.read(db, run)
    given: dict[str, GivenRows] = {}
    for name in [data_def.name for data_def in definitions.data_defs if data_def.fields]:
        data_def = applied.get(name, NOT_APPLIED)
        given[name] = GivenRows(counts.get(name, DataDefRows()).rows, data_def.records, data_def.filled)
    return Baseline(_hash_seeds(db, run, definitions), given)


def _hash_seeds(db: Database, run: int, definitions: Definitions) -> str:
    """A hash of the locators as written, and of the number of URLs where a list gives them."""
    locators = [
        (group.name, locator.urls, locator.from_file, locator.sitemap, locator.method, locator.body)
        + (() if locator.sitemap_rules is None else (locator.sitemap_rules,))
        for group in definitions.locator_groups
        for locator in group.locators
    ]
    has_list = any(from_file is not None for _, _, from_file, *_ in locators)
    return definition_hash((locators, jobs.count_locators(db, run) if has_list else None))

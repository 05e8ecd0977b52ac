"""What a complete run gave, with which seeds: a later run with the same seeds is compared with it."""

from engine.model.definition import Definitions, definition_hash
from engine.store.db.connector import Database
from engine.store.tables import health, jobs, rows, versions
from engine.store.tables.health import NOT_APPLIED
from engine.store.tables.runs import Baseline, GivenRows


def build_baseline(db: Database, run: int) -> Baseline:
    """The baseline that a run becomes by its end."""
    definitions = versions.read(db, versions.current(db, run))
    counts, applied = rows.counts(db, run), health.read(db, run)
    given: dict[str, GivenRows] = {}
    for name in [data_def.name for data_def in definitions.data_defs if data_def.fields]:
        data_def = applied.get(name, NOT_APPLIED)
        given[name] = GivenRows(counts.get(name, (0, 0))[0], data_def.records, data_def.filled)
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

"""Writes the tables `def_versions`, `data_defs` and `page_defs`: accepted sets of defs."""

import orjson

from crawl_engine.model.definition import Definitions, Expectation
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.store.db.connector import Database

_PUBLISH = "INSERT INTO def_versions (version, hash, definitions, accepted_at) VALUES (?, ?, ?, ?)"
_EXPECTATIONS = "SELECT definitions -> '$.expectations' FROM def_versions WHERE version = ?"
_ADD_DATA_DEF = "INSERT INTO data_defs (name, hash) VALUES (?, ?) RETURNING id"
_PAGE_HASHES = "SELECT grp, hash FROM page_defs WHERE version = ?"


def publish(db: Database, defs: Definitions | PreparedDefs, now: float) -> int:
    """The version number of these defs: the latest version's if they are equal, else a new one."""
    prepared = defs if isinstance(defs, PreparedDefs) else PreparedDefs.from_definitions(defs)
    latest = db.one("SELECT version, hash FROM def_versions ORDER BY version DESC LIMIT 1")
    if latest is not None and latest[1] == prepared.hash:
        return int(latest[0])
    version = int(latest[0]) + 1 if latest else 1
    db.execute(_PUBLISH, (version, prepared.hash, prepared.text, now))
    units = {unit for group in prepared.groups for unit in group.data_defs} | set(prepared.data_defs.items())
    ids = {unit: ensure_data_def(db, *unit) for unit in sorted(units)}
    db.execute_values(
        "INSERT INTO page_defs (version, grp, hash, data_defs, follow) {values}",
        [
            (version, p.group, p.hash, orjson.dumps([ids[unit] for unit in p.data_defs]).decode(), p.follow_hash)
            for p in prepared.groups
        ],
    )
    return version


def read(db: Database, version: int) -> Definitions:
    with db.explain_json():
        return Definitions.from_json(db.value("SELECT definitions FROM def_versions WHERE version = ?", (version,)))


def list_expectations(db: Database, version: int) -> tuple[Expectation, ...]:
    """What the defs of a version expect of a run. Large defs are not read for it."""
    text = db.value(_EXPECTATIONS, (version,))
    return Definitions.from_json(f'{{"expectations":{text}}}').expectations if text else ()


def current(db: Database, run: int) -> int:
    return int(db.value("SELECT defs_version FROM runs WHERE seq = ?", (run,)) or 0)


def get_page_hashes(db: Database, version: int) -> dict[str, str]:
    """By group of a version: the hash of its page defs."""
    return dict(db.all(_PAGE_HASHES, (version,)))


def ensure_data_def(db: Database, name: str, hash_: str) -> int:
    """The id that rows of this dataDef refer to. `hash_`: of the unit of extraction (model.fingerprint)."""
    existing = db.value("SELECT id FROM data_defs WHERE name = ? AND hash = ?", (name, hash_))
    return int(existing if existing is not None else db.value(_ADD_DATA_DEF, (name, hash_)))


def get_accepted_at(db: Database, version: int) -> float | None:
    """When a version was accepted, in wall-clock seconds."""
    return db.value("SELECT accepted_at FROM def_versions WHERE version = ?", (version,))

"""Def versions: accepted sets of defs, numbered from 1. The only room that writes `def_versions` and `data_defs`."""

from engine.model.definition import DataDef, Definitions, meaning
from engine.store.connector import Database

_LATEST = "SELECT version, hash FROM def_versions ORDER BY version DESC LIMIT 1"
_PUBLISH = "INSERT INTO def_versions (version, hash, definitions, accepted_at) VALUES (?, ?, ?, ?)"
_READ = "SELECT definitions FROM def_versions WHERE version = ?"
_ACCEPTED = "SELECT accepted_at FROM def_versions WHERE version = ?"
_FIND_DATA_DEF = "SELECT id FROM data_defs WHERE name = ? AND hash = ?"
_ADD_DATA_DEF = "INSERT INTO data_defs (name, hash) VALUES (?, ?) RETURNING id"


def publish(db: Database, definitions: Definitions, now: float) -> int:
    """The version number of these defs: the latest one's where they mean the same, else a new one."""
    told = meaning(definitions)
    latest = db.one(_LATEST)
    if latest is not None and latest[1] == told:
        return int(latest[0])
    version = int(latest[0]) + 1 if latest else 1
    db.execute(_PUBLISH, (version, told, definitions.to_json(), now))
    for data_def in definitions.data_defs:
        data_def_id(db, data_def)
    return version


def read(db: Database, version: int) -> Definitions:
    """The defs of a version."""
    return Definitions.from_json(db.value(_READ, (version,)))


def data_def_id(db: Database, data_def: DataDef) -> int:
    """The id rows carry for this dataDef as it is written now."""
    told = (data_def.name, meaning(data_def))
    found = db.value(_FIND_DATA_DEF, told)
    return int(found if found is not None else db.value(_ADD_DATA_DEF, told))


def accepted_at(db: Database, version: int) -> float | None:
    """The moment a version was accepted, in wall-clock seconds."""
    told = db.value(_ACCEPTED, (version,))
    return None if told is None else float(told)

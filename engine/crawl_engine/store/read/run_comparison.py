"""Reads what a comparison of two runs needs: the earlier run, rows, and whether a row vanished."""

from collections.abc import Sequence

import orjson

from crawl_engine.model.definition import DataDef
from crawl_engine.model.fingerprint import feeding_groups
from crawl_engine.model.job import ReasonCode
from crawl_engine.store.db.connector import Database, id_list
from crawl_engine.store.tables.run import versions

_EARLIER = """
SELECT seq FROM runs r WHERE seq < ? AND EXISTS (
    SELECT 1 FROM row_counts WHERE run = r.seq AND data_def = ? AND rows > 0)
ORDER BY state = 'DONE' DESC, seq DESC LIMIT 1
"""
_TEXTS = "SELECT id, CAST(data AS TEXT) FROM rows WHERE id IN (SELECT value FROM json_each(?))"
_HAS_PAGE = f"j.reason_code IS NULL OR j.reason_code NOT IN ('{ReasonCode.NO_PAGE}', '{ReasonCode.CANONICAL}')"
_VERSION = "SELECT defs_version FROM runs WHERE seq = ?"
_MAY_HAVE_MORE = f"""
SELECT EXISTS (SELECT 1 FROM runs WHERE seq = :run AND seeded_version IS NOT defs_version)
OR EXISTS (
    SELECT 1 FROM row_counts n LEFT JOIN row_counts e ON e.run = :earlier AND e.data_def = n.data_def
    WHERE n.run = :run AND n.data_def = :data_def AND (n.waiting > 0 OR n.rejected > coalesce(e.rejected, 0)))
OR EXISTS (
    SELECT 1 FROM sequences s WHERE s.run = :run
        AND (s.kind = 'sitemap' OR (
            s.kind IN ('page', 'extract') AND s.grp IN (SELECT value FROM json_each(:groups) texts)))
        AND (s.ready + s.delayed + s.taken + s.incomplete + s.failed > 0 OR EXISTS (
            SELECT 1 FROM jobs j INDEXED BY jobs_skipped
            WHERE j.sequence = s.id AND j.state = 'SKIPPED' AND ({_HAS_PAGE}))))
"""


def find_data_def(db: Database, run: int, name: str) -> DataDef | None:
    """A dataDef as a run had it; None: it had none of that name."""
    version = db.value(_VERSION, (run,))
    return None if version is None else versions.read(db, version).data_def(name)


def find_earlier_run(db: Database, run: int, data_def: str) -> int | None:
    """The last run before that gave rows of a dataDef: one that is DONE if there is any. None: there is none."""
    return db.value(_EARLIER, (run, data_def))


def has_all_rows(db: Database, run: int, earlier: int, data_def: str) -> bool:
    """Whether a row of a dataDef that the earlier run had and this one lacks is no longer on its site.

    All pages of the groups that give the dataDef or lead to such pages are DONE or gone, no row waits for a file, and
    no more records were rejected than in the earlier run.
    """
    groups = _feeding_groups(db, run, data_def)
    if not _feeding_groups(db, earlier, data_def) <= groups:
        return False
    names = orjson.dumps(sorted(groups)).decode()
    parameters = {"run": run, "earlier": earlier, "data_def": data_def, "groups": names}
    return not db.value(_MAY_HAVE_MORE, parameters)


def read_texts(db: Database, ids: Sequence[int]) -> dict[int, str]:
    """The JSON of rows by id."""
    return dict(db.all(_TEXTS, (id_list(ids),)))


def _feeding_groups(db: Database, run: int, data_def: str) -> set[str]:
    version = db.value(_VERSION, (run,))
    return set() if version is None else feeding_groups(versions.read(db, version), data_def)

"""Writes the table `row_sources`: which job's rows later jobs on a document may copy."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from engine.model.record import RecordCounts
from engine.store.db.connector import Database

_ADD = """
INSERT INTO row_sources (document, data_def, job) {values} ON CONFLICT DO UPDATE SET job = excluded.job
"""
# a retry and a re-extraction delete the health of a page with its rows: the rows of a source are there while it is
_FIND = """
SELECT s.document, s.data_def, s.job, p.records, p.missing FROM json_each(?) c
CROSS JOIN row_sources s ON s.document = c.value ->> 0 AND s.data_def = c.value ->> 1
CROSS JOIN jobs j ON j.id = s.job AND j.state = 'DONE' AND j.document = s.document
CROSS JOIN page_health p ON p.job = s.job AND p.data_def = s.data_def AND p.rejected = 0
"""


class RowSource(NamedTuple):
    """A job whose rows of a dataDef may be copied, and how many fields were missing in them."""

    job: int
    records: int
    missing: str | None

    def counts(self, fields: Sequence[str]) -> RecordCounts:
        """How the records were filled. `fields`: those that are counted, in the order of the defs."""
        missing = orjson.loads(self.missing) if self.missing else {}
        return RecordCounts(self.records, 0, tuple([(name, missing.get(name, 0)) for name in fields]))


def add(db: Database, sources: Sequence[tuple[int, int, int]]) -> None:
    """Record who made the rows of a dataDef of a document: document, id of the dataDef, job. The newest counts."""
    db.execute_values(_ADD, sources)


def find(db: Database, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], RowSource]:
    """By document and dataDef id: the job whose rows may be copied now. Pairs without one are left out."""
    rows = db.all(_FIND, (orjson.dumps(pairs).decode(),))
    return {
        (document, data_def): RowSource(job, records, missing) for document, data_def, job, records, missing in rows
    }

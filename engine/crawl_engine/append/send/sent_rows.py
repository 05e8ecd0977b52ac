"""Reads what an output without a file was sent: its position, and rows of its runs from the database."""

from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from crawl_engine.append.formats.writer import Batch
from crawl_engine.append.loop.only_new import OnlyNewFilter
from crawl_engine.store.db.connector import Database
from crawl_engine.store.read.job_range import find_ids
from crawl_engine.store.tables.output import deliveries, outputs
from crawl_engine.store.tables.output.deliveries import Delivery
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import runs, supervisors
from crawl_engine.store.tables.run.runs import Run

_BATCH_ROWS = 2_000


class DataDir(Struct, frozen=True):
    """A data directory as the owner of tables: its identity, and its path for messages."""

    identity: str
    path: str


class SentRows:
    """The rows of one appender. Used by the thread of `db`."""

    def __init__(self, db: Database, data: Path, run: Run, appender: str) -> None:
        self._db = db
        self._data = data
        self._run = run
        self._appender = appender

    @cached_property
    def data_dir(self) -> DataDir:
        """The data directory of the rows."""
        with self._db.transaction():
            return DataDir(supervisors.ensure_identity(self._db), str(self._data))

    @property
    def run(self) -> str:
        """The id of the current run."""
        return self._run.id

    def position(self, data_def: str) -> Delivery:
        """What is acknowledged in the current run."""
        delivery = deliveries.get(self._db, self._run.seq, self._appender, data_def)
        assert delivery is not None, "declared with the output"
        return delivery

    def has_more(self, data_def: str, row: int, withdrawal: int) -> bool:
        """Whether changes behind a position wait to be sent."""
        delivery = self.position(data_def)
        return bool(
            deliveries.list_withdrawals(self._db, delivery.id, withdrawal, 1)
            or any(self.read(self._run.id, data_def, row, rows.last_id(self._db, self._run.seq)))
        )

    def read(self, run: str, data_def: str, after: int, upto: int) -> Iterator[Batch]:
        """The rows that the appender gets in a run, those that stand now, between two ids; empty batches are left out.

        Nothing for a run or an output that is deleted.
        """
        found = runs.get_by_id(self._db, run)
        declared = outputs.list_outputs(self._db, found.seq) if found is not None else []
        output = next((o for o in declared if (o.appender, o.data_def) == (self._appender, data_def)), None)
        if found is None or output is None or after >= upto:
            return
        with closing(OnlyNewFilter(self._db, found.seq, self._data)) as only_new:
            while not only_new.load_step([output]):
                pass
            while batch := rows.list_by_data_def(self._db, found.seq, data_def, after, _BATCH_ROWS):
                after = batch[-1][0]
                sent = only_new.filter_batch(output, [row for row in batch if row[0] <= upto])
                if sent:
                    yield sent
                if after >= upto:
                    return

    def row_range(self) -> tuple[int, int]:
        """The ids that rows of the current run have: from the first up to, and without, the end."""
        return find_ids(self._db, self._run.seq, "rows")[0], 2**63 - 1

    def last_given_row(self) -> int:
        """The highest id that a row ever got."""
        return rows.last_given_id(self._db)

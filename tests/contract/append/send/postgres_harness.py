"""A data dir whose rows go to a PostgreSQL."""

import json
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.model.output_type import AppenderDef
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.run import runs, versions
from crawl_engine.supervise.outputs import declare_outputs
from tests.contract.append.harness import COLUMNS
from tests.contract.append.send.class_harness import ClassHarness

FIELDS = (
    Field(name="title"),
    Field(name="price", type="decimal"),
    Field(name="stock", type="bool"),
    Field(name="tags", all=True),
    Field(name="parts", selector="p", fields=(Field(name="n", type="int"),)),
)


class PostgresHarness(ClassHarness):
    """Every dataDef goes to the appender `sink`. `key`: of the dataDefs."""

    def __init__(
        self, folder: Path, url: str, data_defs: Iterable[str] = ("book",), *, key: tuple[str, ...] = (),
        fields: tuple[Field, ...] = FIELDS,
    ) -> None:  # fmt: skip
        folder.mkdir(exist_ok=True)
        self.url, self.key, self.fields = url, key, fields
        self.only_new = False
        super().__init__(folder, data_defs)

    def publish(self, source: str | None = None, *, limit: float = 5.0) -> None:
        appender = AppenderDef(name="sink", type="postgresql", kind="sender", url=self.url, limit=limit)
        definitions = Definitions(
            data_defs=tuple(DataDef(name=name, fields=self.fields, key=self.key) for name in self.names),
            appenders=(appender,),
        )
        with self.db.transaction():
            runs.set_version(self.db, self.run.seq, versions.publish(self.db, definitions, 0.0))
            folder = self.folder / "output" / self.run.id
            declared = declare_outputs(self.db, self.run.seq, folder, definitions, None, only_new=self.only_new)
            outputs.prune(self.db, self.run.seq, declared)

    def begin_run(self) -> None:
        """A new run of the same defs."""
        with self.db.transaction():
            self.run = runs.create(self.db, None, 0.0)
            self.db.execute("INSERT INTO sequences (run, host, kind, grp) VALUES (?, 1, 'page', 'g')", (self.run.seq,))
        self.publish()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as db:
            cursor = db.execute(sql)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def table(self, name: str = "book") -> Counter[str]:
        """The rows of the table, by all values."""
        columns = ", ".join(f'"{column}"' for column in COLUMNS)
        rows = self.query(f'SELECT _row, {columns} FROM "{name}"')
        return Counter(_comparable(id_, dict(zip(COLUMNS, values, strict=True))) for id_, *values in rows)

    def current(self, name: str = "book") -> Counter[str]:
        """What the table must have: the rows of all runs; with a key the highest id of each."""
        stored = self.db.all(
            "SELECT r.id, r.data FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE d.name = ? ORDER BY r.id",
            (name,),
        )
        by_key: dict[Any, str] = {}
        for id_, text in stored:
            row = json.loads(text, parse_float=Decimal)
            key = tuple(row.get(column) for column in self.key)
            present = any(value is not None for value in key)
            by_key[key if present else id_] = _comparable(id_, row)
        return Counter(by_key.values())


def _comparable(id_: int, row: dict[str, Any]) -> str:
    parts = json.dumps(row.get("parts"), sort_keys=True, default=float)
    price = row.get("price")
    return repr(
        (id_, row.get("title"), None if price is None else str(price), row.get("stock"), row.get("tags"), parts)
    )

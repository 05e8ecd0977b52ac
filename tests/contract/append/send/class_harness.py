"""A data dir whose outputs are those of plugin classes, and an Appender that logs what it gets."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from crawl_engine.append.loop.lifeline import Lifeline, LoopControl
from crawl_engine.append.loop.turns import LoopContext, TurnResult
from crawl_engine.append.send.delivery import DeliveryLoop
from crawl_engine.append.send.output_loops import _TargetFactory
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.model.output_type import AppenderDef
from crawl_engine.model.step import PluginFile
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database, connect, id_list
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.output import deliveries, outputs
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run import nodes, runs, versions
from crawl_engine.supervise.outputs import declare_outputs
from tests.contract.append.harness import COLUMNS, Harness, stored_json
from tests.templates import template

SINK = '''
import json, os, sqlite3

class Sink:
    """Keeps the rows by id in a database, and each batch in a log."""

    def __init__(self, folder):
        self.log = open(folder + "/batches.jsonl", "a")
        self.db = sqlite3.connect(folder + "/sink.db")
        self.db.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, data_def TEXT, title TEXT)")

    def append(self, changes):
        if os.path.exists(self.log.name + ".fail"):
            raise ValueError("the sink is full")
        self.log.write(json.dumps([[c["id"], c["dataDef"], c.get("row", {}).get("title")] for c in changes]) + "\\n")
        self.log.flush()
        for change in changes:
            if change.get("deleted"):
                self.db.execute("DELETE FROM rows WHERE id = ?", (change["id"],))
            else:
                values = (change["id"], change["dataDef"], change["row"]["title"])
                self.db.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", values)
        self.db.commit()

    def close(self):
        self.log.write('"closed"\\n')
        self.log.close()

class Lines:
    """Lines of JSON, with a header."""

    suffix = "lines"

    def header(self, columns):
        return (" ".join(columns) + "\\n").encode()

    def encode(self, rows):
        return "".join(f"<{row['title']}|{row['price']!r}>" for row in rows).encode("utf-8", "replace")
'''


class ClassHarness(Harness):
    """Every dataDef goes to the appender `sink`, of the class `out.Sink`, and to the encoder `out.Lines`."""

    def __init__(self, folder: Path, data_defs: Iterable[str] = ("book",), source: str = SINK) -> None:
        super().__init__(folder, "csv", data_defs)
        self.names = tuple(data_defs)
        self.source = source
        self.publish()

    def publish(self, source: str | None = None, *, limit: float = 5.0) -> None:
        """Publish the defs with this code."""
        self.source = source or self.source
        fields = (Field(name="title"), Field(name="price", type="decimal"), *(Field(name=c) for c in COLUMNS[2:]))
        appenders = (
            AppenderDef(
                name="sink", type="out.Sink", kind="appender", options={"folder": str(self.folder)}, limit=limit,
                code=str(hash(self.source)),
            ),
            AppenderDef(name="lines", type="out.Lines", kind="encoder", suffix="lines", code=str(hash(self.source))),
        )  # fmt: skip
        definitions = Definitions(
            data_defs=tuple(DataDef(name=name, fields=fields) for name in self.names),
            appenders=appenders,
            plugins=(PluginFile(path="out.py", text=self.source),),
        )
        with self.db.transaction():
            version = versions.publish(self.db, definitions, 0.0)
            runs.set_version(self.db, self.run.seq, version)
            declared = declare_outputs(self.db, self.run.seq, self.folder / "output" / self.run.id, definitions, None)
            outputs.prune(self.db, self.run.seq, declared)

    def add(self, new_rows: list[dict[str, Any]], name: str = "book", job: int | None = None) -> int:
        """As of the base; what deliveries may hold of replaced rows is withdrawn, as in a commit."""
        if job is None:
            return super().add(new_rows, name)
        with self.db.transaction():
            deliveries.withdraw(self.db, self.run.seq, id_list([job]), "[]")
            for _, _, row in rows.delete_replaced(self.db, f"[{job}]", "[]")[0]:
                outputs.mark_dirty(self.db, self.run.seq, name, row)
            rows.add(
                self.db, self.run.seq, [(job, NewRows(name, self.ids[name], [stored_json(row) for row in new_rows]))]
            )
        self.expected_rows[name][job] = new_rows
        return job

    def delivery_loop(self, db: Database | None = None) -> "InProcessDelivery":
        """A registered loop for the appender `sink`, in this process."""
        epoch = self.epoch()
        with self.db.transaction():
            assert nodes.register_appender(self.db, epoch, 1, "test")
        db = db or connect(self.folder / CRAWL)
        control = LoopControl(Lifeline())
        context = LoopContext(db, self.folder, self.run, epoch, control, control)
        return InProcessDelivery(context, "sink", _TargetFactory(context, control, Settings(), template()).create)

    def deliver(self) -> None:
        """Deliver all with a new loop."""
        with closing(self.delivery_loop()) as loop:
            run_until_delivered(loop)

    def sink_rows(self, name: str = "book") -> dict[int, str]:
        """The titles that the sink holds, by row."""
        path = self.folder / "sink.db"
        if not path.exists():
            return {}
        with closing(sqlite3.connect(path)) as db:
            return dict(db.execute("SELECT id, title FROM rows WHERE data_def = ?", (name,)).fetchall())

    def stored_rows(self, name: str = "book") -> dict[int, str]:
        """The titles of the rows of the run, by row."""
        stored = rows.list_by_data_def(self.db, self.run.seq, name, 0, 100_000)
        return {id_: json.loads(text)["title"] for id_, text in stored}

    def batches(self) -> list[list[list[Any]]]:
        """The batches that the sink got: of each change the id, and whether it has a row."""
        return [[[id_, title is not None] for id_, _, title in batch] for batch in self.logged_batches()]

    def logged_batches(self) -> list[list[tuple[int, str, str | None]]]:
        """The batches that the sink got: of each change the id, the dataDef and the title; None: it is a deletion."""
        path = self.folder / "batches.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line != '"closed"']

    def output(self, appender: str, name: str = "book") -> outputs.Output:
        listed = outputs.list_outputs(self.db, self.run.seq)
        return next(o for o in listed if (o.appender, o.data_def) == (appender, name))

    def assert_contents_stable(self) -> None:
        """Each row came with one content, first in order of the ids, and never again after its deletion."""
        titles: dict[int, str | None] = {}
        last = dict.fromkeys(self.names, 0)
        for id_, name, title in chain.from_iterable(self.logged_batches()):
            if id_ in titles:
                assert title in (titles[id_], None), id_
            elif title is not None:
                assert id_ > last[name]
                last[name] = id_
            titles[id_] = title


class InProcessDelivery(DeliveryLoop):
    """A loop in the test process: `close` also closes its database."""

    def close(self) -> None:
        super().close()
        self._loop.db.close()


def run_until_delivered(loop: DeliveryLoop) -> None:
    """Run turns until there is nothing to deliver."""
    for _ in range(1000):
        if loop.run_turn() is TurnResult.IDLE:
            return
    raise AssertionError("never idle")

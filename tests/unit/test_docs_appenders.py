"""The example of docs/appenders.md: its defs load with its classes, and the classes do what the page says."""

import contextlib
import sqlite3
from decimal import Decimal

from crawl_engine.append.loop.turns import GIVE_UP_SECONDS, MAX_BACKOFF_SECONDS
from crawl_engine.append.send import delivery
from crawl_engine.append.send import plugin_encoder as plugin_encoder
from crawl_engine.defs.language.keys import keys_of
from crawl_engine.defs.loader import load
from crawl_engine.model.output_type import AppenderDef

from .doc_pages import ROOT, blocks, quoted

PAGE = (ROOT / "docs/appenders.md").read_text("utf-8")
[YAML] = blocks(PAGE, "yaml")
[PYTHON] = blocks(PAGE, "python")


def test_the_example_is_complete(tmp_path):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "shop.py").write_text(PYTHON, "utf-8")
    (tmp_path / "shop.yml").write_text(YAML, "utf-8")
    loaded = load(tmp_path)
    assert loaded.warnings == ()
    assert [(a.name, a.kind, a.suffix) for a in loaded.definitions.appenders] == [
        ("crm", "appender", ""), ("rows", "built-in", ""), ("tabs", "encoder", "tsv"),
    ]  # fmt: skip


def test_the_classes_of_the_example_work(tmp_path):
    module = {}
    exec(PYTHON, module)
    tabs = module["Tabs"]()
    assert tabs.header(("title", "price")) + tabs.encode([{"title": "A", "price": Decimal("1.50")}]) == (
        b"title\tprice\nA\t1.50\n"
    )
    crm = module["Crm"](str(tmp_path / "crm.db"))
    row = {"id": 1, "run": "r", "dataDef": "book", "row": {"title": "A", "price": Decimal("1.50")}}
    crm.append([row, row, {**row, "id": 2}, {"id": 1, "run": "r", "dataDef": "book", "deleted": True}])
    crm.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "crm.db")) as db:
        assert db.execute("SELECT * FROM books").fetchall() == [(2, "A", "1.50")]


def test_the_figures_are_those_of_the_code():
    assert f"at most {plugin_encoder.CHUNK_ROWS} rows" in PAGE
    assert f"at most {delivery.BATCH_ROWS} changes" in PAGE
    assert f"… {MAX_BACKOFF_SECONDS:.0f} s" in PAGE
    assert f"at least {GIVE_UP_SECONDS:.0f} s more" in PAGE


def test_every_key_of_an_appender_with_a_class_is_explained():
    of_files = {"delimiter", "escapeFormulas", "bom", "quoting", "columns", "flatten", "decimal", "fileName", "changes"}
    assert keys_of(AppenderDef).keys() - set(quoted(PAGE)) == {*of_files, "url", "headers", "batch"}

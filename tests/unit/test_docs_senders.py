"""The example of docs/senders.md: its defs load, its program works, and every key is explained."""

import json
import subprocess
import sys

from crawl_engine.append.loop.turns import MAX_BACKOFF_SECONDS
from crawl_engine.append.send import delivery
from crawl_engine.defs.checks.appenders import COMMAND_KEYS, HTTP_KEYS
from crawl_engine.defs.loader import load
from crawl_engine.settings import Settings

from .doc_pages import ROOT, blocks, quoted

PAGE = (ROOT / "docs/senders.md").read_text("utf-8")
[YAML] = blocks(PAGE, "yaml")
[PYTHON] = blocks(PAGE, "python")


def test_the_example_loads(tmp_path):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "enqueue.py").write_text(PYTHON, "utf-8")
    (tmp_path / "shop.yml").write_text(YAML, "utf-8")
    loaded = load(tmp_path)
    assert loaded.warnings == ()
    api, queue, _ = loaded.definitions.appenders
    assert (api.kind, api.batch, api.url) == ("sender", 200, "https://crm.example/books")
    assert (queue.kind, queue.run, queue.data_defs) == ("sender", ("python3", "plugins/enqueue.py", "books"), ("book",))


def test_the_program_keeps_each_line_and_acknowledges_it(tmp_path):
    program = tmp_path / "enqueue.py"
    program.write_text(PYTHON, "utf-8")
    changes = [{"id": 4, "row": {"title": "A"}}, {"id": 2, "deleted": True}]
    lines = "".join(json.dumps(change) + "\n" for change in changes)
    done = subprocess.run(
        [sys.executable, program, "books"], input=lines, capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"ack": 4}, {"ack": 2}]
    assert (tmp_path / "books.jsonl").read_text() == lines


def test_the_figures_are_those_of_the_code():
    assert f"default {delivery.BATCH_ROWS}" in PAGE
    assert f"… {MAX_BACKOFF_SECONDS:.0f} s" in PAGE
    assert f"`send_drain` ({Settings().send_drain:.0f} s)" in PAGE


def test_every_key_is_explained():
    assert {"type", "dataDefs"} | HTTP_KEYS | COMMAND_KEYS <= set(quoted(PAGE))

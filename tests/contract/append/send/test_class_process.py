"""The process of a plugin class: what it is asked, what it may do wrong, and how it ends."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.append.loop.lifeline import Lifeline, LoopControl
from crawl_engine.append.loop.turns import SupervisorGone
from crawl_engine.append.send.class_process import ClassProcess, ClassSpec, OutputFailed
from crawl_engine.model.step import PluginFile
from tests.templates import children_of, template, template_pid

START = "import asyncio, os, sys, threading, time, pathlib\n"
Create = Callable[..., ClassProcess]


@pytest.fixture
def control() -> LoopControl:
    return LoopControl(Lifeline())


@pytest.fixture
def create(tmp_path: Path, control: LoopControl) -> Iterator[Create]:
    created: list[ClassProcess] = []

    def build(source: str, *, kind: str = "encoder", limit: float = 5.0, **options: Any) -> ClassProcess:
        spec = ClassSpec(
            name="out.Out", kind=kind, options=options, limit=limit, memory=200_000_000,
            data_defs={"book": {"columns": ["a", "b"], "types": {"a": "int"}, "item_types": {}}},
        )  # fmt: skip
        file = PluginFile(path="out.py", text=START + source)
        created.append(ClassProcess(spec, template(), "out/book", lambda: [file], control))
        return created[-1]

    yield build
    for process in created:
        process.close()


ENCODER = """
class Out:
    def header(self, columns): return repr(columns).encode()
    def encode(self, rows): return repr(rows).encode()
"""


def test_an_encoder_gets_columns_and_rows(create: Create) -> None:
    process = create(ENCODER)
    assert process.header() == b"('a', 'b')"
    assert process.ask("encode", [b'{"b":"x","a":1}', b'{"a":2}']) == b"[{'a': 1, 'b': 'x'}, {'a': 2, 'b': None}]"


FOOTED = (
    ENCODER
    + """
    count = 0
    def encode(self, rows):
        self.count += len(rows)
        if rows[0]["b"] == "exit": os._exit(3)
        if rows[0]["b"] == "dies soon": threading.Timer(0.05, os._exit, (3,)).start()
        return b"x"
    def footer(self): return str(self.count).encode()
"""
)


def test_each_file_with_a_footer_has_an_instance_of_its_own(create: Create) -> None:
    process = create(FOOTED)
    for _ in range(2):
        assert process.header() == b"('a', 'b')"
        assert process.has_footer
        assert process.ask("encode", [b'{"a":1}', b'{"a":2}']) + process.ask("encode", [b'{"a":3}']) == b"xx"
        assert process.footer() == b"3"
    process.header()
    process.ask("encode", [b'{"a":1}'])
    assert process.header() == b"('a', 'b')"  # the first file was given up
    assert process.footer() == b"0"


def test_a_footer_never_follows_the_rows_of_another_instance(create: Create) -> None:
    process = create(FOOTED)
    process.header()
    process.ask("encode", [b'{"b":"dies soon"}'])
    time.sleep(0.5)
    with pytest.raises(OutputFailed, match="its process ended before the footer of the file"):
        process.ask("encode", [b'{"a":2}'])
    process.header()
    with pytest.raises(OutputFailed, match="its process ended"):
        process.ask("encode", [b'{"b":"exit"}'])


def test_an_appender_may_be_async_and_is_closed(create: Create, tmp_path: Path) -> None:
    process = create(
        "class Out:\n"
        "    def __init__(self, path): self.path = pathlib.Path(path)\n"
        "    async def append(self, rows):\n"
        "        await asyncio.sleep(0)\n"
        "        self.path.write_text(repr(rows))\n"
        "    async def close(self): self.path.with_name('closed').touch()\n",
        kind="appender", path=str(tmp_path / "got"),
    )  # fmt: skip
    lines = [
        b'{"id":7,"run":"r","dataDef":"book","row":{"a":1}}',
        b'{"id":5,"run":"r","dataDef":"book","deleted":true}',
    ]
    process.ask("append", lines, "book")
    process.close()
    assert (tmp_path / "got").read_text() == repr([
        {"id": 7, "run": "r", "dataDef": "book", "row": {"a": 1, "b": None}},
        {"id": 5, "run": "r", "dataDef": "book", "deleted": True},
    ])  # fmt: skip
    assert (tmp_path / "closed").exists()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 'text'", "`encode` must return bytes, not str"),
        ("return rows[5]", "IndexError: list index out of range (plugins/out.py:6)"),
        ("sys.exit(3)", "SystemExit: 3 (plugins/out.py:6)"),
        ("os._exit(3)", "its process ended (exit 3)"),
        ("os.kill(os.getpid(), 9)", "its process ended (signal 9)"),
        ("time.sleep(60)", "it took longer than its limit of 0.5 s; its process was ended"),
        ("return bytes(300_000_000)", "MemoryError"),
        ("os.closerange(3, 10_000)", "its process ended (exit 1)"),
    ],
)
def test_what_goes_wrong_is_named_and_the_next_request_works(create: Create, body: str, message: str) -> None:
    process = create(
        "class Out:\n"
        "  def header(self, columns): return b''\n"
        f"  def encode(self, rows):\n    if rows[0]['a'] == 1:\n      {body}\n    return b'ok'\n",
        limit=0.5,
    )
    with pytest.raises(OutputFailed) as failed:
        process.ask("encode", [b'{"a":1}'])
    assert message in failed.value.message
    assert process.ask("encode", [b'{"a":2}']) == b"ok"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", "plugins/out.py cannot be loaded: ZeroDivisionError"),
        ("class Out:\n  def __init__(self): raise ValueError('no')", "out.Out cannot be created: ValueError: no"),
        ("class Out:\n  def header(self, columns): return 'x'", "`header` must return bytes, not str"),
        ("class Other: pass", "cannot be loaded: AttributeError"),
    ],
)  # fmt: skip
def test_a_class_that_cannot_be_created_says_why(create: Create, source: str, message: str) -> None:
    with pytest.raises(OutputFailed) as failed:
        create(source).header()
    assert message in failed.value.message


def test_what_it_prints_or_reads_breaks_nothing(create: Create) -> None:
    process = create(
        "class Out:\n"
        "  def header(self, columns): os.write(1, b'\\0' * 100); return b''\n"
        "  def encode(self, rows):\n"
        "    print('x' * 100_000); sys.stderr.write('y'); return sys.stdin.read().encode() + b'ok'\n"
    )
    assert process.ask("encode", [b"{}"]) == b"ok"


def test_a_process_that_leaks_is_replaced_before_it_fails(create: Create) -> None:
    process = create(
        "kept = []\n"
        "class Out:\n"
        "  def header(self, columns): return b''\n"
        "  def encode(self, rows): kept.append(bytearray(b'x' * 30_000_000)); return str(os.getpid()).encode()\n"
    )
    pids = [process.ask("encode", [b"{}"]) for _ in range(12)]
    assert 2 <= len(set(pids)) <= 6


def test_a_removed_output_ends_a_request(create: Create, control: LoopControl) -> None:
    process = create("class Out:\n  def append(self, rows): time.sleep(60)\n", kind="appender", limit=60.0)
    process.header()
    control.stop()
    with pytest.raises(SupervisorGone):
        process.ask("append", [b"{}"], "book")


def test_a_close_that_fails_is_logged(create: Create, caplog: pytest.LogCaptureFixture) -> None:
    process = create("class Out:\n  def append(self, rows): pass\n  def close(self): 1 / 0\n", kind="appender")
    process.header()
    with caplog.at_level(logging.WARNING), closing(process):
        pass
    assert "`close`: ZeroDivisionError" in caplog.text


def test_it_outlives_the_signals_of_its_group(create: Create) -> None:
    process = create(ENCODER)
    process.header()
    [pid] = children_of(template_pid())
    for number in (1, 2, 15):
        os.kill(pid, number)
    assert process.ask("encode", [b'{"a":1}']) == b"[{'a': 1, 'b': None}]"

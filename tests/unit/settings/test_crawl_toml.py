"""The tables `[helpers.NAME]` of crawl.toml: what they mean, and where their mistakes are."""

import re
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.errors import UsageError
from crawl_engine.model.node import NodeRange
from crawl_engine.settings import Settings, load_settings
from crawl_engine.settings.declaration import Helper

from ..doc_pages import ROOT, blocks


def load(folder: Path, text: str) -> Settings:
    (folder / "crawl.toml").write_text(text, "utf-8")
    return load_settings({}, environment={}, folder=folder)


def test_helpers_are_read_in_written_order(tmp_path: Path) -> None:
    text = """\
nodes = 3

[helpers.proxy]
run = ["mitmdump", "-p", "8080"]
ready = {port = 8080}

[helpers.a-browser]
run = ["chrome"]
ready = {line = "DevTools listening", within = "1m"}
stop = "500ms"

[helpers.plain_1]
run = ["sleep", "60"]
stop = 0
"""
    loaded = load(tmp_path, text)
    assert loaded.nodes == NodeRange(3, 3)
    assert loaded.helpers == (
        Helper(name="proxy", run=("mitmdump", "-p", "8080"), port=8080, within=30.0, stop=5.0),
        Helper(name="a-browser", run=("chrome",), line="DevTools listening", within=60.0, stop=0.5),
        Helper(name="plain_1", run=("sleep", "60"), stop=0.0),
    )
    assert Settings.from_json(loaded.to_json()).helpers is None, "nodes do not need them"


def test_the_example_of_the_documentation_works(tmp_path: Path) -> None:
    (toml,) = blocks((ROOT / "docs" / "helpers.md").read_text("utf-8"), "toml")
    helpers = load(tmp_path, toml).helpers
    assert [(one.name, one.port, one.line, one.within, one.stop) for one in helpers or ()] == [
        ("proxy", 3128, None, 30.0, 5.0), ("browser", None, "Listening on", 60.0, 10.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "number", "message"),
    [
        ('[helpers.proxy]\nready = {port = 1}', 2, "helpers.proxy: `run` is missing"),
        ('[helpers.proxy]\nrun = "mitmdump"', 3, "helpers.proxy.run: cannot be 'mitmdump'"),
        ("[helpers.proxy]\nrun = []", 3, "helpers.proxy.run: cannot be []"),
        ("[helpers.proxy]\nrun = [1]", 3, "helpers.proxy.run: cannot be [1]"),
        ('[helpers.proxy]\nrun = [" "]', 3, "helpers.proxy.run: cannot be [' ']"),
        ('[helpers.proxy]\nrun = ["x"]\nredy = 1', 4, "helpers.proxy.redy: unknown key 'redy' (did you mean 'ready'?)"),
        ('[helpers.proxy]\nrun = ["x"]\nnodes = 1', 4, "helpers.proxy.nodes: unknown key 'nodes'"),
        ('[helpers.proxy]\nrun = ["x"]\nready = 80', 4, "helpers.proxy.ready: not a table"),
        ('[helpers.proxy]\nrun = ["x"]\nready = {}', 4, "helpers.proxy.ready: needs either `port` or `line`"),
        ('[helpers.proxy]\nrun = ["x"]\nready = {port = 1, line = "y"}', 4, "helpers.proxy.ready: needs either"),
        ('[helpers.proxy]\nrun = ["x"]\nready = {port = "80"}', 4, "helpers.proxy.ready.port: cannot be '80'"),
        ('[helpers.proxy]\nrun = ["x"]\nready = {port = true}', 4, "helpers.proxy.ready.port: cannot be True"),
        ('[helpers.proxy]\nrun = ["x"]\nready = {port = 65536}', 4, "helpers.proxy.ready.port: cannot be 65536"),
        ('[helpers.proxy]\nrun = ["x"]\nready = {line = " "}', 4, "helpers.proxy.ready.line: cannot be ' '"),
        ('[helpers.proxy]\nrun = ["x"]\nready = {line = "a\\nb"}', 4, r"helpers.proxy.ready.line: cannot be 'a\nb'"),
        ('[helpers.proxy]\nrun = ["x"]\n[helpers.proxy.ready]\nport = 0', 5, "helpers.proxy.ready.port: cannot be 0"),
        ('[helpers.proxy]\nrun = ["x"]\nready = {port = 1, within = 0}', 4, "helpers.proxy.ready.within: cannot be 0"),
        ('[helpers.proxy]\nrun = ["x"]\nready = {prt = 1}', 4, "helpers.proxy.ready.prt: unknown key 'prt'"),
        ('[helpers.proxy]\nrun = ["x"]\nstop = -1', 4, "helpers.proxy.stop: cannot be -1"),
        ('[helpers.proxy]\nrun = ["x"]\nstop = "soon"', 4, "helpers.proxy.stop: cannot be 'soon'"),
        ('[helpers.proxy]\nrun = ["x"]\nstop = inf', 4, "helpers.proxy.stop: cannot be inf"),
        ('[helpers.a]\nrun = ["x"]\n[helpers.proxy]\nrun = 1', 5, "helpers.proxy.run: cannot be 1"),
        ('[helpers."my proxy"]\nrun = ["x"]', 2, "helpers.my proxy: not a name"),
        ('[helpers."../x"]\nrun = ["x"]', 2, "helpers.../x: not a name"),
        ('helpers = ["x"]', 2, "helpers: not a table"),
        ('[helpers]\nproxy = ["x"]', 3, "helpers.proxy: not a table"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(tmp_path: Path, lines: str, number: int, message: str) -> None:
    with pytest.raises(UsageError, match=rf"^crawl\.toml:{number}: {re.escape(message)}") as raised:
        load(tmp_path, f"nodes = 2\n{lines}\n")
    assert raised.value.remedy
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("value", ["none", ""])
def test_a_flag_turns_helpers_off(tmp_path: Path, value: str) -> None:
    (tmp_path / "crawl.toml").write_text('[helpers.proxy]\nrun = ["x"]\n')
    assert load_settings({"helpers": value}, environment={}, folder=tmp_path).helpers is None


def test_a_flag_or_variable_has_them_as_json() -> None:
    text: Any = '{"proxy": {"run": ["x"], "ready": {"port": 1}}}'
    expected = (Helper(name="proxy", run=("x",), port=1),)
    assert load_settings({"helpers": text}, environment={}).helpers == expected
    assert load_settings({}, environment={"CRAWL_HELPERS": text}).helpers == expected
    for bad in ("proxy", "[]", "3"):
        with pytest.raises(UsageError, match=r"^--set helpers: helpers: not a table"):
            load_settings({"helpers": bad}, environment={})

"""Every number of a setting has bounds, and the message of a number beyond them says so, from wherever it comes."""

from pathlib import Path
from typing import get_type_hints

import pytest
from msgspec import Meta
from msgspec.structs import fields

from crawl_console.cli.main import main
from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError, UsageError
from crawl_engine.model import bounds
from crawl_engine.model.bounds import describe_bounds
from crawl_engine.settings import Settings, load_settings
from crawl_engine.settings.values import split_hint

HINTS = get_type_hints(Settings, include_extras=True)
BOUNDED = {name: limits for name, hint in HINTS.items() if (limits := split_hint(hint)[1]) is not None}
BOUNDED["nodes"] = bounds.NODES


def test_every_number_has_bounds_that_hold_its_default() -> None:
    for field in fields(Settings):
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert bounds.is_within(BOUNDED[field.name], field.default), field.name
    for limits in BOUNDED.values():
        assert limits.ge is not None and limits.le is not None


@pytest.mark.parametrize("name", BOUNDED)
def test_a_number_beyond_its_bounds_is_refused_with_them(tmp_path: Path, name: str) -> None:
    limits = BOUNDED[name]
    assert limits.ge is not None and limits.le is not None
    for value in (limits.ge - 1, limits.le + 1, 2**63, 10**400, 1e18):
        (tmp_path / "crawl.toml").write_text(f"{name} = {value:.0f}\n" if value < 2**63 else "")
        sources = [({name: str(value)}, {}), ({}, {f"CRAWL_{name.upper()}": str(value)})]
        if value < 2**63:
            sources.append(({}, {}))
        for assigned, environment in sources:
            with pytest.raises(UsageError) as raised:
                load_settings(assigned, environment=environment, folder=tmp_path)
            assert f"{name} cannot be " in raised.value.message
            assert describe_bounds(limits) in raised.value.remedy
            assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--nodes", "99999999"], "between 1 and 256"),
        (["run", "--nodes", "1-257"], "between 1 and 256"),
        (["run", "--backups", "257"], "0<=x<=256"),
        (["run", "--grace", "1e18"], "0<=x<=86400"),
        (["run", "--grace", "nan"], "not a time"),
        (["run", "--max-time", "1e18"], "0.1<=x<=31622400"),
        (["run", "--max-pages", str(2**63)], "1<=x<=1000000000000"),
        (["run", "--max-failed", str(2**63)], "0<=x<=1000000000000"),
        (["run", "--min-rows", str(2**63)], "0<=x<=1000000000000"),
        (["run", "--refresh", "11"], "0.1<=x<=10"),
        (["run", "--set", f"max_pages={2**63}"], "between 1 and 1,000,000,000,000"),
        (["run", "--set", "delay=1e18"], "between 0 and 86,400"),
        (["run", "--set", f"host_concurrency={2**31}"], "between 1 and 1,000"),
        (["scale", "257"], "between 1 and 256"),
        (["host", "a", "--delay", "1e18"], "0<=x<=86400"),
        (["host", "a", "--concurrency", "5000000"], "1<=x<=1000"),
        (["demo", "--pages", "99999999"], "1<=x<=1000000"),
    ],
)
def test_the_command_line_says_the_bounds(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())


DEFS = """\
locatorGroups: {{g: {{locators: [{{url: "http://a/"}}]}}}}
taskGroups: {{g: {{{group}list: {{dataDef: b}}}}}}
dataDefs: {{b: {{{data_def}fields: {{t: {{selector: b}}}}, links: [{{selector: a{link}}}]}}}}
hosts: {{a: {{{host}}}}}
appenders: {{x: {{{appender}}}}}
"""
PARTS = {"group": "", "data_def": "", "link": "", "host": "delay: 1", "appender": "type: csv"}


@pytest.mark.parametrize(
    ("part", "text", "limits"),
    [
        ("host", "concurrency: {}", bounds.CONCURRENCY), ("host", "delay: {}", bounds.DELAY),
        ("host", "delay: {{min: 0, max: {}}}", bounds.DELAY), ("host", "retry: {{attempts: {}}}", bounds.ATTEMPTS),
        ("group", "maxPages: {}, ", bounds.POSITIVE_DEF_COUNT), ("group", "maxDepth: {}, ", bounds.DEF_COUNT),
        ("group", "priority: {}, ", bounds.PRIORITY), ("link", ", priority: {}", bounds.PRIORITY),
        ("link", ", maxDepth: {}", bounds.DEF_COUNT), ("data_def", "expect: {{rows: {}}}, ", bounds.DEF_COUNT),
        ("appender", "type: http, url: 'http://a/', batch: {}", bounds.SENDER_BATCH),
    ],
)  # fmt: skip
def test_a_number_of_the_defs_beyond_its_bounds_is_refused_with_them(
    tmp_path: Path, part: str, text: str, limits: Meta
) -> None:
    most = limits.le
    assert most is not None
    for value in (most + 1, 2**31, 2**63, 10**30, 1e18, 1e300, "nan", ".inf"):
        (tmp_path / "defs.yml").write_text(DEFS.format(**PARTS | {part: text.format(value)}))
        with pytest.raises(DefsError) as raised:
            load(tmp_path)
        assert f"at most {most:,}" in str(raised.value) or describe_bounds(limits) in str(raised.value), value


def test_all_mistakes_of_crawl_toml_are_reported(tmp_path: Path) -> None:
    (tmp_path / "crawl.toml").write_text(
        'nodse = 3\nnodes = 0\ndelay = "soon"\n[helpers.a]\nrun = []\nstop = -1\n[helpers.b]\nready = {port = 0}\n'
    )
    with pytest.raises(UsageError) as raised:
        load_settings({}, environment={}, folder=tmp_path)
    lines = str(raised.value).splitlines()
    assert [line for line in lines if line.startswith("crawl.toml")] == [
        "crawl.toml:1: unknown setting 'nodse' (did you mean 'nodes'?)",
        "crawl.toml:2: nodes cannot be 0",
        "crawl.toml:3: delay cannot be 'soon'",
        "crawl.toml:5: helpers.a.run: cannot be []",
        "crawl.toml:6: helpers.a.stop: cannot be -1",
        "crawl.toml:7: helpers.b: `run` is missing",
    ]
    assert all(line.startswith("  ") for line in lines[1::2]), "each with what to do"

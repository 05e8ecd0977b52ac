"""The command `config`: values and origins of settings, from every source; masked secrets; mistakes."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import fields

from crawl_console.cli.main import main
from crawl_engine.settings import Settings, resolve_settings

TOML = """\
delay = 0.5

on_end = ["curl", "--proxy=http://me:canary@h:1/", "me@acme.example"]

[helpers.proxy]
run = ["squid", "http://me:canary@h/"]
ready = {port = 3128}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crawl.toml").write_text(TOML)
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "scoopi.properties").write_text("scoopi.webClient.timeout=9000\nscoopi.mode=x\n")
    monkeypatch.setenv("CRAWL_BASE_URL", "http://me:canary@shop.example/")
    return tmp_path


def invoke(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["config", *words])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def read(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code, out, _ = invoke(capsys, "--json", *words)
    assert (code, out.count("\n")) == (0, 1)
    return orjson.loads(out)


@pytest.mark.usefixtures("folder")
def test_each_setting_has_its_value_and_origin(capsys: pytest.CaptureFixture[str]) -> None:
    shown = read(capsys, "--set", "nodes=1-4", "--set", "live=P1D")
    assert list(shown) == [field.name for field in fields(Settings)]
    expected = {
        "nodes": ("1-4", "--set nodes"), "live": ("P1D", "--set live"), "delay": (0.5, "crawl.toml:1"),
        "base_url": ("http://shop.example/", "env CRAWL_BASE_URL"), "batch": (32, "default"),
        "deadline": (9.0, "defs/scoopi.properties:1:26"), "min_rows": (None, "default"),
    }  # fmt: skip
    for name, (value, origin) in expected.items():
        assert shown[name] == {"value": value, "origin": origin}
    assert shown["helpers"]["value"]["proxy"]["ready"] == {"port": 3128, "within": 30.0}
    assert read(capsys, "--set", "nodes=3", "nodes") == {"nodes": {"value": 3, "origin": "--set nodes"}}


@pytest.mark.usefixtures("folder")
def test_no_password_of_a_url_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("--json",)):
        _, out, error = invoke(capsys, *words)
        assert "canary" not in out + error
        assert "--proxy=http://h:1/" in out
        assert "me@acme.example" in out


@pytest.mark.usefixtures("folder")
def test_lines_and_the_warnings_of_a_properties_file(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, error = invoke(capsys, "--set", "delay=2")
    assert code == 0
    assert "`scoopi.mode` has no meaning here" in error
    assert ["delay", "2.0", "--set delay"] in [re.split(r"\s{2,}", line) for line in out.splitlines()]
    assert invoke(capsys, "host-clock")[1] == "SETTING     VALUE  ORIGIN\nhost_clock  true   default\n"


def test_every_value_is_shown_as_set_takes_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = invoke(capsys)
    lines = [re.split(r"\s{2,}", line) for line in out.splitlines()[1:]]
    again = {one.name: one.value for one in resolve_settings({line[0]: line[1] for line in lines}, environment={})}
    properties = {"deadline": 9.0}
    for setting in resolve_settings({}, environment={}, folder=folder):
        if setting.name not in ("helpers", "on_end", "base_url"):
            assert again[setting.name] == properties.get(setting.name, setting.value), setting.name
    assert [helper.name for helper in again["helpers"]] == ["proxy"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("dely",), "config: unknown setting 'dely' (did you mean 'delay'?)"),
        (("--set", "delay=x"), "--set delay: delay cannot be 'x'"),
        (("--set", "nope=1"), "--set: unknown setting 'nope'"),
        (("--defs", ""), "the path is empty"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_mistakes(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    code, out, error = invoke(capsys, *words)
    assert (code, out) == (2, "")
    assert message in error


def test_all_mistakes_of_a_file_are_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "crawl.toml").write_text("delay = -1\nnope = 2\n[helpers.p]\nrun = 3\n")
    code, out, error = invoke(capsys, "delay")
    assert (code, out) == (2, "")
    for place in (
        "crawl.toml:1: delay cannot be -1",
        "crawl.toml:2: unknown setting 'nope'",
        "crawl.toml:4: helpers.p",
    ):
        assert place in error

"""docs/settings.md against the code: names, defaults, flags."""

import tomllib
from typing import get_type_hints

import click
import pytest
from msgspec.structs import fields

from crawl_console.cli.main import crawl_console
from crawl_engine import __version__
from crawl_engine.model import bounds
from crawl_engine.model.node import NodeRange
from crawl_engine.settings import Settings, resolve_settings
from crawl_engine.settings.values import split_hint

from .doc_pages import SETTINGS, blocks, table


def settings_rows():
    return {row[0].strip("`"): row for row in table(SETTINGS)}


def test_every_setting_is_documented_and_no_other():
    assert list(settings_rows()) == [field.name for field in fields(Settings)]


@pytest.mark.parametrize("field", fields(Settings), ids=lambda field: field.name)
def test_the_default_of_a_setting_is_documented(field):
    default = settings_rows()[field.name][1]
    if field.name == "nodes":
        assert default == "`1-N`, N = CPUs, 2 to 4"
    elif field.name == "user_agent":
        assert default.strip("`").replace("VERSION", __version__) == field.default
    elif field.default is None:
        assert default == "none"
    else:
        written = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
        assert default == f"`{written}`"


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_the_bounds_of_a_setting_are_documented(name):
    limits = bounds.NODES if name == "nodes" else split_hint(get_type_hints(Settings, include_extras=True)[name])[1]
    assert settings_rows()[name][2] == (f"{limits.ge:,} to {limits.le:,}" if limits else "")


def test_the_flag_of_a_setting_is_documented_and_exists():
    flags = {
        option.name: option.opts[0]
        for option in crawl_console.get_command(click.Context(crawl_console), "run").params
        if option.name
    }
    for name, row in settings_rows().items():
        assert row[4].strip("`") == flags.get(name, "")


def test_the_example_of_settings_works_as_documented(tmp_path):
    (toml,) = blocks(SETTINGS, "toml")
    (tmp_path / "crawl.toml").write_text(toml, "utf-8")
    resolved = {
        setting.name: (setting.value, setting.origin)
        for setting in resolve_settings(
            {"nodes": 4, "deadline": "60"}, environment={"CRAWL_DELAY": "1"}, folder=tmp_path
        )
    }
    assert resolved["nodes"] == (NodeRange(4, 4), "--set nodes")
    assert resolved["deadline"] == (60.0, "--set deadline")
    assert resolved["delay"] == (1.0, "env CRAWL_DELAY")
    assert resolved["live"] == ("PT12H", "crawl.toml:6")
    assert resolved["grace"] == (25.0, "default")
    assert set(tomllib.loads(toml)) <= set(resolved)

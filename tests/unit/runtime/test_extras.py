"""The extras of the package are those of the table, in pyproject.toml and in README."""

import re
import tomllib
from pathlib import Path
from typing import get_args

from crawl_engine.runtime.extras import Extra, find_extra, has_extra, install_hint

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_each_extra_is_in_pyproject_and_in_readme() -> None:
    groups = PROJECT["optional-dependencies"]
    assert {*groups} - {"dev", "bench"} == {*get_args(Extra)}
    (all_of_dev,) = re.findall(r"crawl-console\[(.*?)\]", " ".join(groups["dev"]))
    assert {*all_of_dev.split(",")} == {*get_args(Extra)}
    (told,) = re.findall(r"The extras are (.*?\.)", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert {*re.findall(r"`(\w+)`", told)} >= {*get_args(Extra)}


def test_each_extra_names_a_module_and_how_it_is_installed() -> None:
    for extra in get_args(Extra):
        assert find_extra(extra) == extra
        assert isinstance(has_extra(extra), bool)
        assert install_hint(extra) == f"pip install 'crawl-console[{extra}]'"
    assert find_extra("csv") is None

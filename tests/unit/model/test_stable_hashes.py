"""Defs of before keep their hashes: their data dirs resume without a request and without an extraction."""

import importlib.util
import json
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Struct

from crawl_engine.defs.loader import load
from crawl_engine.model.definition import Definitions, definition_hash
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.model.stored_form import OMIT_DEFAULT, from_plain, to_plain

FOLDER = Path(__file__).parents[2] / "data" / "defs_of_format_29"
"""The defs of the demo, of the recipes and of tables, and what the format before this one made of them."""
KNOWN = json.loads((FOLDER / "hashes.json").read_text("utf-8"))


def definitions_of(name: str) -> Definitions:
    texts = [path.read_text("utf-8") for path in (FOLDER / name).glob("*.yml")]
    if any("browser" in text for text in texts) and importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed")
    text = load(FOLDER / name).definitions.to_json()
    return Definitions.from_json(text.replace(str(FOLDER), "/defs"))  # files of seeds are named by their whole path


def hashes_of(name: str) -> dict[str, object]:
    prepared = PreparedDefs.from_definitions(definitions_of(name))
    return {
        "hash": prepared.hash,
        "data_defs": prepared.data_defs,
        "groups": {group.group: group.hash for group in prepared.groups},
    }


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_unchanged_defs_keep_their_hashes(name: str) -> None:
    assert hashes_of(name) == KNOWN[name]


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_stored_version_reads_back_equal(name: str) -> None:
    definitions = definitions_of(name)
    assert definition_hash(Definitions.from_json(definitions.to_json())) == definition_hash(definitions)


class Before(Struct, frozen=True):
    """A struct of the defs."""

    name: str
    age: int = 1


class After(Before, frozen=True):
    """The same, with a key that came later."""

    colour: Annotated[str | None, OMIT_DEFAULT] = None


def test_a_key_that_came_later_counts_only_where_it_is_written() -> None:
    assert definition_hash(After("a")) == definition_hash(Before("a"))
    assert definition_hash(After("a", colour="red")) != definition_hash(Before("a"))
    assert from_plain(After, to_plain(After("a"))) == After("a")
    assert from_plain(After, to_plain(After("a", colour="red"))) == After("a", colour="red")

"""Schema scripts that a kept data dir was made with do not change; the newest schema has a kept data dir."""

import json
import re

import pytest

from engine.store.db.schema import CRAWL, MIGRATIONS, PAGES
from tests.data.kept_crawl import DUMPS
from tests.data.script_hashes import hash_scripts, hash_statements

_HOW = "run `just keep-schema` and commit tests/data"


def kept_hashes() -> dict[str, dict[str, list[str]]]:
    """By folder: the hashes of the scripts of each file when the data dir was made."""
    return {path.parent.name: json.loads(path.read_text("utf-8")) for path in sorted(DUMPS.glob("*/scripts.json"))}


@pytest.mark.parametrize("folder", sorted(kept_hashes()))
def test_a_script_is_never_edited_in_place(folder: str) -> None:
    now = hash_scripts()
    for file, hashes in kept_hashes()[folder].items():
        for number, (name, kept, current) in enumerate(zip(MIGRATIONS[file], hashes, now[file], strict=False), 1):
            assert current == kept, f"{name} was changed after data dirs were made with it: add schema {number + 1}"
        assert len(now[file]) >= len(hashes), f"a script of {file} was removed"


def test_every_script_is_covered_by_a_kept_data_dir() -> None:
    newest = len(MIGRATIONS[CRAWL])
    kept = kept_hashes().get(f"schema-{newest}")
    assert kept is not None, f"no kept data dir of schema {newest}: {_HOW}"
    assert {file: len(hashes) for file, hashes in kept.items()} == {f: len(s) for f, s in MIGRATIONS.items()}, _HOW
    for ending in ("killed", "cancelled"):
        for file in (CRAWL, PAGES):
            dump = (DUMPS / f"schema-{newest}" / ending / file).with_suffix(".sql").read_text("utf-8")
            assert dump.endswith(f"PRAGMA user_version = {len(MIGRATIONS[file])};\n"), _HOW


def test_dumps_hold_nothing_of_the_machine() -> None:
    text = "".join(path.read_text("utf-8") for path in DUMPS.glob("schema-*/*/*.sql"))

    assert not re.search(r"/(tmp|home|Users|var)/", text)


def test_the_hash_covers_statements_alone() -> None:
    script = "-- a comment\nCREATE TABLE a (\n    b INTEGER  -- what it is\n);\n"
    assert hash_statements(script) == hash_statements("CREATE TABLE a ( b INTEGER );")
    assert hash_statements(script) != hash_statements("CREATE TABLE a ( b TEXT );")

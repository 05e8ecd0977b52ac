"""Tables of names to which packages add: built-in names stay, packages are read once and only if needed."""

from importlib import metadata
from pathlib import Path

import pytest

from crawl_engine.errors import UsageError
from crawl_engine.installed import NameTable, list_installed
from crawl_engine.model.output_type import OUTPUT_TYPES


def install(folder: Path, text: str) -> None:
    info = folder / "more-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(text)


def table(group: str) -> NameTable[int]:
    return NameTable(group, {"one": 1}, lambda entry: isinstance(entry, int), "an int")


def test_a_built_in_name_reads_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: str) -> None:
        raise AssertionError

    monkeypatch.setattr(metadata, "entry_points", fail)
    numbers = table("crawl_console.numbers")
    assert numbers["one"] == 1
    assert "one" in numbers


def test_a_package_adds_names_and_changes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "[crawl_console.numbers]\none = sys:maxsize\nmost = sys:maxsize\ntext = sys:version\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    numbers = table("crawl_console.numbers")
    assert (numbers["one"], list(numbers), len(numbers)) == (1, ["one", "most", "text"], 3)
    assert numbers["most"] > 1
    assert numbers.get("none") is None
    assert numbers.installed() == [("most", "more 2.0"), ("text", "more 2.0")]
    assert ("one", "more 2.0") in list_installed("crawl_console.numbers")
    with pytest.raises(UsageError, match=r"sys:version of more 2\.0: it is not an int"):
        numbers["text"]


def test_taken_names_and_bad_packages_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "[crawl_console.numbers]\none = sys:maxsize\nends = ends_at_once:x\ntwice = sys:maxsize\n")
    other = tmp_path / "other-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (other / "entry_points.txt").write_text("[crawl_console.numbers]\ntwice = sys:maxsize\n")
    (tmp_path / "ends_at_once.py").write_text("raise SystemExit('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    numbers = table("crawl_console.numbers")
    assert numbers.conflicts() == [
        "more 2.0: the name 'one' (crawl_console.numbers) is taken; it has no effect",
        "more 2.0, other 1: each adds the name 'twice' (crawl_console.numbers)",
    ]
    with pytest.raises(UsageError, match=r"'ends' .*: SystemExit: no"):
        numbers["ends"]
    with pytest.raises(UsageError, match="each adds the name 'twice'"):
        numbers["twice"]


def test_no_package_is_read_for_senders_and_classes_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: str) -> None:
        raise AssertionError

    monkeypatch.setattr(metadata, "entry_points", fail)
    assert "http" not in OUTPUT_TYPES
    assert "shop.Tabs" not in OUTPUT_TYPES

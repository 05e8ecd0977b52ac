"""Names of files from fields: safe, with their ending, and the same in whatever order rows come."""

import csv
import io
import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_engine.append.formats.named_files import FilesEncoder


def file_of(number: int, ending: str = "pdf", name: str = "manual.pdf") -> dict[str, Any]:
    digest = f"{number:064x}"
    path, url = f"files/{digest}.{ending}", f"u{number}"
    return {"path": path, "size": 1, "hash": digest, "type": None, "name": name, "url": url}


def names(template: str, *rows: dict[str, Any], joins: dict[str, str] | None = None) -> dict[str, str]:
    encoder = FilesEncoder(template, joins or {})
    encoder.header()
    encoder.rows(map(json.dumps, rows))
    lines = list(csv.reader(io.StringIO(encoder.footer().decode(), newline="")))
    assert lines[0] == ["name", "path", "url"]
    return {name: path for name, path, _ in lines[1:]}


def test_names_are_those_of_fields_with_the_ending_of_the_file() -> None:
    more = [file_of(2, "jpg"), file_of(3, "png"), None]
    rows = [{"sku": "A-1", "tags": ["x", "y"], "paper": file_of(1), "more": more}]
    found = names("%{field.sku} %{field.tags}-%{download.number}", *rows)
    assert [*found] == ["A-1 x-y-1.pdf", "A-1 x-y-2.jpg", "A-1 x-y-3.png"]
    assert [*names("%{download.name}", *rows)] == [
        "manual.jpg", "manual.pdf", "manual.png",
    ]  # fmt: skip
    assert [*names("%{field.shop.town}", {"shop": {"town": "Uji"}, "paper": file_of(1)})] == ["Uji.pdf"]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a/b\\c", "a_b_c.pdf"), ("../../etc/passwd", "_.._etc_passwd.pdf"), ("CON", "_CON.pdf"),
        ("nul.txt", "_nul.txt.pdf"),
        ("a\0b\n\x1b[31m", "ab[31m.pdf"), ('<x>:"|?*', "_x______.pdf"), (" .hidden. ", "hidden.pdf"),
        ("\u202egpj", "gpj.pdf"), ("größe", "größe.pdf"),
    ],
)  # fmt: skip
def test_unsafe_names_become_safe_ones(written: str, name: str) -> None:
    assert [*names("%{field.a}", {"a": written, "f": file_of(1)})] == [name]


@pytest.mark.parametrize("written", ["", "  ", "...", None])
def test_a_blank_name_is_the_hash(written: str | None) -> None:
    assert [*names("%{field.a}", {"a": written, "f": file_of(7)})] == [f"{7:064x}.pdf"]


def test_long_names_are_cut_between_characters() -> None:
    (name,) = names("%{field.a}", {"a": "ä" * 300, "f": file_of(1)})
    assert name.encode().endswith(b".pdf")
    assert len(name.encode()) <= 255
    assert set(name.removesuffix(".pdf")) == {"ä"}


def test_equal_names_get_a_part_of_the_hash_whoever_comes_first() -> None:
    """Capitals do not tell names apart; one file under one name is one link."""
    one, two = file_of(1 << 252), file_of(2 << 252)
    rows = [{"a": "Tea", "f": one}, {"a": "tea", "f": two}, {"a": "Tea", "f": one}, {"a": "milk", "f": file_of(3)}]
    found = [names("%{field.a}", *order) for order in permutations(rows)]
    assert all(one == found[0] for one in found)
    assert [*found[0]] == ["Tea-10000000.pdf", "milk.pdf", "tea-20000000.pdf"]


def test_what_is_no_stored_file_is_left_out() -> None:
    """A plugin may write anything where a file was."""
    for path in ("../../etc/passwd", "files/../x.pdf", f"files/{1:064x}.pdf/..", "files/x.pdf", f"/files/{1:064x}.pdf"):
        assert names("%{field.a}", {"a": "x", "f": {**file_of(1), "path": path}}) == {}


@given(st.lists(st.tuples(st.text(max_size=6), st.integers(0, 3)), max_size=8))
def test_names_are_unique_and_do_not_depend_on_the_order(written: list[tuple[str, int]]) -> None:
    rows = [{"a": text, "f": file_of(number)} for text, number in written]
    found = names("%{field.a}", *rows)
    assert found == names("%{field.a}", *reversed(rows))
    assert len({name.casefold() for name in found}) == len(found)
    assert set(found.values()) == {row["f"]["path"] for row in rows}
    assert not any("/" in name or "\0" in name or name.startswith(".") for name in found)

"""Java properties: entries with their places, and files that are damaged or half saved."""

from pathlib import Path

import pytest

from crawl_engine.errors import UsageError
from crawl_engine.settings.scoopi_properties import read_properties


def read(folder: Path, content: bytes) -> list[tuple[str, str, int, int]]:
    path = folder / "x.properties"
    path.write_bytes(content)
    return [(entry.key, entry.value, entry.line, entry.column) for entry in read_properties(path)]


def test_entries_have_their_places(tmp_path: Path) -> None:
    content = b"# one\r\n\r\n  a.b = 1 \nc: x\\\n   y\r! two\nagent=Mozilla (X11\\; Linux)\nempty=\n"
    assert read(tmp_path, content) == [
        ("a.b", "1", 3, 9),
        ("c", "xy", 4, 1),
        ("agent", "Mozilla (X11; Linux)", 7, 1),
        ("empty", "", 8, 1),
    ]


@pytest.mark.parametrize(
    "content", [b"a=\xfc\xdf", "a=üß".encode(), b"\xef\xbb\xbfa=\xc3\xbc\xc3\x9f", rb"a=\u00fc\u00DF"]
)
def test_latin_1_utf_8_and_escapes_are_read(tmp_path: Path, content: bytes) -> None:
    ((key, value, _, _),) = read(tmp_path, content)
    assert (key, value) == ("a", "üß")


def test_no_file_has_no_entries(tmp_path: Path) -> None:
    assert read_properties(tmp_path / "none") == []
    (tmp_path / "file").write_text("")
    assert read_properties(tmp_path / "file") == read_properties(tmp_path / "file" / "none") == []


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"a=1\nscoopi.web", "2:1", "'scoopi.web' has no value"),
        (b"a=1\n\n b=x\\u12", "3:5", r"'\u12' is not a character"),
        (b"a=1\nb=x\\\n  \\u00g0", "3:3", r"is not a character"),
        (b"a=1\nb=x\\\n  y\\", "3:4", "the file ends in the middle of 'b'"),
        (b"a=1\n" + b"\0" * 40, "2:1", "not text: a NUL byte"),
        ("a=1\n".encode("utf-16"), "1:1", "not text: a NUL byte"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(tmp_path: Path, content: bytes, place: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, content)
    assert raised.value.message.startswith(f"{tmp_path / 'x.properties'}:{place}: ")
    assert message in raised.value.message
    assert raised.value.remedy


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Is a directory"):
        read_properties(tmp_path)

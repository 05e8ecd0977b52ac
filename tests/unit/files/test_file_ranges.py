"""The rules by which an interrupted download continues."""

import pytest

from crawl_engine.files.file_download import (
    ContentRange,
    declared_length,
    find_validator,
    may_continue,
    parse_content_range,
)

DATE = "Mon, 23 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bytes 5-9/10", ContentRange(5, 9, 10)),
        (" BYTES 0-0/* ", ContentRange(0, 0, None)),
        ("bytes 9-5/10", None),
        ("bytes 5-10/10", None),
        ("bytes */10", None),
        ("items 5-9/10", None),
        ("bytes 5-9/-1", None),
        ("bytes 5-99999999999999999999/*", None),
        ("", None),
    ],
)
def test_a_content_range_is_valid_or_none(value: str, expected: ContentRange | None) -> None:
    assert parse_content_range(value) == expected


@pytest.mark.parametrize(
    ("headers", "validator"),
    [
        ({"etag": '"abc"'}, '"abc"'),
        ({"etag": 'W/"abc"', "last-modified": "Mon, 23 Nov 2026 11:00:00 GMT", "date": DATE}, None),
        ({"etag": "abc"}, None),
        ({"etag": '"a\r\nX: y"'}, None),
        ({"etag": '"' + "x" * 300 + '"'}, None),
        ({"last-modified": "Mon, 23 Nov 2026 11:58:59 GMT", "date": DATE}, "Mon, 23 Nov 2026 11:58:59 GMT"),
        ({"last-modified": "Mon, 23 Nov 2026 11:59:30 GMT", "date": DATE}, None),
        ({"last-modified": "Mon, 23 Nov 2026 11:00:00 GMT"}, None),
        ({"last-modified": "yesterday", "date": DATE}, None),
        ({}, None),
    ],
)
def test_only_a_strong_validator_tells_that_a_file_is_the_same(headers: dict[str, str], validator: str | None) -> None:
    assert find_validator(headers) == validator


def test_an_answer_continues_unless_it_says_no_or_is_encoded() -> None:
    assert may_continue({})
    assert may_continue({"accept-ranges": "bytes", "content-encoding": "identity"})
    assert not may_continue({"accept-ranges": "None"})
    assert not may_continue({"content-encoding": "gzip"})


def test_a_length_is_a_number_or_unknown() -> None:
    lengths = [declared_length({"content-length": text}) for text in ("5000000000", "-1", "²", "1,2", "9" * 30)]
    assert [declared_length({}), *lengths] == [None, 5_000_000_000, None, None, None, None]

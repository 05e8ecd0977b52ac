"""All names of encodings that browsers know, in a header and in a document."""

import pytest
from webencodings.labels import LABELS  # type: ignore[import-untyped]

from crawl_engine.http.decode import codec_in_header, codec_in_markup, decode

UNSUPPORTED = ("replacement", "x-user-defined")


@pytest.mark.parametrize("label", [label for label, name in LABELS.items() if name not in UNSUPPORTED])
def test_every_label_of_the_standard_names_a_codec(label: str) -> None:
    codec = codec_in_header(f"text/html; charset={label}")
    assert codec is not None
    assert codec_in_header(f'text/html;a=b; Charset="{label.upper()}"') == codec
    assert codec_in_markup(f"<!-- --><meta charset='{label}'>".encode()) == codec
    assert codec_in_markup(f'<meta http-equiv=Content-Type content="text/html; charset={label}">'.encode()) == codec
    assert codec_in_markup(f'<?xml version="1.0" encoding="{label}"?><a/>'.encode()) == codec


@pytest.mark.parametrize(
    ("label", "text", "codec"),
    [
        ("x-mac-cyrillic", "Съешь ещё этих", "mac-cyrillic"),
        ("dos-874", "สวัสดี", "cp874"),
        ("iso88592", "žluť", "iso8859-2"),
        ("logical", "שלום", "iso8859-8"),
        ("x-x-big5", "你好", "big5"),
    ],
)
def test_text_of_a_rare_label(label: str, text: str, codec: str) -> None:
    assert decode(text.encode(codec), f"text/html; charset={label}").text == text
    start = f"<meta charset={label}>"
    assert decode(start.encode() + text.encode(codec), "text/html").text == start + text


def test_a_declaration_that_names_none_hides_no_other() -> None:
    other = b'<meta charset="windows-949">'
    for start in (b'<meta name=d content="charset = nice">', b'<?xml version="1.0" encoding="bogus"?>'):
        assert codec_in_markup(start + other) == "cp949"
    assert codec_in_markup(b'<meta name=x content="we use encoding=hebrew">') is None


@pytest.mark.parametrize("label", ["no-such", "idna", "unicode_escape", "utf-7", "hz-gb-2312", "x-user-defined", "é"])
def test_other_names_are_none(label: str) -> None:
    assert codec_in_header(f"text/html; charset={label}") is None
    assert codec_in_markup(f"<meta charset={label}>".encode()) is None

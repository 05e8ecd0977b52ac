"""Encodings that browsers support: their labels and codecs, and how forms encode text."""

from urllib.parse import quote_plus

from crawl_engine.late_regex import late_regex

_LINE_BREAK = late_regex(r"\r\n?|\n")
_WEB_CODECS = frozenset(
    {
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be"),
        *("cp866", "cp874", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic"),
        *("cp932", "cp949", "gb18030", "big5hkscs", "euc_jp", "iso2022_jp"),
        *(f"cp{page}" for page in range(1250, 1259)),
        *(f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
    }
)
"""Python's names of the encodings browsers support. Pages must not select other codecs (`idna`, `unicode_escape`…)."""
SINGLE_BYTE_CODECS = frozenset(
    codec for codec in _WEB_CODECS if codec.startswith(("cp125", "iso8859", "koi8", "mac", "cp866", "cp874"))
)
_CODECS = {"x-mac-cyrillic": "mac-cyrillic", "iso-8859-8-i": "iso8859-8"}
"""Python's names of codecs, for browser names that it does not know."""


def web_codec(codec: str | None) -> str | None:
    """The codec if browsers support it."""
    return codec if codec in _WEB_CODECS else None


def codec_of(label: str) -> str | None:
    """The codec of a label of the Encoding Standard (4.2); None if browsers support no such label."""
    from w3lib.encoding import resolve_encoding  # few pages need it
    from webencodings import lookup  # type: ignore[import-untyped]

    encoding = lookup(label)
    return None if encoding is None else web_codec(_CODECS.get(encoding.name) or resolve_encoding(encoding.name))


def end_lines(text: str) -> str:
    """A text with the line breaks that forms send."""
    return _LINE_BREAK.sub("\r\n", text)


def quote_form_text(text: str, codec: str = "utf-8") -> str:
    """A name or value as a browser URL-encodes it: line breaks are CRLF, missing characters are references."""
    quoted = quote_plus(end_lines(text), safe="*", encoding=codec, errors="xmlcharrefreplace")
    return quoted.replace("~", "%7E")

"""Which encoding a response or a document declares: by all names that browsers know."""

import re

from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, resolve_encoding
from webencodings import lookup  # type: ignore[import-untyped]

from engine.http.encoding_detector import web_codec

_HEAD_BYTES = 4096
"""Of a document, in which its encoding may be declared."""
_IN_HEADER = re.compile(r"""[;,]\s*charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE)
_IN_MARKUP = re.compile(
    rb"""<(?:meta\s[^<>]*?charset|\?xml\s[^<>]*?encoding)\s*=\s*["']?\s*([^\s"';,/<>?]+)""", re.IGNORECASE
)
_CODECS = {"x-mac-cyrillic": "mac-cyrillic", "iso-8859-8-i": "iso8859-8"}
"""Python's names of codecs that it does not know by those of the browsers."""


def codec_in_header(content_type: str) -> str | None:
    """Python's name of the codec that a Content-Type names; None: it names none that browsers support."""
    codec = web_codec(http_content_type_encoding(content_type))
    if codec is not None:
        return codec
    written = _IN_HEADER.search(content_type)
    return None if written is None else _codec_of(written[1])


def codec_in_markup(body: bytes) -> str | None:
    """The codec that a `<meta>` or an XML declaration names, if browsers support it."""
    codec = web_codec(html_body_declared_encoding(body))
    if codec is not None:
        return codec
    written = _IN_MARKUP.finditer(body, 0, _HEAD_BYTES)
    return next(filter(None, (_codec_of(match[1].decode("ascii", "replace")) for match in written)), None)


def _codec_of(label: str) -> str | None:
    encoding = lookup(label)  # the labels of the Encoding Standard, 4.2
    return None if encoding is None else web_codec(_CODECS.get(encoding.name) or resolve_encoding(encoding.name))

"""Encodes the fields of a form as HTML says: URL-encoded, multipart or plain text."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from crawl_engine.encodings import end_lines, quote_form_text
from crawl_engine.extract.links.filled_text import Lookup, fill_runs
from crawl_engine.model.link import FORM_TYPE

MULTIPART_TYPE, PLAIN_TYPE = "multipart/form-data", "text/plain"
_FILE_TYPE = "application/octet-stream"
_CHARSETS: Mapping[str, str] = MappingProxyType(
    {
        "cp932": "Shift_JIS",
        "cp949": "EUC-KR",
        "cp866": "IBM866",
        "big5hkscs": "Big5",
        "euc_jp": "EUC-JP",
        "iso2022_jp": "ISO-2022-JP",
        "gb18030": "gb18030",
        "mac-roman": "macintosh",
        "mac-cyrillic": "x-mac-cyrillic",
    }
)
"""Names of Python's codecs in the Encoding Standard, where they differ from the rule."""


class FormField(NamedTuple):
    """A field to send."""

    name: str
    value: str
    is_file: bool = False
    """A file field without a file."""
    is_template: bool = False
    """Whether the value is a text of the defs, with variables."""


class FormEncoding(NamedTuple):
    """How a form is sent. Python's name of the codec counts for URL-encoded fields; others are sent as UTF-8."""

    content_type: str = FORM_TYPE
    codec: str = "utf-8"


URL_ENCODED = FormEncoding()


class RequestBody(NamedTuple):
    text: str
    content_type: str


def charset_name(codec: str) -> str:
    """The name of a codec in the Encoding Standard, which a field `_charset_` sends."""
    usual = f"windows-{codec[2:]}" if codec.startswith("cp") else codec.upper().replace("ISO8859", "ISO-8859")
    return _CHARSETS.get(codec, usual)


def merge_fields(own: Sequence[FormField], written: Sequence[tuple[str, ...]]) -> list[FormField]:
    """The fields of a form; those of the defs, pairs of name and value, replace the page's."""
    left: dict[str, list[FormField]] = {}
    for name, value in written:
        left.setdefault(name, []).append(FormField(name, value, is_template=True))
    replaced, fields = set(left), list[FormField]()
    for field in own:
        if field.name in left:  # at the position of the first one
            fields += left.pop(field.name)
        elif field.name not in replaced:
            fields.append(field)
    return [*fields, *chain.from_iterable(left.values())]


def encode_form(fields: Sequence[FormField], lookup: Lookup, encoding: FormEncoding = URL_ENCODED) -> RequestBody:
    """The body of a form, or its query. Raises MissingValue."""
    is_urlencoded = encoding.content_type == FORM_TYPE
    encode = partial(quote_form_text, codec=encoding.codec) if is_urlencoded else _protect
    parts: list[tuple[str, str, bool]] = []
    for field in fields:
        if field.is_template:
            runs = fill_runs(field.value, lookup)
            value = "".join([f"{encode(text)}{secret}" for text, secret in runs])
        else:
            value = encode(field.value)
        parts.append((encode(field.name), value, field.is_file))
    if is_urlencoded:
        return RequestBody("&".join([f"{name}={value}" for name, value, _ in parts]), FORM_TYPE)
    if encoding.content_type == PLAIN_TYPE:
        return RequestBody("".join([f"{name}={value}\r\n" for name, value, _ in parts]), PLAIN_TYPE)
    return _encode_multipart(parts)


def _encode_multipart(parts: Sequence[tuple[str, str, bool]]) -> RequestBody:
    # the same fields give the same text, by which requests are told apart
    boundary = f"----form-{hashlib.blake2b(repr(parts).encode('utf-8', 'replace'), digest_size=16).hexdigest()}"
    texts = []
    for name, value, is_file in parts:
        written = name.replace("\r\n", "%0D%0A").replace('"', "%22")
        file = f'; filename=""\r\nContent-Type: {_FILE_TYPE}' if is_file else ""
        texts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{written}"{file}\r\n\r\n{value}\r\n')
    return RequestBody(f"{''.join(texts)}--{boundary}--\r\n", f"{MULTIPART_TYPE}; boundary={boundary}")


def _protect(text: str) -> str:
    """The text with CRLF as line breaks, in which the sender finds no variable: it might be a secret."""
    return end_lines(text).replace("%{", "%%{")

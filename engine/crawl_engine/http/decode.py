"""Decodes a body to text: detects its kind and encoding."""

import codecs
import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, resolve_encoding

from crawl_engine.encodings import SINGLE_BYTE_CODECS, codec_of, web_codec

_FALLBACK = "cp1252"
_DETECTABLE = (
    *("cp932", "shift_jis_2004", "euc_jis_2004"),
    *("cp949", "euc_kr", "gb18030", "big5hkscs", "cp874", "tis-620", "koi8-r", "koi8-u", "cp866"),
    *(f"cp{page}" for page in range(1250, 1259)),
    *(f"iso8859-{part}" for part in (1, 2, 5, 6, 7, 8, 9)),
)
"""chardet's names of the encodings that browsers detect. Others are so rare on the web that they would be mistakes."""
_ASCII_BYTES = bytes(range(128))
_MIN_DETECTED_CHARACTERS = 3
"""Bytes beyond ASCII from which a guess is better than windows-1252: one `\x80` or `é` says nothing."""
_MIN_UTF8_SEQUENCES = 4
_MIN_UTF8_RATIO = 2
"""Valid sequences for each invalid byte, from which a body is UTF-8 with a few faults: other text has few of them."""
_MIN_UTF8_RATIO_DESPITE = 20
"""The same for a body that is said to be in another encoding."""
_MAX_DETECTED_BYTES = 64 * 1024
"""Bytes of a body that the detection of its encoding reads."""
_DETECTABLE_LATIN = (*(f"cp{page}" for page in (1250, 1252, 1254, 1257, 1258)), "iso8859-1", "iso8859-2", "iso8859-9")
_LATIN_CODECS = frozenset({"cp1250", "cp1252", "cp1254", "cp1257", "cp1258", "iso8859-2"})
_TEXT_BEYOND_ASCII = re.compile(rb"[\x80-\xff][^<>]*")
_LATIN_WORD = re.compile(rb"[A-Za-z][\x80-\xff]|[\x80-\xff][A-Za-z]")
_OTHER_WORD = re.compile(rb"[\x80-\xff]{2}")
_CONTEXT_BYTES = 16
"""Bytes of a text before its first character beyond ASCII that the detection reads."""
_HEAD_BYTES = 4096
"""Of a document, in which its encoding may be declared."""
_IN_HEADER = re.compile(r"""[;,]\s*charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE)
_IN_MARKUP = re.compile(
    rb"""<(?:meta\s[^<>]*?charset|\?xml\s[^<>]*?encoding)\s*=\s*["']?\s*([^\s"';,/<>?]+)""", re.IGNORECASE
)
DocumentKind = Literal["html", "xml", "json", "ndjson", "csv", "binary"]
_SNIFF_LENGTH = 1445
"""Bytes to check for binary content (WHATWG MIME Sniffing, resource header)."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_FIRST_CHARACTERS = b"<{["
_WIDE_CODECS = ("utf-16", "utf-16-le", "utf-16-be")
_TEXT_BYTES = bytes(c for c in range(256) if c not in {*range(0x09), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)})
_MAGIC_PREFIXES = (
    b"%PDF-",
    b"%!PS-Adobe-",
    b"\x89PNG",
    b"GIF87a",
    b"GIF89a",
    b"\xff\xd8\xff",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"Rar!",
    b"7z\xbc\xaf",
    b"BZh",
    b"\xfd7zXZ",
    b"RIFF",
    b"OggS",
    b"ID3",
    b"wOFF",
    b"wOF2",
)
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_JSON_TYPES = frozenset({"application/json", "text/json"})
_NDJSON_TYPES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
_CSV_TYPES = frozenset({"text/csv", "application/csv", "text/tab-separated-values"})
_XML_TYPES = frozenset({"application/xml", "text/xml", "application/xml-dtd"})
_UNKNOWN_TYPES = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown"}
)
_TYPES_BY_EXTENSION = {
    ".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson",
    ".csv": "text/csv", ".tsv": "text/tab-separated-values",
}  # fmt: skip
_BINARY_TYPES = frozenset(
    {
        *(
            "application/msword",
            "application/rtf",
            "application/wasm",
            "application/epub+zip",
            "application/pdf",
            "application/x-pdf",
        ),
        *("application/zip", "application/gzip", "application/zstd", "application/java-archive"),
        *("application/x-gzip", "application/x-tar", "application/x-bzip2", "application/x-xz"),
        *("application/x-7z-compressed", "application/x-rar-compressed", "application/x-shockwave-flash"),
    }
)
_BINARY_FAMILIES = ("image/", "audio/", "video/", "font/", "model/", "application/vnd.")
_QUOTED = rb"\"[^\"]*+\"|'[^']*+'"
_FIRST_ELEMENT = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:(?:<!--(?:>|->|.*?-->|.*)|<\?(?:.*?\?>|.*)"
    rb"|<!(?!--)(?:[^\[>\"']|" + _QUOTED + rb")*+(?:\[(?:[^\]\"'<]|<!--.*?(?:-->|\Z)|<|" + _QUOTED + rb")*+\]\s*+)?>"
    rb"|<!(?!--)[^>]*+>)\s*+){0,64}+<([A-Za-z][\w:.-]*+)(?=[\s/>])",
    re.DOTALL,
)
"""What may stand in front of it: comments, instructions, and declarations, also with a list of entities."""
_FIRST_ELEMENT_BYTES = 64 * 1024
_DeclaredKind = Literal["html", "xml", "json", "ndjson", "csv", "binary", "text", "unknown"]


def find_first_element(text: bytes, at: int = 0) -> bytes:
    """The name of the first element behind `at`, in lower case, by WHATWG's MIME Sniffing 7.3; empty: text comes first.

    Comments, instructions and declarations may stand in front of it.
    """
    found = _FIRST_ELEMENT.match(text, at, at + _FIRST_ELEMENT_BYTES)
    return b"" if found is None else found[1].lower()


def detect_codec(body: bytes) -> str:
    """The codec of a body that declares no encoding and is not valid UTF-8; by default windows-1252."""
    if _is_faulty_utf8(body):
        return "utf-8"
    sample = _detection_sample(body)
    if len(sample.translate(None, _ASCII_BYTES)) < _MIN_DETECTED_CHARACTERS:
        return _FALLBACK
    codec = _detect(sample, _DETECTABLE)
    if codec is not None and codec not in _LATIN_CODECS and _has_latin_words(sample, codec):
        codec = _detect(sample, _DETECTABLE_LATIN)
    return codec or _FALLBACK


def _detect(sample: bytes, names: tuple[str, ...]) -> str | None:
    """The best fitting codec of those with these names, if one fits."""
    import chardet  # few pages need it

    detected = chardet.detect(sample, include_encodings=names)["encoding"]
    codec = web_codec(resolve_encoding(detected)) if detected else None
    return None if codec is None or codec.startswith("utf") else codec  # this body is not valid UTF-8


def _is_faulty_utf8(body: bytes, ratio: int = _MIN_UTF8_RATIO) -> bool:
    """Whether a body that is not valid as UTF-8 is UTF-8 with a few faults."""
    valid = body.decode("utf-8", "ignore")
    if valid.isascii():
        return False
    invalid_bytes = len(body) - len(valid.encode())
    sequences = len(valid) - (len(body) - len(body.translate(None, _ASCII_BYTES)))
    return sequences >= max(_MIN_UTF8_SEQUENCES, ratio * invalid_bytes)


def _detection_sample(body: bytes) -> bytes:
    """The texts with characters beyond ASCII, wherever they stand in the body: its markup says nothing."""
    texts, size, end = list[bytes](), 0, 0
    for match in _TEXT_BEYOND_ASCII.finditer(body):
        text = body[max(end, match.start() - _CONTEXT_BYTES) : match.end()]
        texts.append(text)
        size, end = size + len(text), match.end()
        if size >= _MAX_DETECTED_BYTES:
            break
    return b"".join(texts)[:_MAX_DETECTED_BYTES]


def _has_latin_words(sample: bytes, codec: str) -> bool:
    """Whether text is of a Latin language though an encoding of another script was detected.

    Its words mix ASCII with few other letters; those of other scripts do not.
    """
    latin, other = len(_LATIN_WORD.findall(sample)), len(_OTHER_WORD.findall(sample))
    return latin > other if codec in SINGLE_BYTE_CODECS else latin > 0 and other == 0


def codec_in_header(content_type: str) -> str | None:
    """Python's name of the codec that a Content-Type names; None if browsers support no such codec."""
    codec = web_codec(http_content_type_encoding(content_type))
    if codec is not None:
        return codec
    written = _IN_HEADER.search(content_type)
    return None if written is None else codec_of(written[1])


def codec_in_markup(body: bytes) -> str | None:
    """The codec that a `<meta>` or an XML declaration names, if browsers support it."""
    codec = web_codec(html_body_declared_encoding(body))
    if codec is not None:
        return codec
    written = _IN_MARKUP.finditer(body, 0, _HEAD_BYTES)
    return next(filter(None, (codec_of(match[1].decode("ascii", "replace")) for match in written)), None)


class DecodedBody(Struct, frozen=True):
    """The text of a body. For a binary body `utf8` and `encoding` are empty."""

    utf8: bytes
    """The text in UTF-8: a valid body itself, so that a large page is not copied."""
    encoding: str
    """Python's name of the body's codec."""
    kind: DocumentKind
    damaged: int
    """Number of invalid bytes, which were replaced by U+FFFD."""
    declared: str = ""
    """Another encoding that it is said to be in, if some of its bytes are damaged."""

    @property
    def text(self) -> str:
        """The text; a new copy each time."""
        return self.utf8.decode()


def sent_codec(document: DecodedBody, content_type: str) -> str:
    """The codec in which forms of the page are sent; empty: UTF-8, or as a `<meta>` of it says."""
    own = "" if document.encoding == "utf-8" else document.encoding
    return _parse_content_type(content_type)[1] or own


def content_type_at(content_type: str, url: str) -> str:
    """The content type; if it is missing or as general as text/plain, that of the URL's extension, if any.

    For NDJSON and CSV alone: no first byte tells them from other text.
    """
    if _parse_content_type(content_type)[0] not in ("text", "unknown"):
        return content_type
    mime, semicolon, parameters = content_type.partition(";")
    if mime.strip().lower() not in ("text/plain", *_UNKNOWN_TYPES):
        return content_type
    path = url.partition("?")[0].partition("#")[0]
    known = _TYPES_BY_EXTENSION.get(path[path.rfind(".") :].lower())
    return content_type if known is None else f"{known}{semicolon}{parameters}"


def decode(body: bytes, content_type: str) -> DecodedBody:
    """Decodes a body.

    Encoding: byte order mark; UTF-8, if the body is valid as such; header; declaration in the text; detection; else
    windows-1252. The kind follows the content type; if that is missing, application/octet-stream or text/plain, the
    first bytes.
    """
    declared_kind, charset = _parse_content_type(content_type)
    bom = _detect_bom(body)
    kind = _sniff_kind(body, declared_kind, bom is not None or charset in _WIDE_CODECS)
    if kind == "binary":
        return DecodedBody(b"", "", kind, 0)
    if bom is not None:
        mark, codec = bom
        return _decode_as(body[len(mark) :], codec, kind)
    document = _decode_as(body, _known_codec(body, kind, charset) or detect_codec(body), kind)
    if document.damaged and (document.encoding == "utf-8" or _is_faulty_utf8(body, _MIN_UTF8_RATIO_DESPITE)):
        document = _decode_as(body, "utf-8", kind)
        declared = charset or (_declared_in_text(body) if kind in ("html", "xml") else None)
        return replace(document, declared="" if declared in (None, "utf-8") else declared)
    return document


def needs_detection(body: bytes, content_type: str) -> bool:
    """Whether decoding the body has to detect its encoding, which takes long."""
    declared_kind, charset = _parse_content_type(content_type)
    if charset is not None or _detect_bom(body) is not None:
        return False
    kind = _sniff_kind(body, declared_kind, wide=False)
    return kind != "binary" and _known_codec(body, kind, charset) is None


def _known_codec(body: bytes, kind: DocumentKind, charset: str | None) -> str | None:
    """The codec of a body without a byte order mark; None if only detection can tell."""
    # Only ISO-2022-JP encodes other characters as ASCII bytes, with escape sequences.
    if charset is None and body.isascii() and b"\x1b" not in body:
        return "utf-8"
    declared = charset or (_declared_in_text(body) if kind in ("html", "xml") else None)
    if declared != "utf-8" and _is_utf8_despite(body, declared):
        return "utf-8"
    return declared or ("utf-8" if kind in ("json", "ndjson") else None)


def _declared_in_text(body: bytes) -> str | None:
    """The codec that a `<meta>` or an XML declaration names."""
    codec = codec_in_markup(body)
    # A declaration readable as ASCII cannot be UTF-16.
    return "utf-8" if codec is not None and codec.startswith("utf-16") else codec


def _is_utf8_despite(body: bytes, declared: str | None) -> bool:
    """Whether a body is UTF-8, perhaps with a few faults, in spite of its declaration.

    Text in a single-byte encoding is hardly ever valid UTF-8 by chance. Short text in a multi-byte one may be: there
    the declaration holds as long as it fits.
    """
    if declared is not None and (declared.startswith("utf-16") or body.isascii()):
        return False
    if not _is_valid(body, "utf-8"):
        return declared in SINGLE_BYTE_CODECS and _is_faulty_utf8(body, _MIN_UTF8_RATIO_DESPITE)
    return declared is None or declared in SINGLE_BYTE_CODECS or not _is_valid(body, declared)


def _is_valid(body: bytes, codec: str) -> bool:
    try:
        body.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def is_xml_type(content_type: str) -> bool:
    """Whether a browser would read such a body as XML."""
    mime = content_type.partition(";")[0].strip().lower()
    return mime in _XML_TYPES or mime.endswith(("+xml", "/xml"))


def is_binary(body: bytes, content_type: str) -> bool:
    """Whether `decode` would find the body binary. Reads its first bytes only."""
    declared_kind, charset = _parse_content_type(content_type)
    wide = _detect_bom(body) is not None or charset in _WIDE_CODECS
    return _sniff_kind(body, declared_kind, wide) == "binary"


def _decode_as(body: bytes, codec: str, kind: DocumentKind) -> DecodedBody:
    try:
        text, damaged = body.decode(codec), 0
    except UnicodeDecodeError:
        text, damaged = body.decode(codec, "replace"), _count_invalid_bytes(body, codec)
    if codec == "utf-8" and not damaged:
        return DecodedBody(body, codec, kind, 0)
    # A lenient decoder may leave lone surrogates, which UTF-8 cannot encode.
    return DecodedBody(text.encode("utf-8", "replace"), codec, kind, damaged)


def _count_invalid_bytes(body: bytes, codec: str) -> int:
    valid = body.decode(codec, "ignore").encode(codec, "ignore")
    return max(1, len(body) - len(valid))


def _detect_bom(body: bytes) -> tuple[bytes, str] | None:
    if body[:1] in (b"\xef", b"\xff", b"\xfe"):
        for mark, codec in _BOMS:
            if body.startswith(mark):
                return mark, codec
    if b"\0" in body[:2]:
        return _detect_bare_utf16(body[:4])
    return None


def _detect_bare_utf16(start: bytes) -> tuple[bytes, str] | None:
    """As a byte order mark that is missing: the first character of markup or JSON, and a second one."""
    if len(start) < 4:
        return None
    first, second, third, fourth = start
    if first in _FIRST_CHARACTERS and third and second == fourth == 0:
        return b"", "utf-16-le"
    if second in _FIRST_CHARACTERS and fourth and first == third == 0:
        return b"", "utf-16-be"
    return None


def _sniff_kind(body: bytes, declared: _DeclaredKind, wide: bool) -> DocumentKind:
    """The kind of a body. `wide`: UTF-16 text, which contains NUL bytes."""
    if body.startswith(_PACKED):
        return "binary"  # whatever its type says: no text begins so
    if declared in ("xml", "ndjson", "csv") and find_first_element(body) == b"html":
        return "html"  # XHTML, or an HTML page in place of data
    if declared == "csv" and body.startswith(_MAGIC_PREFIXES) and b"\0" in body[:_SNIFF_LENGTH]:
        return "binary"  # a spreadsheet, as some sites declare it
    if declared != "text" and declared != "unknown":
        return declared
    if not wide and (body.startswith(_MAGIC_PREFIXES) or body[:_SNIFF_LENGTH].translate(None, _TEXT_BYTES)):
        return "binary"
    start = body[:_SNIFF_LENGTH].removeprefix(codecs.BOM_UTF8).lstrip()
    if start.startswith(b"<?xml"):
        first = find_first_element(body)
        return "html" if first == b"html" or (not first and b"<html" in start.lower()) else "xml"
    return "json" if declared == "unknown" and start.startswith((b"{", b"[")) else "html"


@lru_cache(maxsize=1024)
def _parse_content_type(content_type: str) -> tuple[_DeclaredKind, str | None]:
    """The kind and codec of a Content-Type. Cached: a site sends few different ones."""
    mime = content_type.partition(";")[0].strip().lower()
    return _declared_kind(mime), codec_in_header(content_type)


def _declared_kind(mime: str) -> _DeclaredKind:
    if mime in _HTML_TYPES:
        return "html"
    if mime in _JSON_TYPES or mime.endswith("+json"):
        return "json"
    if mime in _NDJSON_TYPES:
        return "ndjson"
    if mime in _CSV_TYPES:
        return "csv"
    if is_xml_type(mime):
        return "xml"
    if mime in _BINARY_TYPES or mime.startswith(_BINARY_FAMILIES):
        return "binary"
    if mime in _UNKNOWN_TYPES or "/" not in mime:
        return "unknown"
    return "text"

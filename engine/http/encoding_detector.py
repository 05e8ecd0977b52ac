"""Detects the encoding of a text that declares none."""

import re

from w3lib.encoding import resolve_encoding

_FALLBACK = "cp1252"
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
_MAX_DETECTED_BYTES = 64 * 1024
"""Bytes of a body that the detection of its encoding reads."""
_DETECTABLE_LATIN = (*(f"cp{page}" for page in (1250, 1252, 1254, 1257, 1258)), "iso8859-1", "iso8859-2", "iso8859-9")
_LATIN_CODECS = frozenset({"cp1250", "cp1252", "cp1254", "cp1257", "cp1258", "iso8859-2"})
_TEXT_BEYOND_ASCII = re.compile(rb"[\x80-\xff][^<>]*")
_LATIN_WORD = re.compile(rb"[A-Za-z][\x80-\xff]|[\x80-\xff][A-Za-z]")
_OTHER_WORD = re.compile(rb"[\x80-\xff]{2}")
_CONTEXT_BYTES = 16
"""Bytes of a text before its first character beyond ASCII that the detection reads."""


def web_codec(codec: str | None) -> str | None:
    """The codec, unless it is none of the encodings that browsers support."""
    return codec if codec in _WEB_CODECS else None


def detect_codec(body: bytes) -> str:
    """The codec of a body that declares none and is not valid as UTF-8; else windows-1252. Takes milliseconds."""
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
    """The codec that fits best of those with these names; None: none does."""
    import chardet  # takes 0.2 s, and few pages need it

    detected = chardet.detect(sample, include_encodings=names)["encoding"]
    codec = web_codec(resolve_encoding(detected)) if detected else None
    return None if codec is None or codec.startswith("utf") else codec  # what is read here is not valid as UTF-8


def _is_faulty_utf8(body: bytes) -> bool:
    """Whether a body that is not valid as UTF-8 is UTF-8 with a few faults."""
    valid = body.decode("utf-8", "ignore")
    invalid_bytes = len(body) - len(valid.encode())
    sequences = len(valid) - (len(body) - len(body.translate(None, _ASCII_BYTES)))
    return sequences >= max(_MIN_UTF8_SEQUENCES, _MIN_UTF8_RATIO * invalid_bytes)


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

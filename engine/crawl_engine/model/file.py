"""Downloaded files: their names, their stored form, and the places of their URLs in the JSON of a row."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson
from msgspec import Struct, convert
from msgspec.structs import replace

from crawl_engine.late_regex import late_regex
from crawl_engine.model.definition import DataDef, Field, TaskGroup
from crawl_engine.model.step import RENDERED_FILES

FILES_FOLDER = "files"
"""The folder of the files in the output folder of a run."""


_EXTENSIONS = {
    "application/epub+zip": "epub",
    "application/gzip": "gz",
    "application/javascript": "js",
    "application/json": "json",
    "application/ld+json": "json",
    "application/msword": "doc",
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/x-7z-compressed": "7z",
    "application/x-bzip2": "bz2",
    "application/x-gzip": "gz",
    "application/x-rar-compressed": "rar",
    "application/x-tar": "tar",
    "application/x-xz": "xz",
    "application/x-zip-compressed": "zip",
    "application/xhtml+xml": "html",
    "application/xml": "xml",
    "application/zip": "zip",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "font/otf": "otf",
    "font/ttf": "ttf",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "image/avif": "avif",
    "image/bmp": "bmp",
    "image/gif": "gif",
    "image/jpeg": "jpg",
    "image/jpg": "jpg",
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/tiff": "tiff",
    "image/vnd.microsoft.icon": "ico",
    "image/webp": "webp",
    "image/x-icon": "ico",
    "text/calendar": "ics",
    "text/css": "css",
    "text/csv": "csv",
    "text/html": "html",
    "text/javascript": "js",
    "text/markdown": "md",
    "text/rtf": "rtf",
    "text/xml": "xml",
    "video/mp4": "mp4",
    "video/mpeg": "mpeg",
    "video/quicktime": "mov",
    "video/webm": "webm",
}
"""A table of our own: Python's depends on the system."""
_HTML = frozenset({"html", "htm", "xhtml", "xht", "shtml"})
_FILES = (
    frozenset(_EXTENSIONS.values()) | {"jpeg", "tif", "mpg", "txt", "tgz", "bin", "exe", "iso", "dmg", "msi"}
) - _HTML
"""Extensions of files that are not HTML."""
_GENERIC = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/download", "application/force-download",
     "application/x-download", "application/unknown", "application/x-unknown", "text/plain"}
)  # fmt: skip
"""Content types that say nothing about the kind of file."""
_CLEAN = late_regex(r"[a-z0-9]{1,10}")
_PASSWORD = late_regex(rb"<input\b[^>]{0,500}\btype\s*=\s*[\"']?password\b", re.IGNORECASE)
_MAX_TYPE = 100
_MAX_DISPOSITION = 8_192
_MAX_NAME_BYTES = 255
_UNSAFE = late_regex(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Control characters, those that turn the direction of text, and halves of characters."""
_RESERVED_CHARACTERS = late_regex(r'[<>:"|?*]')
_DEVICE = late_regex(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])\s*(?:\.|$)", re.IGNORECASE)
"""Names that Windows has for devices, with any ending."""
MAX_FILES = 5_000
"""Files of one page, and of one field of a record: each is a job, and a row waits for it."""
FieldPath = tuple[str, ...]
"""The names that lead to a field of the type `file`."""
Place = tuple[str | int, ...]
_decoder = json.JSONDecoder(parse_float=orjson.Fragment, parse_int=orjson.Fragment, strict=False)
"""Numbers keep all their digits as written."""


class StoredFile(Struct, frozen=True):
    """A complete file."""

    path: str
    """Relative to the output folder of the run."""
    size: int
    hash: str
    """SHA-256 of the content, in hex."""
    type: str
    """Content type, without parameters; empty: the site sent none."""
    name: str = ""
    """As the site calls it; empty: as its URL ends."""

    def to_value(self, url: str) -> dict[str, Any]:
        """The value of a field that names this URL, in the order in which it is written."""
        name = self.name or name_of_url(url) or None
        return {
            "path": self.path, "size": self.size, "hash": self.hash, "type": self.type or None, "name": name,
            "url": url,
        }  # fmt: skip


class AnswerNote(Struct, frozen=True, array_like=True):
    """What is kept of the answer that sent a file."""

    sender: str = ""
    """The hash of its URL."""
    conditions: tuple[tuple[str, str], ...] = ()
    """The headers that ask this URL for a newer file."""
    name: str = ""
    """As in `StoredFile`."""

    def ask_by(self, conditions: Iterable[tuple[str, str]]) -> "AnswerNote":
        """The note with these conditions in place of those with their names."""
        return replace(self, conditions=tuple({**dict(self.conditions), **dict(conditions)}.items()))

    def to_text(self) -> str:
        """The stored form; empty if there is nothing to keep."""
        if self.name:
            return orjson.dumps((self.sender, self.conditions, self.name)).decode()
        return orjson.dumps((self.sender, self.conditions)).decode() if self.conditions else ""

    @classmethod
    def from_text(cls, text: str) -> "AnswerNote":
        """The note of a stored text."""
        return convert(orjson.loads(text), cls) if text else cls()


NO_ANSWER = AnswerNote()


def name_of_answer(headers: Iterable[tuple[str, str]]) -> str:
    """The name of a file by its Content-Disposition (RFC 6266), that of `filename*` (RFC 8187) first; else empty."""
    value = next((text for name, text in headers if name == "content-disposition"), "")[:_MAX_DISPOSITION]
    if not value:
        return ""
    from email.message import Message  # few crawls download files
    from email.utils import collapse_rfc2231_value

    message = Message()
    message["content-disposition"] = value
    parameters: list[tuple[str, Any]] = message.get_params([], "content-disposition")
    texts = [text for name, text in parameters if name.lower() == "filename"]
    for text in sorted(texts, key=lambda text: not isinstance(text, tuple)):
        with suppress(ValueError):  # of its charset
            if name := safe_name(collapse_rfc2231_value(text)):
                return name
    return ""


def name_of_url(url: str) -> str:
    """The last part of the path of a URL as the name of a file; empty: it has none."""
    try:
        return safe_name(unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2]))
    except ValueError:
        return ""


def safe_name(written: str) -> str:
    """A name under which any system stores a file in one folder; empty: nothing is left of it."""
    name = _UNSAFE.sub("", written.replace("\\", "/").rpartition("/")[2])
    name = " ".join(_RESERVED_CHARACTERS.sub("_", name).split()).strip(". ")
    if _DEVICE.match(name):
        name = f"_{name}"
    stem, dot, ending = name.rpartition(".")
    if not (dot and stem and _CLEAN.fullmatch(ending.lower())):
        stem, dot, ending = name, "", ""
    room = _MAX_NAME_BYTES - len(dot + ending)
    return stem.encode()[:room].decode("utf-8", "ignore") + dot + ending


def bare_type(content_type: str) -> str:
    """The content type in lower case, without parameters."""
    bare = content_type.partition(";")[0].strip().lower()
    return bare[:_MAX_TYPE] if bare.isascii() and bare.isprintable() else ""


def file_extension(content_type: str, name: str, *urls: str) -> str:
    """The extension of a file: a known one of its `name`, else by its content type.

    If that is generic or unknown, by its name, its URLs, else `bin`. `name`: that of its Content-Disposition.
    Only letters and digits, so that a server cannot make it a path.
    """
    bare, named = bare_type(content_type), _extension_of(name)
    if named in _FILES:
        return named
    if bare not in _GENERIC and bare in _EXTENSIONS:
        return _EXTENSIONS[bare]
    found = (named, *map(url_extension, urls), "txt" if bare == "text/plain" else "bin")
    return next(filter(None, found))


def url_extension(url: str) -> str:
    """The extension in the path of a URL, in lower case, or an empty text."""
    try:
        return _extension_of(unquote(urlsplit(url).path).rpartition("/")[2])
    except ValueError:
        return ""


def _extension_of(name: str) -> str:
    stem, dot, extension = name.rpartition(".")
    return extension.lower() if dot and stem and _CLEAN.fullmatch(extension.lower()) else ""


def is_html(content_type: str, start: bytes) -> bool:
    """Whether content is an HTML page, by its declared type and its first bytes."""
    head = start[:1024].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    bare = bare_type(content_type)
    if bare in ("text/html", "application/xhtml+xml"):
        return not head or head.startswith(b"<") or not _is_binary(head)
    return bare in _GENERIC and head.startswith((b"<!doctype html", b"<html"))


def refuse_page(url: str, content_type: str, start: bytes) -> str | None:
    """Why an answer is not the file that a URL names; None: it may be.

    An HTML page is not the file if the URL has the extension of another kind of file. If the URL has no HTML extension,
    a page that asks for a password is not the file.
    """
    extension = url_extension(url)
    if extension in _HTML or not is_html(content_type, start):
        return None
    if _PASSWORD.search(start):
        return "is a login page"
    return f"is an HTML page, not a .{extension} file" if extension in _FILES else None


def _is_binary(head: bytes) -> bool:
    return head.startswith(b"%pdf") or b"\0" in head


def add_rendered_fields(data_defs: Iterable[DataDef], groups: Iterable[TaskGroup]) -> tuple[DataDef, ...]:
    """The dataDefs with a field for each file that the browser of a group makes of their pages."""
    made: dict[str, set[str]] = {}
    for group in groups:
        names = () if group.loader is None else group.loader.browser.files
        for task in group.tasks if names else ():
            made.setdefault(task.data_def, set()).update(names)
    return tuple([_add_rendered(one, made.get(one.name, ())) for one in data_defs])


def _add_rendered(data_def: DataDef, names: Collection[str]) -> DataDef:
    if not names or not data_def.fields or data_def.axis is not None:
        return data_def
    wanted = [name for name in RENDERED_FILES if name in names]
    fields = [Field(name=name, type="file", value=f"{name}:", place=data_def.place) for name in wanted]
    return replace(data_def, fields=(*data_def.fields, *fields))


def list_rendered_fields(data_def: DataDef) -> tuple[str, ...]:
    """Those fields of a dataDef."""
    return tuple([field.name for field in data_def.fields if _is_rendered(field)])


def _is_rendered(field: Field) -> bool:
    return field.type == "file" and field.name in RENDERED_FILES and field.value == f"{field.name}:"


def list_file_fields(data_def: DataDef) -> tuple[FieldPath, ...]:
    """The fields of a dataDef that name files to download, nested ones included."""
    return tuple(_iter_file_fields(data_def.fields, ()))


def number_urls(
    row: str, paths: Sequence[FieldPath], number_of: Callable[[str], int | None]
) -> tuple[str, list[tuple[Place, int]]]:
    """The places of file URLs in a row, in order, with their numbers; and the row.

    A URL without a number becomes null in the row.
    """
    value = _decoder.decode(row)
    numbers: list[tuple[Place, int]] = []
    is_changed = False
    for path in paths:
        for holder, place, url in _iter_urls(value, path, ()):
            number = number_of(url)
            if number is None:
                holder[place[-1]] = None
                is_changed = True
            else:
                numbers.append((place, number))
    return orjson.dumps(value).decode() if is_changed else row, numbers


def fill_row(row: str, values: Mapping[Place, Any]) -> str:
    """The row with these values in their places."""
    value = _decoder.decode(row)
    for place, new in values.items():
        holder = value
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = new
    return orjson.dumps(value).decode()


def _iter_file_fields(fields: Sequence[Field], path: FieldPath) -> Iterator[FieldPath]:
    for field in fields:
        if field.fields:
            yield from _iter_file_fields(field.fields, (*path, field.name))
        elif field.type == "file" and not _is_rendered(field):
            yield (*path, field.name)


def _iter_urls(value: Any, path: FieldPath, place: Place) -> Iterator[tuple[Any, Place, str]]:
    """The list or object that holds a URL, the URL's place in the row, and the URL."""
    if isinstance(value, list):
        steps: Iterable[tuple[str | int, Any]] = enumerate(value)
    elif path and isinstance(value, dict):
        steps, path = [(path[0], value.get(path[0]))], path[1:]
    else:
        return
    for step, inner in steps:
        if not path and isinstance(inner, str):
            yield value, (*place, step), inner
        else:
            yield from _iter_urls(inner, path, (*place, step))

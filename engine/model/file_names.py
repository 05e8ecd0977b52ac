"""Names downloaded files, and recognizes an HTML page where a file was expected. Pure functions."""

import re
from urllib.parse import unquote, urlsplit

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
"""A table of our own: that of Python depends on the system."""
_HTML = frozenset({"html", "htm", "xhtml", "xht", "shtml"})
_FILES = (
    frozenset(_EXTENSIONS.values()) | {"jpeg", "tif", "mpg", "txt", "tgz", "bin", "exe", "iso", "dmg", "msi"}
) - _HTML
"""Extensions of files that are no HTML."""
_GENERIC = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/download", "application/force-download",
     "application/x-download", "application/unknown", "application/x-unknown", "text/plain"}
)  # fmt: skip
"""Content types that say nothing about what a file is for."""
_CLEAN = re.compile(r"[a-z0-9]{1,10}")
_PASSWORD = re.compile(rb"<input\b[^>]{0,500}\btype\s*=\s*[\"']?password\b", re.IGNORECASE)
_MAX_TYPE = 100


def bare_type(content_type: str) -> str:
    """The content type in lower case, without parameters."""
    bare = content_type.partition(";")[0].strip().lower()
    return bare[:_MAX_TYPE] if bare.isascii() and bare.isprintable() else ""


def file_extension(content_type: str, url: str) -> str:
    """The extension of a file: by its content type, or where that is generic or unknown, by its URL; else `bin`.

    Letters and digits alone, whatever the server says: it is never a path.
    """
    bare = bare_type(content_type)
    if bare not in _GENERIC and bare in _EXTENSIONS:
        return _EXTENSIONS[bare]
    return url_extension(url) or ("txt" if bare == "text/plain" else "bin")


def url_extension(url: str) -> str:
    """The extension in the path of a URL, in lower case; empty: it has none."""
    try:
        name = unquote(urlsplit(url).path).rpartition("/")[2]
    except ValueError:
        return ""
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

    An HTML page is none where the URL has the extension of another kind of file; and where the URL does not have that
    of an HTML page, a page that asks for a password is none.
    """
    extension = url_extension(url)
    if extension in _HTML or not is_html(content_type, start):
        return None
    if _PASSWORD.search(start):
        return "is a login page"
    return f"is an HTML page, not a .{extension} file" if extension in _FILES else None


def _is_binary(head: bytes) -> bool:
    return head.startswith(b"%pdf") or b"\0" in head

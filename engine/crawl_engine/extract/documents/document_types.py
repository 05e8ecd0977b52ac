"""Kinds of binary documents that are read: PDF and others as HTML, archives as what they hold."""

from importlib import import_module
from types import MappingProxyType

from msgspec import Struct

from crawl_engine.installed import DOCUMENTS, NameTable
from crawl_engine.runtime.extras import Extra, has_extra, install_hint


class DocumentUnreadable(Exception):
    """The document has no readable text; the message says why, such as `is encrypted`."""


class DocumentTooLarge(Exception):
    """The document is beyond a limit; the message says which."""


class DocumentType(Struct, frozen=True, kw_only=True):
    """A kind of documents, told by content type or first bytes, and how it is read."""

    content_types: tuple[str, ...]
    """The first one names it in messages."""
    starts: tuple[bytes, ...] = ()
    """What its documents may begin with."""
    suffix: str
    """Of files that hold one, without the dot."""
    reader: str = ""
    """`module:name` of a function, which only extraction processes call: a body → the HTML in UTF-8, and a text for
    each part that was skipped. It raises DocumentUnreadable and DocumentTooLarge."""
    extra: Extra | None = None
    """The extra that brings its library."""
    is_archive: bool = False
    """Whether its files are read in its place (`archives.unpack`), not by a `reader`."""

    @property
    def missing(self) -> str:
        """Why it cannot be read here; empty: it can."""
        if self.extra is None or has_extra(self.extra):
            return ""
        return f"{self.content_types[0]}, whose text needs `{install_hint(self.extra)}`"

    def read(self, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """The document as HTML in UTF-8, and what was skipped. Raises DocumentUnreadable and DocumentTooLarge."""
        module, _, name = self.reader.partition(":")
        try:
            html, skipped = getattr(import_module(module), name)(body)
        except (DocumentUnreadable, DocumentTooLarge, MemoryError):
            raise
        except Exception as error:  # code of a package
            raise DocumentUnreadable(f"cannot be read: {type(error).__name__}: {error}") from error
        return html, tuple(skipped)


PDF = DocumentType(
    content_types=("application/pdf", "application/x-pdf"), starts=(b"%PDF-",), suffix="pdf",
    reader="crawl_engine.extract.page.pdf:read", extra="pdf",
)  # fmt: skip
_ARCHIVES = {
    "gz": (("application/gzip", "application/x-gzip"), b"\x1f\x8b"),
    "zip": (("application/zip", "application/x-zip-compressed"), b"PK\x03\x04"),
    "bz2": (("application/x-bzip2", "application/x-bzip"), b"BZh"),
    "xz": (("application/x-xz",), b"\xfd7zXZ\0"),
    "zst": (("application/zstd",), b"\x28\xb5\x2f\xfd"),
    "tar": (("application/x-tar",), b""),
}
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_OTHERS = ("application/vnd.", "image/", "audio/", "video/", "font/", "model/")
_OTHER_ENDINGS = ("+zip", "/java-archive")
"""Of types whose documents are archives, too: spreadsheets, books, programs."""
DOCUMENT_TYPES = NameTable(
    DOCUMENTS,
    MappingProxyType(
        {
            "pdf": PDF,
            **{
                suffix: DocumentType(
                    content_types=types, starts=(start,) if start else (), suffix=suffix, is_archive=True
                )
                for suffix, (types, start) in _ARCHIVES.items()
            },
        }
    ),
    lambda entry: isinstance(entry, DocumentType),
    "a DocumentType",
)


def find_document_type(body: bytes, content_type: str) -> DocumentType | None:
    """The type of a binary body; None: it cannot be read. Raises UsageError for a type that its package cannot give."""
    bare = content_type.partition(";")[0].strip().lower()
    types = list(DOCUMENT_TYPES.values())
    named = next((type_ for type_ in types if bare in type_.content_types), None)
    if named is not None and not (named.is_archive and named.starts and not body.startswith(named.starts)):
        return named
    begun = next((type_ for type_ in types if type_.starts and body.startswith(type_.starts)), None)
    if begun is None and is_tar(body):
        begun = next(type_ for type_ in types if type_.suffix == "tar")
    is_other = bare.startswith(_OTHERS) or bare.endswith(_OTHER_ENDINGS)
    return None if begun is None or (begun.is_archive and is_other) else begun


def is_tar(body: bytes) -> bool:
    """Whether it begins as a tar archive does."""
    return body.startswith(_TAR_MAGIC, _TAR_MAGIC_AT)

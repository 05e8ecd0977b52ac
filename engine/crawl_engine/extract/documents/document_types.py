"""Kinds of binary documents that are read as HTML pages: PDF, and those of installed packages."""

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
    reader: str
    """`module:name` of a function, which only extraction processes call: a body → the HTML in UTF-8, and a text for
    each part that was skipped. It raises DocumentUnreadable and DocumentTooLarge."""
    extra: Extra | None = None
    """The extra that brings its library."""

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
DOCUMENT_TYPES = NameTable(
    DOCUMENTS, MappingProxyType({"pdf": PDF}), lambda entry: isinstance(entry, DocumentType), "a DocumentType"
)


def find_document_type(body: bytes, content_type: str) -> DocumentType | None:
    """The type of a binary body; None: it cannot be read. Raises UsageError for a type that its package cannot give."""
    bare = content_type.partition(";")[0].strip().lower()
    for type_ in DOCUMENT_TYPES.values():
        if bare in type_.content_types or body.startswith(type_.starts):
            return type_
    return None

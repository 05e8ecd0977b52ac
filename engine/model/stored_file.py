"""A downloaded file: its place in the output folder, its size, digest and content type."""

from typing import Any

from msgspec import Struct

FILES_FOLDER = "files"
"""The folder of the files in the output folder of a run."""


class StoredFile(Struct, frozen=True):
    """A complete file."""

    path: str
    """Relative to the output folder of the run."""
    size: int
    hash: str
    """SHA-256 of the content, in hex."""
    type: str
    """Content type, without parameters; empty: the site named none."""

    def to_value(self) -> dict[str, Any]:
        """The value of a field, in the order in which it is written."""
        return {"path": self.path, "size": self.size, "hash": self.hash, "type": self.type or None}

"""What every output can do, whatever its type: be restored to its record, appended to, rebuilt beside and adopted.

A writer keeps no record of its own progress: the `outputs` table has it, and what a file holds beyond that is cut off.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.store.tables.outputs import Output

Batch = Sequence[tuple[int, str]]
"""Rows of one dataDef in order of id: id, JSON."""


@dataclass(frozen=True, slots=True)
class FileState:
    """What a file durably holds: its length in bytes, its rows, and the inode it lies in."""

    size: int
    rows: int
    inode: int


class Writer(Protocol):
    """One output. Any method may raise OSError, Busy or StorageError: the caller closes it and tries again later."""

    @property
    def is_open(self) -> bool:
        """Whether it holds the file open."""

    def restore(self, output: Output) -> bool:
        """Bring the file to what the record says; False: it cannot be, and must be rebuilt."""

    def append(self, output: Output, batch: Batch) -> FileState:
        """Write rows behind those of the record, durably. The file was restored before."""

    def prepare(self, batches: Iterable[Batch]) -> FileState:
        """Write the whole output anew and durably, where a crash leaves the old one as it was."""

    def swap_in(self) -> None:
        """Put what was prepared in the old one's place."""

    def close(self) -> None:
        """Let go of the file; safe to repeat."""


class Encoder(Protocol):
    """Turns rows into the bytes of a file."""

    def header(self) -> bytes:
        """What the file begins with."""

    def rows(self, rows: Iterable[str]) -> bytes:
        """Stored rows as they stand in the file."""

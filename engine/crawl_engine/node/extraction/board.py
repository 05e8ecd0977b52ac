"""Shared bytes in which an extraction process notes its work, to explain its death."""

import mmap
import os
import tempfile
from collections.abc import Sequence
from enum import IntEnum

from crawl_engine.model.definition import Definitions

_CELL_BYTES = 8
_CELLS = 4
SLOTS = 80
_SIZE = SLOTS * _CELLS * _CELL_BYTES


CONVERTERS = 1_000_000
"""In place of a step's index: the converters of the dataDef's fields."""


class Phase(IntEnum):
    """The part of the work on a document."""

    IDLE = 0
    DECODING = 1
    PARSING = 2
    RECORDS = 3
    FIELD = 4
    LINKS = 5
    ANSWER = 6
    SELECTING = 7
    STEP = 8


class ProgressBoard:
    """Shared memory with a slot of four numbers for each process. `fd` is inherited by processes that are spawned."""

    def __init__(self, fd: int | None = None) -> None:
        """`fd`: the board of another process; None: a new one."""
        if fd is None:
            fd = _create_file()
            os.ftruncate(fd, _SIZE)
        self.fd = fd
        self._cells = memoryview(mmap.mmap(fd, _SIZE)).cast("Q")

    def slot(self, number: int) -> "ProgressSlot":
        return ProgressSlot(self._cells[number * _CELLS : (number + 1) * _CELLS])


class ProgressSlot:
    """The slot of one process."""

    __slots__ = ("_cells",)

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells

    @property
    def document(self) -> int:
        """Number of the document that the process began last; 0: none yet."""
        return int(self._cells[0])

    def copy(self) -> "ProgressSlot":
        """What it holds now."""
        return ProgressSlot(memoryview(bytes(self._cells)).cast("Q"))

    def clear(self) -> None:
        for cell in range(_CELLS):
            self._cells[cell] = 0

    def begin(self, document: int, phase: Phase) -> None:
        self._cells[1] = phase
        self._cells[0] = document

    def enter(self, phase: Phase) -> Phase:
        """Note the phase that begins; returns the one before."""
        before = Phase(self._cells[1])
        self._cells[1] = phase
        return before

    def enter_data_def(self, index: int) -> None:
        """Note the dataDef that is applied, by its index in the task."""
        self._cells[2] = index
        self._cells[1] = Phase.RECORDS

    def enter_field(self, index: int) -> None:
        self._cells[3] = index
        self._cells[1] = Phase.FIELD

    def enter_step(self, unit: int, step: int) -> None:
        """Note the plugin step that works on the rows: the index of its unit in the task, its own in the chain."""
        self._cells[2] = unit
        self._cells[3] = step
        self._cells[1] = Phase.STEP

    def enter_converter(self, unit: int) -> tuple[int, int]:
        """Note that plugin converters run; returns the argument of `leave_converter`."""
        before = int(self._cells[1]), int(self._cells[3])
        self.enter_step(unit, CONVERTERS)
        return before

    def leave_converter(self, before: tuple[int, int]) -> None:
        """Note again what was worked on before the converters."""
        self._cells[1], self._cells[3] = before

    @property
    def step(self) -> tuple[int, int] | None:
        """The unit and step whose plugin code runs, or None."""
        return (int(self._cells[2]), int(self._cells[3])) if self._cells[1] == Phase.STEP else None

    def enter_links(self) -> None:
        self._cells[1] = Phase.LINKS

    def describe(self, definitions: Definitions | None, data_defs: Sequence[str]) -> str:
        """The work in progress, such as `dataDef book, field price`; empty if the numbers make no sense."""
        _, phase, data_def, field = (int(cell) for cell in self._cells)
        match phase:
            case Phase.DECODING:
                return "decoding"
            case Phase.PARSING:
                return "parsing"
            case Phase.SELECTING:
                return "selecting"
            case Phase.RECORDS | Phase.FIELD | Phase.LINKS | Phase.ANSWER if data_def < len(data_defs):
                name = data_defs[data_def]
                return f"dataDef {name}{self._describe_part(phase, definitions, name, field)}"
        return ""

    def _describe_part(self, phase: int, definitions: Definitions | None, name: str, field: int) -> str:
        target = definitions.data_def(name) if definitions is not None else None
        if phase == Phase.FIELD and target is not None and field < len(target.fields):
            return f", field {target.fields[field].name}"
        return ", links" if phase == Phase.LINKS else ""


def _create_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("extraction")
    with tempfile.TemporaryFile() as file:  # macOS; its name is gone at once
        return os.dup(file.fileno())

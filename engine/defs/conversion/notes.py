"""What a conversion says of a dataDef: why it is still a table, or in what its records may differ."""

from typing import Literal

from msgspec import Struct

from engine.model.stored_form import SourcePosition


class NotConvertible(ValueError):
    """A table has no record that gives the same values; the text says why."""


class ConversionNote(Struct, frozen=True, kw_only=True):
    """One line of a conversion. `name`: of the dataDef, or of another part."""

    place: SourcePosition
    kind: Literal["kept", "differs"]
    name: str
    text: str

    @property
    def message(self) -> str:
        """What is said, without the place."""
        kept = "is not converted, and still a table: " if self.kind == "kept" else ""
        return f"{self.name}: {kept}{self.text}"

    def __str__(self) -> str:
        return f"{self.place}: note {self.kind} {self.message}"

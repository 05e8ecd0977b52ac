"""What a change is that a newcomer makes, for `changes.py`."""

from collections.abc import Mapping, Sequence

from msgspec import Struct


class Edit(Struct, frozen=True):
    """A text that is written in place of another, which the file has once; without that the file is new."""

    new: str
    old: str = ""


def before(place: str, text: str) -> Edit:
    return Edit(text + place, place)


class Change(Struct, frozen=True):
    """A change of one kind."""

    section: str
    """The heading of docs/develop/adding.md, without what it says of the files."""
    code: Mapping[str, Sequence[Edit]]
    """By file of the program."""
    check: str
    """Python code that ends with an error where the change does not work; it runs in an empty folder."""
    beside: Mapping[str, Sequence[Edit]] = {}
    """By file of docs and tests."""
    tests: Sequence[str] = ()
    """Arguments of pytest: tests of the copy that must pass."""

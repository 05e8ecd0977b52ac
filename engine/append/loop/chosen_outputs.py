"""Chooses built-in files for the main loop, and gives all other outputs to loops of their own."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from engine.append.formats.writer import Writer, create_writer
from engine.store.tables.output.outputs import Output


class ChosenOutputs(Protocol):
    """Chooses outputs, and creates their writers."""

    runs_plugins: bool
    """Whether plugin code writes them: each retry waits longer than the one before."""

    def choose(self, declared: Sequence[Output]) -> list[Output]:
        """Those of the declared outputs that the loop writes."""

    def create_writer(self, output: Output, *, run: str, folder: Path) -> Writer:
        """The writer of a chosen output."""


class OtherLoops(Protocol):
    """The loops that write the other outputs."""

    def sync(self, declared: Sequence[Output]) -> None:
        """Start and stop loops, so that each of these outputs has one."""

    def wait_drained(self) -> None:
        """Wait until they have written all they can."""

    def close(self) -> None:
        """End them."""


class BuiltInOutputs:
    """The files of built-in types; other loops get the outputs of plugin classes and of senders."""

    runs_plugins = False

    def __init__(self, create_others: Callable[[], OtherLoops] | None = None) -> None:
        """`create_others` is called for the first output of another kind, which most runs lack."""
        self._create_others = create_others
        self._others: OtherLoops | None = None

    def choose(self, declared: Sequence[Output]) -> list[Output]:
        """Those of built-in types."""
        others = [output for output in declared if loop_kind(output)]
        if others and self._others is None and self._create_others is not None:
            self._others = self._create_others()
        if self._others is not None:
            self._others.sync(others)
        return [output for output in declared if not loop_kind(output)]

    def wait_drained(self) -> None:
        """Wait until the other loops have written all they can. Raises the error that ended one."""
        if self._others is not None:
            self._others.wait_drained()

    def close(self) -> None:
        """End the other loops."""
        if self._others is not None:
            self._others.close()

    def create_writer(self, output: Output, *, run: str, folder: Path) -> Writer:
        """The writer of a file."""
        return create_writer(output, run=run, folder=folder)


def loop_kind(output: Output) -> str:
    """What a loop of its own writes an output with: `encoder`, `appender` or `sender`; empty: a built-in file."""
    return str(output.settings.get("kind", ""))

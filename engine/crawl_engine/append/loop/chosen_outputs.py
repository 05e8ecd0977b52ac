"""Gives the built-in files that grow to the main loop, and all other outputs to loops of their own."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from crawl_engine.append.formats.writer import Writer, create_writer
from crawl_engine.model.output_type import is_object, is_whole
from crawl_engine.store.tables.output.outputs import Output


class ChosenOutputs(Protocol):
    """Chooses outputs, and creates their writers."""

    backs_off: bool
    """Whether each retry waits longer than the one before."""

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
    """The files of built-in types that grow; other loops get the whole ones, objects, classes and senders."""

    backs_off = False

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


class WholeOutputs:
    """Chooses the whole outputs of one appender: writing one takes long, and must not delay the files that grow."""

    def __init__(self, appender: str, kind: str = "whole", create: Callable[..., Writer] = create_writer) -> None:
        """`kind`: `whole` or `object`, as of `loop_kind`. `create`: takes what `create_writer` takes."""
        self._appender = appender
        self._kind = kind
        self._create = create
        self.backs_off = kind == "object"

    def choose(self, declared: Sequence[Output]) -> list[Output]:
        """The outputs, as long as they are of this kind."""
        return [o for o in declared if o.appender == self._appender and loop_kind(o) == self._kind]

    def create_writer(self, output: Output, *, run: str, folder: Path) -> Writer:
        """The writer of a file or an object."""
        create = partial(self._create, run=run, folder=folder)
        if self._kind == "whole":
            return create(output)
        from crawl_engine.append.object_writer import create_object_writer  # few runs need it

        return create_object_writer(output, folder, create)

    def close(self) -> None:
        """Do nothing: the loop closes the writers."""


def loop_kind(output: Output) -> str:
    """What a loop of its own writes an output as; empty: the main loop writes it.

    `encoder`, `appender` or `sender`: with a class or a sender; `object`: as an object of a store; `whole`: as a file
    that cannot grow.
    """
    if kind := output.settings.get("kind"):
        return str(kind)
    return "object" if is_object(output.path) else "whole" if is_whole(output.type) else ""

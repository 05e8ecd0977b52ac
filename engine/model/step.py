"""The steps of a task's chain, and the plugin files that they may need."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field

from engine.model.stored_form import NO_POSITION, SourcePosition

Outcome = Literal["ok", "warning", "error", "not_applicable"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "warning", "error", "not_applicable")
StepKind = Literal["built-in", "loader", "parser", "step", "command"]
BAD_ANSWER = "bad-answer"
"""The code of an answer that does not fit the line sent to a command: its next lines may belong to any page."""


class ChainStep(Struct, frozen=True, kw_only=True):
    name: str
    class_name: str
    """A built-in class, `NAME.Class` of the project's plugins, or the name of an installed one."""
    kind: StepKind = "built-in"
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Keyword arguments of the class; JSON values."""
    run: tuple[str, ...] = ()
    """Of a command: the program and its arguments."""
    limit: float | None = None
    """Seconds for one page; None: the setting `parse_limit`, or for a loader `deadline`."""
    workers: int = 1
    """Pages of a node that it works on at once."""
    previous: str = ""
    """For a side branch: the step whose rows it gets. Empty in the main line."""
    place: SourcePosition = NO_POSITION

    @property
    def is_plugin(self) -> bool:
        """Whether it runs plugin code."""
        return self.kind != "built-in"


class StepResult(NamedTuple):
    """The outcome of a step on a page."""

    task: str
    step: str
    outcome: Outcome
    code: str
    """Groups warnings or errors of one cause; may be empty."""
    milliseconds: float
    text: str


def is_plugin_path(argument: str) -> bool:
    """Whether an argument of a command names a file of the plugins."""
    return argument.startswith("plugins/") and ".." not in argument.split("/")


class PluginFile(Struct, frozen=True, kw_only=True):
    """A file below `defs/plugins`."""

    path: str
    """Relative to that folder, with `/`."""
    text: str
    is_base64: bool = False
    """Whether `text` is the base64 of bytes that are not UTF-8 text."""

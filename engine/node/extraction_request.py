"""Documents on their way to an extraction process, and what the node knows of each process."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.model.definition import Definitions
from engine.node import extraction_wire as wire
from engine.node.extraction import UnreadablePage, UnsupportedContent
from engine.node.extraction_connection import ExtractionConnection
from engine.node.extraction_launcher import Ended


@dataclass(slots=True, kw_only=True)
class ExtractionRequest:
    """A document to work on."""

    header: dict[str, Any]
    body: bytes
    definitions: tuple[int, Definitions] | None = None
    """Defs that the process must have, and their key."""
    data_defs: Sequence[str] = ()
    """Names of the dataDefs in the order of the task."""
    deaths: int = 0
    answered: "asyncio.Future[wire.Answer]" = field(init=False)

    def answer(self, answer: wire.Answer) -> None:
        """Pass on the answer, unless nobody waits for it any more."""
        if not self.answered.done():
            self.answered.set_result(answer)


class ChildState:
    """One extraction process, from its start to the report of its end."""

    def __init__(self, number: int, slot: int, *, alone: bool) -> None:
        self.number = number
        self.slot = slot
        self.alone = alone
        """Whether it works on a document that killed a process before, and gets no other meanwhile."""
        self.pid: int | None = None
        self.requests: deque[ExtractionRequest] = deque()
        self.known_defs: set[int] = set()
        self.answers = 0
        self.began_at = 0.0
        self.connection: ExtractionConnection | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.timed_out = False
        self.garbage = False
        self.retired = False
        """Whether it gets no further document."""
        self.closed = False
        self.ended: Ended | None = None


def raise_failure(failure: wire.Failure, memory: int) -> None:
    """Raises UnsupportedContent or UnreadablePage; ValueError for a selector, RuntimeError for a fault of ours."""
    match failure.kind:
        case "unsupported":
            raise UnsupportedContent(failure.reason)
        case "memory":
            raise UnreadablePage(f"needs more than {memory / 1e6:,.0f} MB to parse; the limit is parse_memory")
        case "selector":
            raise ValueError(failure.reason)
        case "unreadable":
            raise UnreadablePage(failure.reason)
    raise RuntimeError(failure.reason)

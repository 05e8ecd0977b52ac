"""Chooses the extraction process for a document: an idle one, one that will be free soon, or a new one."""

from collections.abc import Sequence
from typing import Literal

from engine.node.extraction.board import SLOTS
from engine.node.extraction.request import ChildState, ExtractionRequest

MAX_CHILDREN = 2
"""Processes without users' code: one that works, and one for what would wait behind a costly document."""
QUEUED = 2
"""Documents a process has at most, so that it never waits for the next."""
BUSY_SECONDS = 0.25
"""A document that takes longer than this gets a second process started, so that the others need not wait for it."""


def choose_child(
    children: Sequence[ChildState], request: ExtractionRequest, now: float
) -> ChildState | Literal["start"] | None:
    """A process for the document, or "start": a new one. None: it waits.

    A process that runs users' code serves one version of it alone. `now`: the clock of the loop.
    """
    if request.deaths > 0:  # a document that killed a process before is worked alone
        return "start"
    alive = [child for child in children if child.is_open and not child.alone and child.code == request.code]
    alive.sort(key=lambda child: child.number)
    late = now - BUSY_SECONDS
    prompt = [child for child in alive if not child.requests or child.clock.began_at > late]
    if request.code:
        alive = alive[: request.workers]  # the oldest ones: others were started for tasks that allow more
        prompt = sorted([child for child in prompt if child in alive], key=lambda child: len(child.requests))
    # without users' code the oldest comes first: its memo of links, its heap and its caches are the warm ones
    chosen = next((child for child in prompt if len(child.requests) < QUEUED), None)
    if chosen is not None:
        return chosen
    return None if prompt else "start"


def children_to_retire(children: Sequence[ChildState], request: ExtractionRequest, limit: int) -> list[ChildState]:
    """Idle processes that make room: those of another version's users' code, and one for a document worked alone.

    `limit`: processes that the document's code may have.
    """
    idle = [child for child in children if child.is_open and not child.requests]
    old = [child for child in idle if request.code and child.code not in ("", request.code)]
    if request.deaths and not has_room(children, request, limit):
        old += [child for child in idle if child.code == request.code][:1]
    return old


def has_room(children: Sequence[ChildState], request: ExtractionRequest, limit: int) -> bool:
    """Whether a further process may start for the document's code."""
    return sum(child.code == request.code for child in children) < limit and len(children) < SLOTS


def free_slot(children: Sequence[ChildState]) -> int:
    """The lowest slot of the board that no process has."""
    return min(set(range(SLOTS)) - {child.slot for child in children})

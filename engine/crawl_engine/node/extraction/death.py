"""Judges the death of an extraction process: whether its document is to blame, and in which words."""

import os
import signal

from msgspec import Struct

from crawl_engine.node.extraction.limits import WALL_FACTOR, ExtractionLimits
from crawl_engine.processes.orders import describe_status

_MEMORY_SHARE = 0.8
"""A crash at this share of the memory limit counts as want of memory: parsers seldom survive it."""
_ABORT_SHARE = 0.5
"""The same for an abort: PDFium aborts if it cannot double a buffer."""

LONGER_THAN_LIMIT = "takes longer than its limit"
"""The reason when a plugin step was ended for the time it took."""
_MAX_CRASHES, _MAX_KILLS = 2, 4
"""Deaths of processes that fail a document. A kill from outside is hardly ever meant for its document."""


class DeathCause(Struct, frozen=True):
    """`reason`: why the document is FAILED; None: it is worked once more."""

    reason: str | None
    death: str
    """How the process ended, such as `died (signal 11)`."""


def judge_death(
    status: int,
    memory: int,
    limits: ExtractionLimits,
    *,
    progress: str,
    timed_out: bool,
    garbage: bool,
    deaths: int,
) -> DeathCause:
    """Judge the end of a process by its wait status and greatest resident memory, while it worked on a document.

    `deaths`: how many processes have died of the document, this one included.
    """
    signalled = os.WTERMSIG(status) if status >= 0 and os.WIFSIGNALED(status) else None
    if signalled == signal.SIGALRM:
        return DeathCause(LONGER_THAN_LIMIT, "took longer than the limit of a step")
    where = f"{progress}; " if progress else ""
    if timed_out:
        death = f"took more than {limits.wall_seconds:g} s"
        limit = f"{WALL_FACTOR} times parse_limit"
        return DeathCause(f"takes more than {limits.wall_seconds:g} s ({where}{limit})", death)
    if signalled == signal.SIGPROF:
        death = f"took more than {limits.seconds:g} s of CPU"
        return DeathCause(f"takes more than {limits.seconds:g} s of CPU ({where}limit parse_limit)", death)
    share = _ABORT_SHARE if signalled == signal.SIGABRT else _MEMORY_SHARE
    if signalled in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS) and memory > limits.memory * share:
        return DeathCause(f"needs more than {limits.memory / 1e6:,.0f} MB to parse; the limit is parse_memory", "died")
    how = "invalid answer" if garbage else describe_status(status)
    detail = f"{how}; {progress}" if progress else how
    if deaths < (_MAX_KILLS if signalled == signal.SIGKILL and not garbage else _MAX_CRASHES):
        return DeathCause(None, f"died ({detail})")
    times = "twice" if deaths == _MAX_CRASHES else f"{deaths} times"
    return DeathCause(f"its extraction process died {times} ({detail})", f"died ({detail})")

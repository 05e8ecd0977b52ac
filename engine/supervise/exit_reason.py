"""How a run may stop, and what the program then ends with."""

from enum import StrEnum


class ExitReason(StrEnum):
    """Why a run stops."""

    COMPLETE = "complete"
    EXTRACTED = "extracted"
    """Every stored page is up to date; what was found to fetch is left for the next run."""
    LIMIT = "limit"
    SIGINT = "SIGINT"
    SIGTERM = "SIGTERM"
    FAILED = "failed"
    KILLED = "killed"


EXIT_CODES = {
    ExitReason.COMPLETE: 0,
    ExitReason.EXTRACTED: 0,
    ExitReason.LIMIT: 0,
    ExitReason.SIGINT: 130,
    ExitReason.SIGTERM: 143,
    ExitReason.FAILED: 3,
    ExitReason.KILLED: 137,
}

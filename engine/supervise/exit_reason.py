"""How a run may stop, and what the program then ends with."""

from enum import StrEnum


class Ending(StrEnum):
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
    Ending.COMPLETE: 0,
    Ending.EXTRACTED: 0,
    Ending.LIMIT: 0,
    Ending.SIGINT: 130,
    Ending.SIGTERM: 143,
    Ending.FAILED: 3,
    Ending.KILLED: 137,
}

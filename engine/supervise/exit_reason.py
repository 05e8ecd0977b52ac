"""Why a run stops, and the exit code and final state that follow."""

from enum import StrEnum

from engine.model.run import RunState


class ExitReason(StrEnum):
    """Why a run stops."""

    COMPLETE = "complete"
    EXTRACTED = "extracted"
    """Every stored page is up to date; jobs that need a fetch stay for the next run."""
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

FINAL_STATES = {
    ExitReason.COMPLETE: RunState.DONE,
    ExitReason.EXTRACTED: RunState.CANCELLED,
    ExitReason.LIMIT: RunState.CANCELLED,
    ExitReason.SIGINT: RunState.CANCELLED,
    ExitReason.SIGTERM: RunState.CANCELLED,
    ExitReason.FAILED: RunState.FAILED,
    ExitReason.KILLED: RunState.KILLED,
}

"""A node: its states, roles and heartbeat states with their transitions, and how many nodes a run has."""

import re
from enum import StrEnum

from msgspec import Struct

from crawl_engine.late_regex import late_regex

KILLED_BY_OPERATOR = "killed by an operator"
"""The reason for the end of a node that an operator ordered begins so; over HTTP, who it was follows."""
STALE = "stale"
"""The word for a live node whose beat is late."""
_TEXT = late_regex(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


class NodeState(StrEnum):
    """What a node is doing. READY while it holds a job or may lease one now, else DONE; it may return to READY."""

    STARTING = "STARTING"
    READY = "READY"
    DONE = "DONE"
    STANDBY = "STANDBY"
    DRAINING = "DRAINING"
    SHUTDOWN = "SHUTDOWN"
    TERMINATED = "TERMINATED"
    DEAD = "DEAD"
    FAILED = "FAILED"


class Role(StrEnum):
    """The duty of a node. A dead node keeps its former role as DEAD_RUNNER or DEAD_BACKUP_RUNNER."""

    INITIAL = "INITIAL"
    RUNNER = "RUNNER"
    BACKUP_RUNNER = "BACKUP_RUNNER"
    DEAD_RUNNER = "DEAD_RUNNER"
    DEAD_BACKUP_RUNNER = "DEAD_BACKUP_RUNNER"


class HeartbeatState(StrEnum):
    """How recent a node's beat is for the supervisor."""

    NEWBORN = "NEWBORN"
    HEALTHY = "HEALTHY"
    ARRHYTHMIA = "ARRHYTHMIA"
    ASYSTOLE = "ASYSTOLE"
    APPARENT_DEATH = "APPARENT_DEATH"


_S = NodeState
_ENDS = {_S.DEAD, _S.FAILED, _S.TERMINATED}

NODE_TRANSITIONS: dict[NodeState, frozenset[NodeState]] = {
    _S.STARTING: frozenset({_S.READY, _S.DONE, _S.STANDBY, _S.DRAINING, _S.SHUTDOWN, *_ENDS}),
    _S.READY: frozenset({_S.DONE, _S.DRAINING, _S.SHUTDOWN, *_ENDS}),
    _S.DONE: frozenset({_S.READY, _S.DRAINING, _S.SHUTDOWN, *_ENDS}),
    _S.STANDBY: frozenset({_S.READY, _S.DONE, _S.DRAINING, _S.SHUTDOWN, *_ENDS}),
    _S.DRAINING: frozenset({_S.SHUTDOWN, *_ENDS}),
    _S.SHUTDOWN: frozenset(_ENDS),
    _S.TERMINATED: frozenset(),
    _S.DEAD: frozenset({_S.FAILED}),
    _S.FAILED: frozenset(),
}
"""SHUTDOWN: the node recorded its end; TERMINATED: the supervisor saw it exit. DEAD becomes FAILED if not replaced."""

ALIVE_STATES = frozenset({_S.STARTING, _S.READY, _S.DONE, _S.STANDBY, _S.DRAINING})

ROLE_TRANSITIONS: dict[Role, frozenset[Role]] = {
    Role.INITIAL: frozenset({Role.RUNNER, Role.BACKUP_RUNNER}),
    Role.RUNNER: frozenset({Role.DEAD_RUNNER}),
    Role.BACKUP_RUNNER: frozenset({Role.RUNNER, Role.DEAD_BACKUP_RUNNER}),
    Role.DEAD_RUNNER: frozenset(),
    Role.DEAD_BACKUP_RUNNER: frozenset(),
}

HEARTBEAT_TRANSITIONS: dict[HeartbeatState, frozenset[HeartbeatState]] = {
    HeartbeatState.NEWBORN: frozenset(
        {HeartbeatState.HEALTHY, HeartbeatState.ARRHYTHMIA, HeartbeatState.ASYSTOLE, HeartbeatState.APPARENT_DEATH}
    ),
    HeartbeatState.HEALTHY: frozenset(
        {HeartbeatState.ARRHYTHMIA, HeartbeatState.ASYSTOLE, HeartbeatState.APPARENT_DEATH}
    ),
    HeartbeatState.ARRHYTHMIA: frozenset(
        {HeartbeatState.HEALTHY, HeartbeatState.ASYSTOLE, HeartbeatState.APPARENT_DEATH}
    ),
    HeartbeatState.ASYSTOLE: frozenset(),
    HeartbeatState.APPARENT_DEATH: frozenset(),
}


STATE_WORDS: dict[NodeState, str] = {
    _S.STARTING: "starting", _S.READY: "ready", _S.DONE: "done", _S.STANDBY: "standby", _S.DRAINING: "stopping",
    _S.SHUTDOWN: "stopping", _S.TERMINATED: "stopped", _S.DEAD: "dead", _S.FAILED: "dead",
}  # fmt: skip
"""The word for each state on screens and in texts, as the glossary explains it."""


def state_word(state: str, heart: str, *, works: bool = False) -> str:
    """The word for a node in this state, with this heartbeat. `works`: it holds jobs, or just ended some."""
    if works and state == NodeState.DONE:
        state = NodeState.READY  # between two jobs, as while its host's delay lasts
    late = heart == HeartbeatState.ARRHYTHMIA and state in ALIVE_STATES
    return STALE if late else STATE_WORDS[NodeState(state)]


class NodeRange(Struct, frozen=True):
    """The least and the most runners, at least 1; equal if the number is fixed."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> "NodeRange":
        """The range of a text such as `4` or `1-4`. Raises ValueError."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise ValueError(text)
        least = int(match[1])
        most = int(match[2] or least)
        if not 1 <= least <= most:
            raise ValueError(text)
        return cls(least, most)

    def __str__(self) -> str:
        """The text that `parse` reads."""
        return f"{self.least}-{self.most}" if self.is_elastic else str(self.least)

    @property
    def is_elastic(self) -> bool:
        """Whether the number may vary."""
        return self.least < self.most

    def clamp(self, count: int) -> int:
        """The number within the range that is closest to `count`."""
        return max(self.least, min(self.most, count))

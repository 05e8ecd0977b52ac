"""Decides which machines are silent and which one leads, by counters and this machine's own clock."""

from collections.abc import Sequence

from msgspec import Struct

from crawl_engine.store.tables.run.machines import LeaderLease, MachineView, SeenMachine

BEAT_SECONDS = 1.0
LOOK_SECONDS = 0.25
CUT_OFF_SECONDS = 3.0
"""A machine whose own beats did not get through for so long kills its nodes: others will soon have their jobs."""
SILENT_SECONDS = 4.0
_LONGEST_LOOK = 1.0
"""An observer that was stopped, or could not read, declares nobody silent for that time."""
_RANK_SECONDS = 2.0
"""How much longer each next machine waits for the one before it to take the lead."""


class _Heard(Struct):
    """What was heard of a machine, and how long nothing more."""

    beats: int
    silence: float = 0.0


class Election:
    """What one machine knows of the others. Reads no clock and no database."""

    def __init__(self, epoch: int) -> None:
        """`epoch`: the number of this machine."""
        self._epoch = epoch
        self._heard: dict[int, _Heard] = {}
        self._observed_at: float | None = None
        self._vacant = 0.0
        """Seconds without a leader."""
        self.view = MachineView(LeaderLease(None, 0))

    def observe(self, view: MachineView, now: float) -> None:
        """Note what was read. `now`: monotonic seconds."""
        elapsed = 0.0 if self._observed_at is None else min(max(0.0, now - self._observed_at), _LONGEST_LOOK)
        self._observed_at, self.view = now, view
        known, self._heard = self._heard, {}
        for machine in view.machines:
            heard = known.get(machine.epoch)
            is_same = heard is not None and heard.beats == machine.beats
            self._heard[machine.epoch] = _Heard(machine.beats, heard.silence + elapsed if heard and is_same else 0.0)
        self._vacant = 0.0 if self.leader is not None else self._vacant + elapsed

    def miss(self) -> None:
        """Nothing could be read: the time until the next look counts for no machine."""
        self._observed_at = None

    @property
    def silent(self) -> Sequence[SeenMachine]:
        """The machines to end."""
        return [machine for machine in self.view.machines if self._is_silent(machine)]

    @property
    def others(self) -> Sequence[SeenMachine]:
        """Other machines that live and stay."""
        return [machine for machine in self._candidates if machine.epoch != self._epoch]

    @property
    def leader(self) -> SeenMachine | None:
        """The machine that leads and lives."""
        leader = self.view.leader
        return None if leader is None or self._is_silent(leader) else leader

    def missing(self, quorum: int) -> int:
        """How many more machines a run waits for before it starts."""
        return 0 if self.leader is not None else max(0, quorum - len(self._candidates))

    def should_lead(self, quorum: int) -> bool:
        """Whether this machine takes the lead now: the lowest number first, the next ones if that one does not.

        Only a run that starts waits for a quorum: a machine that stands by has been in one.
        """
        numbers = {machine.epoch: machine.role for machine in self._candidates}
        if self.leader is not None or self._epoch not in numbers:
            return False
        if numbers[self._epoch] == "INITIAL" and self.missing(quorum):
            return False
        return self._vacant >= _RANK_SECONDS * list(numbers).index(self._epoch)

    @property
    def _candidates(self) -> list[SeenMachine]:
        return [m for m in self.view.machines if m.role != "LEAVING" and not self._is_silent(m)]

    def _is_silent(self, machine: SeenMachine) -> bool:
        heard = self._heard.get(machine.epoch)
        return machine.epoch != self._epoch and heard is not None and heard.silence >= SILENT_SECONDS

"""Writes the table `leader` and the beats of machines: who is there, and which of them leads."""

from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.errors import Fenced, UsageError
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.job.jobs import NOW
from crawl_engine.store.tables.run.nodes import ALIVE

MachineRole = Literal["INITIAL", "LEADER", "STANDBY", "LEAVING"]
_FRESH_SECONDS = 10.0
"""A machine that beat so lately counts as living for one that joins, which has seen no beat of it yet."""

_JOIN = f"""
INSERT INTO supervisors (identity, name, program, role, beat_at, started_at) VALUES (?, ?, ?, 'INITIAL', {NOW}, ?)
RETURNING epoch
"""
_LIVING = f"SELECT name, program FROM supervisors WHERE ended_at IS NULL AND beat_at > {NOW} - {_FRESH_SECONDS}"
_BEAT = f"UPDATE supervisors SET beats = beats + 1, beat_at = {NOW} WHERE epoch = ? AND ended_at IS NULL"
_VIEW = """
SELECT l.fence AS "lease.fence", l.epoch AS "lease.epoch", s.epoch AS "machine.epoch", s.name AS "machine.name",
    s.role AS "machine.role", s.beats AS "machine.beats", s.run AS "machine.run"
FROM leader l LEFT JOIN supervisors s ON s.ended_at IS NULL ORDER BY s.epoch
"""
_IS_LEADER = """
SELECT EXISTS (SELECT 1 FROM leader l JOIN supervisors s ON s.epoch = l.epoch
    WHERE l.epoch = ? AND l.fence = ? AND s.ended_at IS NULL)
"""
_GROWING = ("hosts", "sequences", "jobs", "documents", "document_aliases", "pages", "rows", "page_health", "results")
_LIST = f"""
SELECT s.name, l.epoch IS NOT NULL AS leader, s.role, {NOW} - coalesce(s.beat_at, s.started_at) AS heart,
    (SELECT count(*) FROM nodes n
        WHERE n.supervisor = s.epoch AND n.state IN {ALIVE}) AS nodes,
    (SELECT coalesce(sum(n.done + n.failed), 0) FROM nodes n WHERE n.supervisor = s.epoch) AS done
FROM supervisors s LEFT JOIN leader l ON l.epoch = s.epoch
WHERE s.ended_at IS NULL AND (s.run = ? OR s.run IS NULL) ORDER BY s.epoch
"""


class LeaderLease(Struct, frozen=True):
    """Which machine leads; `fence` tells each time that one took the lead from all others."""

    epoch: int | None
    fence: int


class SeenMachine(Struct, frozen=True):
    """A machine that has not ended."""

    epoch: int
    name: str
    role: MachineRole
    beats: int
    run: int | None


class MachineView(Struct, frozen=True):
    """The machines at a moment, the lowest number first."""

    lease: LeaderLease
    machines: tuple[SeenMachine, ...] = ()
    stage: str = ""
    """Of the run of this machine."""
    exit_code: int | None = None
    """Of that run, once it has ended."""

    @property
    def leader(self) -> SeenMachine | None:
        """The machine that holds the lease and has not ended."""
        return next((machine for machine in self.machines if machine.epoch == self.lease.epoch), None)


class _ViewRow(NamedTuple):
    lease: LeaderLease
    machine: SeenMachine | None


class MachineRow(Struct, frozen=True):
    """A machine. Field names and their order are the keys of `status --json`."""

    name: str
    leader: bool
    role: MachineRole
    heart: float
    """Seconds since its last beat, by the clock of the database."""
    nodes: int
    done: int
    """Jobs that its nodes have worked."""


def join(db: Database, *, identity: str, host: str, program: str, now: float) -> int:
    """Write the row of a machine that starts, in the open transaction; returns its number.

    Raises UsageError while a machine with another version of this program works here.
    """
    living = db.all(_LIVING)
    for name, other in living:
        if other != program:
            raise UsageError(
                f"machine {name} works here with crawl-console {other}; this is {program}",
                "Use the same version on each machine.",
            )
    epoch = int(db.value(_JOIN, (identity, host, program, now)))
    if any(name == host for name, _ in living):
        db.execute("UPDATE supervisors SET name = ? WHERE epoch = ?", (f"{host}-{epoch}", epoch))
    return epoch


def beat(db: Database, epoch: int) -> bool:
    """Tell the others that this machine lives; False: its row has ended.

    One statement without the lock of the crawl: a beat waits behind no transaction.
    """
    return bool(db.execute(_BEAT, (epoch,)).rowcount)


def analyze(db: Database) -> None:
    """Have the server count and sample the tables that grow."""
    for table in _GROWING:
        db.execute(f"ANALYZE {table}")


def read_view(db: Database, run: int | None) -> MachineView:
    """The machines, and then how far the run is: an end of the run shows before the end of its leader."""
    rows = db.rows(_ViewRow, _VIEW)
    stage, exit_code = db.one("SELECT stage, exit_code FROM runs WHERE seq = ?", (run,)) or ("", None)
    return MachineView(rows[0].lease, tuple([row.machine for row in rows if row.machine is not None]), stage, exit_code)


def get_lease(db: Database) -> LeaderLease:
    (lease,) = db.rows(LeaderLease, "SELECT epoch, fence FROM leader")
    return lease


def find_epoch(db: Database, identity: str) -> int | None:
    """The machine of a process whose row has not ended."""
    return db.value("SELECT max(epoch) FROM supervisors WHERE ended_at IS NULL AND identity = ?", (identity,))


def get_identity(db: Database, epoch: int) -> str | None:
    return db.value("SELECT identity FROM supervisors WHERE epoch = ?", (epoch,))


def set_role(db: Database, epoch: int, role: MachineRole, run: int | None = None) -> None:
    """`run`: on which it works from now on; None: as before."""
    db.execute("UPDATE supervisors SET role = ?, run = coalesce(?, run) WHERE epoch = ?", (role, run, epoch))


def set_leader(db: Database, epoch: int | None) -> LeaderLease:
    """Give the lead to a machine, and fence the one before; None: to the next that takes it."""
    db.execute("UPDATE leader SET epoch = ?, fence = fence + 1", (epoch,))
    return get_lease(db)


def end_silent(db: Database, machine: SeenMachine, now: float) -> bool:
    """End the row of a machine that has not beaten since it was seen so; False: it has."""
    values = (now, machine.epoch, machine.beats)
    done = db.execute("UPDATE supervisors SET ended_at = ? WHERE epoch = ? AND beats = ? AND ended_at IS NULL", values)
    return bool(done.rowcount)


def check_member(db: Database, epoch: int) -> None:
    """Raise Fenced if the row of this machine has ended."""
    if db.value("SELECT ended_at IS NULL FROM supervisors WHERE epoch = ?", (epoch,)) not in (1, True):
        raise Fenced(f"machine {epoch} was silent for too long", "Others have its work; it joins again.")


def check_leader(db: Database, lease: LeaderLease) -> None:
    """Raise Fenced if another machine leads."""
    if not db.value(_IS_LEADER, (lease.epoch, lease.fence)):
        raise Fenced(f"machine {lease.epoch} does not lead any more", "Another one does; this one joins again.")


def check_alone(db: Database) -> None:
    """Raise UsageError while machines work here."""
    if living := db.all(_LIVING):
        names = ", ".join(str(name) for name, _ in living)
        raise UsageError(f"machines work here: {names}", "Nothing was changed. Wait for their end.")


def list_machines(db: Database, run: int) -> list[MachineRow]:
    """The machines of a run, and those that wait for one."""
    return [replace(row, heart=round(max(0.0, row.heart), 1)) for row in db.rows(MachineRow, _LIST, (run,))]

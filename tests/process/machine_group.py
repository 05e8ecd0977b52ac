"""Machines as groups of processes: each has its own data dir; they share one PostgreSQL database."""

import contextlib
import csv
import os
import signal
from collections import Counter
from pathlib import Path

from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.location import Location, write_location
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import machines, runs
from crawl_engine.store.tables.run.machines import LeaderLease, MachineRow

from .islands import Islands
from .library import Library
from .machine_network import MachineNetwork
from .project import Project, Running
from .rich_front import RichFront


class MachineGroup:
    """Machines that crawl a site; `lead` is read from the database."""

    def __init__(
        self,
        folder: Path,
        url: str,
        library: Library | Islands | RichFront,
        count: int = 2,
        network: MachineNetwork | None = None,
    ) -> None:
        self._network = network
        self.projects: list[Project] = []
        self.running: list[Running] = []
        for number in range(count):
            project = Project(_made(folder / f"m{number}"))
            project.write(library.defs(concurrency=6, more="appenders: {rows: {type: csv}}\n"))
            write_location(_made(project.data), Location(url, "crawl"))
            self.projects.append(project)

    def start(self, *arguments: str, quorum: int = 2) -> None:
        """Start a run on each machine, one after another, so that the first one leads."""
        self.running = []
        for number in range(len(self.projects)):
            self.restart(number, *arguments, quorum=quorum)

    def restart(self, number: int, *arguments: str, quorum: int = 1) -> None:
        """Start a run on one machine."""
        running = self.projects[number].start_command(
            "run", "--no-ui", "--json", "--nodes", "1", "--defs", "defs", "--data", "data", *arguments,
            variables={"CRAWL_QUORUM": str(quorum)}, tracer=self._network.launcher(number) if self._network else (),
        )  # fmt: skip
        self.running[number : number + 1] = [running]

    def kill(self, number: int) -> None:
        """End every process of a machine, as a power failure does."""
        self._signal(number, signal.SIGKILL)
        self.running[number].process.wait(10)

    def freeze(self, number: int, *, thaw: bool = False) -> None:
        """Stop every process of a machine, or let them run again."""
        self._signal(number, signal.SIGCONT if thaw else signal.SIGSTOP)

    def _signal(self, number: int, name: signal.Signals) -> None:
        for pid in [self.running[number].pid, *self.projects[number].live_processes()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, name)

    def lease(self) -> LeaderLease:
        """Who leads."""
        with contextlib.closing(connect(self.projects[0].data / CRAWL)) as db:
            return machines.get_lease(db)

    def leader(self) -> int | None:
        """The machine that leads; None: none does now."""
        with contextlib.closing(connect(self.projects[0].data / CRAWL)) as db:
            epoch = machines.get_lease(db).epoch
            identity = None if epoch is None else machines.get_identity(db, epoch)
        pids = [f":{running.pid}:" in (identity or "") for running in self.running]
        return pids.index(True) if True in pids else None

    def list_machines(self) -> list[MachineRow]:
        with contextlib.closing(connect(self.projects[0].data / CRAWL)) as db:
            run = runs.latest(db)
            return [] if run is None else machines.list_machines(db, run.seq)

    def query(self, sql: str) -> list[tuple[object, ...]]:
        with contextlib.closing(connect(self.projects[0].data / CRAWL)) as db:
            return db.all(sql)

    def rows(self, number: int) -> Counter[tuple[str, ...]]:
        """The rows in the files that a machine wrote."""
        return self.projects[number].count_rows("entry", "book")

    def exported_rows(self, number: int) -> Counter[tuple[str, ...]]:
        """The rows that `export` gives on a machine."""
        rows: Counter[tuple[str, ...]] = Counter()
        for name in ("entry", "book"):
            done = self.projects[number].run_with_data("export", name, "--format", "csv")
            assert done.code == 0, done.err
            rows.update((name, *row) for row in list(csv.reader(done.out.splitlines()))[1:])
        return rows

    def logs(self) -> str:
        return "\n".join(
            f"{running.err[-2000:]}\n{project.logs()[-4000:]}"
            for project, running in zip(self.projects, self.running, strict=True)
        )

    def kill_all(self) -> None:
        for project in self.projects:
            project.kill_all()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder

"""Measures the console on a large data dir in a pty: start, CPU, memory, bytes; idle and under load.

    python -m tests.bench.console [--jobs N] [--hosts N] [--nodes N] [--seconds S] [--soak MINUTES] [--folder DIR]

The store fills the data dir. This process acts as the supervisor and, under load, finishes 1,000 jobs a second.
"""

import argparse
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.host import HostPolicy
from crawl_engine.model.job import link_key
from crawl_engine.model.node import Role
from crawl_engine.model.run import NO_ETA, Judgement, RunState, Stage
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.tables.job import linked_jobs
from crawl_engine.store.tables.job.linked_jobs import NewLink
from crawl_engine.store.tables.run import events, nodes, runs, supervisors, versions
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.placement import PlacementCache

GROUP, JOBS_PER_S = "docs", 1_000
_STAGES = (Stage.CHECK_LOCK, Stage.START_APPENDER, Stage.START_NODES, Stage.RUNNING)
_DEFS = Definitions(
    data_defs=(DataDef(name="page", fields=(Field(name="title"),)),),
    task_groups=(TaskGroup(name=GROUP, tasks=(Task(name="t", data_def="page"),)),),
)


def filled(folder: Path, count: int, hosts: int, node_count: int) -> tuple[int, list[int]]:
    """Fill a data dir with a running run whose supervisor is this process; return its number and node epochs."""
    open_databases(folder).close()
    db = connect(folder / CRAWL, durable=False)
    now = time.time()
    with db.transaction():
        run = runs.create(db, None, now).seq
        epoch = supervisors.begin(db, identity_of(os.getpid()) or "", run, now)
        runs.begin(db, run, now)
        runs.set_version(db, run, versions.publish(db, _DEFS, now))
        runs.set_state(db, run, RunState.SEEDING)
        runs.set_state(db, run, RunState.READY)
        for stage in _STAGES:
            runs.enter_stage(db, run, stage)
        epochs = [nodes.insert(db, run, epoch, Role.RUNNER, None, now)[0] for _ in range(node_count)]
        for node in epochs:
            nodes.register(db, node, "DONE", os.getpid(), identity_of(os.getpid()) or "")
        db.execute("UPDATE nodes SET heart = 'HEALTHY', state = 'READY'")
    places = PlacementCache(run, lambda _: HostPolicy(0.5, 4, False))
    each = max(1, count // hosts)
    for host in range(hosts):
        with db.transaction():
            place = places.find_or_create(db, GROUP, f"host{host}.example:80", f"http://host{host}.example")
            urls = [f"http://host{host}.example/catalogue/item-{number}.html" for number in range(each)]
            linked_jobs.add_links(
                db, [NewLink(run, place.sequence, 0, 1, None, None, u, link_key(GROUP, u)) for u in urls]
            )
        places.commit_cache()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return run, epochs


class Load:
    """Finishes jobs, writes events and updates nodes, as a crawl would."""

    def __init__(self, folder: Path, run: int, epochs: list[int], part: int = JOBS_PER_S // 20) -> None:
        """`part`: jobs every 50 ms; with 0 only the nodes send heartbeats, once a second."""
        self._part = part
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(folder, run, epochs), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self, folder: Path, run: int, epochs: list[int]) -> None:
        db = connect(folder / CRAWL, durable=False)
        db.execute("PRAGMA wal_autocheckpoint = 1000")
        at = int(db.value("SELECT coalesce(max(id), 0) FROM jobs WHERE state = 'DONE'"))
        part = self._part
        while not self._stopped.wait(0.05 if part else 1.0):
            now = time.time()
            with db.transaction():
                db.execute(
                    "UPDATE jobs SET state = 'DONE', changed_at = ? WHERE id > ? AND id <= ?", (now, at, at + part)
                )
                text = f"200 http://host{at % 500}.example/catalogue/item-{at}.html 31 ms 15 kB 3 rows"
                events.add(db, run, [Event(now, "INFO", f"n{at % 16 + 1}", "page", text, at)] * part)
                runs.add_time(
                    db,
                    run,
                    0.05,
                    Judgement(JOBS_PER_S + at % 97 if part else 0.0, 60.0 * part),
                    NO_ETA,
                )
                beats = [
                    (e, "READY", 0.1 + now * 7 % 3 / 10, 20 + at % 7, at // len(epochs), 0, 90_000_000 + at, 0.0,
                     f"http://host{(at + e) % 500}.example/catalogue/item-{at + e}.html", 0.1, 30.0, None)
                    for e in epochs
                ]  # fmt: skip
                db.execute_values(nodes._RECORD_BEATS, beats)
            at += part
        db.close()


class Screen:
    """The console in a pty: bytes written, CPU, memory."""

    def __init__(self, folder: Path, width: int, height: int, *flags: str) -> None:
        self.written = 0
        self.text = b""
        self.started = time.monotonic()
        self.pid, self._tty = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
            os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
            os.environ["XDG_STATE_HOME"] = str(folder / "state")
            os.execv(
                sys.executable, [sys.executable, "-m", "crawl_console", "--read-only", "--data", str(folder), *flags]
            )
        fcntl.ioctl(self._tty, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, seconds: float, until: bytes | None = None) -> bool:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._tty], [], [], left)[0]:
                try:
                    data = os.read(self._tty, 1 << 16)
                except OSError:
                    return False
                self.written += len(data)
                self.text = (self.text + data)[-200_000:]
                if until is not None and until in self.text:
                    return True
        return until is None

    def press(self, keys: bytes) -> None:
        os.write(self._tty, keys)

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self) -> float:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        self.read(3)
        os.close(self._tty)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def measured(screen: Screen, seconds: float) -> str:
    cpu, written, started = screen.cpu(), screen.written, time.monotonic()
    screen.read(seconds)
    passed = time.monotonic() - started
    share, speed = (screen.cpu() - cpu) / passed * 100, (screen.written - written) / passed
    return f"{share:5.1f} % of a core  {speed / 1000:6.1f} kB/s  {screen.rss():6.1f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--soak", type=float, default=0, help="minutes under load, the screens in turn")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "data"
        started = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        run, epochs = filled(folder, options.jobs, options.hosts, options.nodes)
        seconds = time.monotonic() - started
        print(f"{options.jobs} jobs, {options.hosts} hosts, {options.nodes} nodes: filled in {seconds:.0f} s")
        starts = []
        for _ in range(4):
            screen = Screen(folder, width, height)
            drawn = screen.read(10, b"host1")
            starts.append(time.monotonic() - screen.started if drawn else float("nan"))
            screen.close()
        print("start to a full screen: " + ", ".join(f"{s * 1000:.0f} ms" for s in starts))
        screen = Screen(folder, width, height)
        screen.read(4)
        effects = []
        for key, text in ((b"3", b"ROBOTS"), (b"6", b"follow"), (b"1", b"JOB/S"), (b"2", b"URL"), (b"?", b"Keys")):
            screen.text, pressed = b"", time.monotonic()
            screen.press(key)
            screen.read(3, text)
            effects.append(time.monotonic() - pressed)
            screen.read(1)
        screen.press(b"q")
        print("key to its screen, the first time: " + ", ".join(f"{s * 1000:.0f} ms" for s in effects))
        for kind in ("idle", "quiet", "load"):
            load = Load(folder, run, epochs, JOBS_PER_S // 20 if kind == "load" else 0) if kind != "idle" else None
            for number, name in enumerate(("nodes", "jobs", "hosts", "failed", "defs", "log", "plots"), 1):
                screen.press(str(number).encode())
                screen.read(3)
                print(f"{kind:<6}{name:<7}{measured(screen, options.seconds)}", flush=True)
            if load is not None:
                for minute in range(round(options.soak) if kind == "load" else 0):
                    screen.press(str(minute % 7 + 1).encode())
                    print(f"minute {minute + 1} {measured(screen, 60)}", flush=True)
                load.stop()
        screen.close()


if __name__ == "__main__":
    main()

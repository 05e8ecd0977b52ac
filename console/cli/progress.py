"""Progress of a headless run, on stderr alone: one line in place on a terminal, elsewhere lines, JSON, or nothing."""

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from console.cli.run_report import report_lines
from console.format import plural
from console.sanitize import clean
from engine.errors import CrawlError
from engine.store.db.connector import Database
from engine.store.read import snapshot
from engine.store.read.snapshot import Snapshot
from engine.store.tables import events, runs
from engine.urls import without_credentials

_MAX_LISTED = 5
_EVENT_POLL_SECONDS = 0.5
_REFRESH_SECONDS = {"tty": 0.5, "plain": 5.0, "json": 1.0}


class Progress:
    """Shows how far a run is; never fails it."""

    def __init__(self, mode: str, path: Path) -> None:
        """`mode`: auto, tty, plain, json or quiet. `path`: the database to look at."""
        if mode == "auto":
            mode = "tty" if sys.stderr.isatty() else "plain"
        self._mode = mode
        self._path = path
        self._db: Database | None = None
        self._shown_at = time.monotonic()
        self._done = 0
        self._start_event = 0
        self._last_events: dict[str, int] = {}
        self._events_checked_at = time.monotonic()
        self._alarm = ""

    def start(self, db: Database, run: int) -> None:
        """The first word: what is begun, and what was said about it."""
        if self._mode == "quiet":
            return
        self._start_event = events.last_id(db)
        look = snapshot.read(db, run=run, limit=0)
        assert look.run is not None
        self._shown_at, self._done = time.monotonic(), look.jobs["done"]
        if self._mode == "json":
            return
        left = [f"{plural(look.jobs['ready'], 'job')} left"] if look.jobs["ready"] or look.jobs["done"] else []
        word = "goes on" if left else "begins"
        told = ", ".join([f"defs v{look.run.defs_version}", *left, *_pause_notes(look)])
        self._write(f"run {look.run.id} {word}: {told}\n")
        self._print_new_events(db, run)

    def _print_new_events(self, db: Database, run: int) -> None:
        """Problems of seeds and defs, as they come."""
        for kind in ("seed", "defs", "appender"):
            for text in snapshot.list_event_texts(
                db, run, kind, self._last_events.get(kind, self._start_event), _MAX_LISTED
            ):
                self.print_message(f"  {clean(text)}")
            self._last_events[kind] = events.last_id(db)

    def _try_print_new_events(self) -> None:
        try:
            if self._db is None:
                self._db = Database.open(self._path, read_only=True)
            if (run := runs.latest(self._db)) is not None:
                self._print_new_events(self._db, run.seq)
        except CrawlError:
            return

    def set_alarm(self, text: str) -> None:
        """What holds the run, once; and that it is over. From memory: the database may be what is in trouble."""
        before, self._alarm = self._alarm, text
        if bool(text) != bool(before):
            self.print_message(f"PAUSED: {clean(text)}" if text else "there is space again: the run goes on")

    def print_message(self, text: str) -> None:
        """A sentence, in the place of the line that shows how far the run is; none where stderr is quiet, or JSON."""
        if self._mode not in ("quiet", "json"):
            self._write(("\r\x1b[K" if self._mode == "tty" else "") + text + "\n")

    def refresh(self) -> None:
        """Show, if it is time to."""
        now = time.monotonic()
        if self._mode in ("tty", "plain") and now - self._events_checked_at >= _EVENT_POLL_SECONDS:
            self._events_checked_at = now
            self._try_print_new_events()
        if self._mode == "quiet" or now - self._shown_at < _REFRESH_SECONDS[self._mode]:
            return
        try:
            if self._db is None:
                self._db = Database.open(self._path, read_only=True)
            look = snapshot.read(self._db, limit=0)
        except CrawlError:
            return
        rate = (look.jobs["done"] - self._done) / (now - self._shown_at)
        self._shown_at, self._done = now, look.jobs["done"]
        if self._mode == "json":
            self._write(
                orjson.dumps(
                    {"at": time.time(), "pages_per_s": round(rate, 1), **_counts(look), "alarm": self._alarm or None}
                ).decode()
                + "\n"
            )
        elif self._mode == "tty":
            self._write(f"\r\x1b[K{_line(look, rate)}")
        else:
            self._write(_line(look, rate) + "\n")

    def finish(self, db: Database, run: int, reason: str | None) -> None:
        """The last word: how the run ended, and where its rows are."""
        if self._db is not None:
            self._db.close()
        if self._mode == "quiet":
            return
        look = snapshot.read(db, run=run)
        if self._mode == "json":
            self._write(orjson.dumps({"at": time.time(), **_counts(look)}).decode() + "\n")
            return
        assert look.run is not None
        self._print_new_events(db, run)
        because = f": {reason}" if reason else ""
        rate = look.jobs["done"] / look.run.seconds if look.run.seconds else 0.0
        self.print_message(
            f"run {look.run.id} {look.run.state}{because}; {look.run.seconds:.1f} s\n{_line(look, rate)}"
        )
        for line in report_lines(look):
            self._write(f"{clean(line)}\n")
        for url, why in snapshot.list_failures(db, run, _MAX_LISTED) if look.jobs["failed"] else []:
            self._write(f"  FAILED {clean(without_credentials(url))}: {clean(why)}\n")
        if look.jobs["failed"] > _MAX_LISTED:
            self._write(f"  … and {look.jobs['failed'] - _MAX_LISTED} more failed\n")
        for name, count in look.rejected.items():
            self._write(f"  {name}: {plural(count, 'record')} rejected\n")
        for text in snapshot.list_event_texts(db, run, "row", self._start_event, _MAX_LISTED) if look.rejected else []:
            self._write(f"    {clean(text)}\n")
        for output in look.appenders:
            self._write(f"  {output.rows:>8} rows  {output.name}  {output.path}\n")
        if look.run.state in ("CANCELLED", "KILLED", "FAILED"):
            self._write("`crawl-console run` goes on where it stopped\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


def _counts(look: Snapshot) -> dict[str, Any]:
    return {"state": look.run.state if look.run else None, "jobs": look.jobs, "rows": look.rows}


def _line(look: Snapshot, rate: float) -> str:
    jobs = look.jobs
    parts = [f"{jobs['done']} done", f"{jobs['taken']} running", f"{jobs['ready']} ready"]
    parts += [f"{jobs[name]} {name}" for name in ("failed", "skipped", "incomplete") if jobs[name]]
    return f"{', '.join(parts + _pause_notes(look))}; {sum(look.rows.values())} rows; {rate:.1f} pages/s"


def _pause_notes(look: Snapshot) -> list[str]:
    """What is paused, and what ends that."""
    told = []
    if look.run is not None and look.run.paused:
        told.append(f"PAUSED ({look.run.paused}{'; `crawl-console resume`' if 'operator' in look.run.paused else ''})")
    if look.paused_sequences:
        told.append(f"{plural(look.paused_sequences, 'sequence')} PAUSED (`crawl-console resume SEQ`)")
    return told

"""The appender process: started by a supervisor, registered, alone on its run's outputs, and ended in order."""

import argparse
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from engine.append.appender import AppenderLoop
from engine.append.beat_thread import AppenderHeartbeat
from engine.append.lifeline import Lifeline
from engine.append.output_dir import OutputDir
from engine.errors import CrawlError, Fenced
from engine.runtime import log_dedup
from engine.runtime.process_identity import identity_of
from engine.settings import Settings
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.schema import CRAWL
from engine.store.tables import nodes, runs

BEATS_DIR = "beats"
_RETRY_SECONDS = 0.05
_log = logging.getLogger("appender")


def main(argv: Sequence[str]) -> int:
    """Run the process. Returns 0 after a drain or the supervisor's end, 3 where it is fenced or cannot go on.

    The first line of stdin is the JSON of the settings; stdin stays open for as long as the supervisor lives.
    """
    log_dedup.log_to_stderr()
    parser = argparse.ArgumentParser(prog="engine.append", description="Write the rows of a run to its outputs.")
    parser.add_argument("--data", type=Path, required=True, help="the data dir")
    parser.add_argument("--run", type=int, required=True, help="the run's number")
    parser.add_argument("--epoch", type=int, required=True, help="the epoch of this appender")
    parser.add_argument("--supervisor", type=int, required=True, help="the epoch of its supervisor")
    asked = parser.parse_args(argv)
    lifeline = Lifeline()
    lifeline.install_signal_handlers()
    try:
        settings = lifeline.read_first_line()
        if lifeline.supervisor_gone:
            return 0
        Settings.from_json(settings)  # what cannot be read is told now; no setting changes how rows are written
        lifeline.watch()
        _serve(asked.data, asked.run, asked.epoch, lifeline)
    except CrawlError as problem:
        _log.error("%s", problem)
        return problem.exit_code
    except Exception:
        _log.exception("the appender cannot go on; what it wrote so far is recorded, and the next one continues")
        return 3
    return 0


def _serve(data: Path, run_seq: int, epoch: int, lifeline: Lifeline) -> None:
    db = Database.open(data / CRAWL, busy_seconds=5)
    pulse = AppenderHeartbeat(data / BEATS_DIR / f"a{epoch}", lifeline)
    pulse.start()
    try:
        if not _register(db, epoch, pulse, lifeline):
            return
        run = runs.get(db, run_seq)
        folder = OutputDir(data, run.id)
        while not folder.try_lock():
            if lifeline.supervisor_gone:
                return
            _check_epoch(db, epoch)
            pulse.pause(_RETRY_SECONDS)
        _link_latest(folder)
        appender = AppenderLoop(db, run, epoch, folder.path, pulse, lifeline)
        try:
            appender.run()
        finally:
            appender.close()
            folder.close()
    finally:
        pulse.stop()
        db.close()


def _register(db: Database, epoch: int, pulse: AppenderHeartbeat, lifeline: Lifeline) -> bool:
    """Say who it is, however long the database is busy; False: the supervisor has gone meanwhile."""
    pid = os.getpid()
    while not lifeline.supervisor_gone:
        try:
            with db.transaction():
                known = nodes.register_appender(db, epoch, pid, identity_of(pid) or "")
        except DatabaseBusy as busy:
            pulse.problem = busy.message
            pulse.pause(_RETRY_SECONDS)
            continue
        pulse.problem = ""
        if not known:
            raise Fenced(f"appender {epoch}: its epoch is over", "The supervisor that asked for it has ended.")
        return True
    return False


def _check_epoch(db: Database, epoch: int) -> None:
    if not nodes.is_appender_alive(db, epoch):
        raise Fenced(f"appender {epoch}: ended while it waited for the outputs", "Another one writes the rows.")


def _link_latest(folder: OutputDir) -> None:
    try:
        folder.link_latest()
    except OSError as problem:
        _log.warning("output/latest cannot lead to %s: %s", folder.path, problem)

"""The appender process: registers, locks the outputs of its run, and writes them until it is stopped."""

import gc
import logging
import os
import socket
from pathlib import Path

from crawl_engine.append.loop.appender import AppenderLoop
from crawl_engine.append.loop.chosen_outputs import BuiltInOutputs, OtherLoops
from crawl_engine.append.loop.heartbeat import AppenderHeartbeat
from crawl_engine.append.loop.lifeline import Lifeline
from crawl_engine.append.loop.output_dir import OutputDir
from crawl_engine.append.loop.turns import LoopContext
from crawl_engine.errors import CrawlError, Fenced
from crawl_engine.processes.launcher import SupervisorSocket, TemplateLink
from crawl_engine.processes.start import ChildStart
from crawl_engine.runtime import log_file
from crawl_engine.runtime.process_identity import identity_of
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import Database, DatabaseBusy, connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import nodes, runs

BEATS_DIR = "beats"
_RETRY_SECONDS = 0.05
_log = logging.getLogger("appender")


def main(start: ChildStart) -> int:
    """Run the process. Returns 0 after a drain or the supervisor's end, 3 if it is fenced or fails."""
    log_file.log_to_stderr()
    gc.freeze()
    gc.enable()
    arguments = start.arguments
    link = TemplateLink(socket.socket(fileno=start.files["template"]))
    lifeline = Lifeline(SupervisorSocket(start.files["lifeline"], link))
    lifeline.install_signal_handlers()
    try:
        parsed = Settings.from_json(arguments["settings"])
        lifeline.watch()
        _serve(Path(arguments["data"]), arguments["run"], arguments["epoch"], lifeline, parsed, link)
    except CrawlError as error:
        _log.error("%s", error)
        return error.exit_code
    except Exception:
        _log.exception("the appender failed; its progress is recorded, and the next one continues")
        return 3
    return 0


def _serve(data: Path, run_seq: int, epoch: int, lifeline: Lifeline, settings: Settings, link: TemplateLink) -> None:
    db = connect(data / CRAWL, busy_seconds=5)
    heartbeat = AppenderHeartbeat(data / BEATS_DIR / f"a{epoch}", lifeline)
    heartbeat.start()
    try:
        if not _register(db, epoch, heartbeat, lifeline):
            return
        run = runs.get(db, run_seq)
        folder = OutputDir(data, run.id, runs.list_done_ids(db))
        while not _try_lock(folder, heartbeat):
            if lifeline.supervisor_gone:
                return
            _check_epoch(db, epoch)
            heartbeat.pause(_RETRY_SECONDS)

        def create_loops() -> OtherLoops:
            from crawl_engine.append.send.output_loops import OutputLoops  # most runs save these imports

            return OutputLoops(data, run, epoch, settings, heartbeat, lifeline, link)

        outputs = BuiltInOutputs(create_loops)
        loop = LoopContext(db, data, run, epoch, heartbeat, lifeline)
        appender = AppenderLoop(loop, folder, outputs, whole_every=settings.output_every)
        try:
            appender.run()
            outputs.wait_drained()
        finally:
            outputs.close()
            appender.close()
            folder.close()
    finally:
        heartbeat.stop()
        db.close()


def _register(db: Database, epoch: int, heartbeat: AppenderHeartbeat, lifeline: Lifeline) -> bool:
    """Register this process, however long the database is busy; False if the supervisor is gone meanwhile."""
    pid = os.getpid()
    while not lifeline.supervisor_gone:
        try:
            with db.transaction():
                registered = nodes.register_appender(db, epoch, pid, identity_of(pid) or "")
        except DatabaseBusy as busy:
            heartbeat.problem = busy.message
            heartbeat.pause(_RETRY_SECONDS)
            continue
        heartbeat.problem = ""
        if not registered:
            raise Fenced(f"appender {epoch}: its epoch is over", "Its supervisor has ended.")
        return True
    return False


def _check_epoch(db: Database, epoch: int) -> None:
    if not nodes.is_appender_alive(db, epoch):
        raise Fenced(f"appender {epoch}: ended while it waited for the outputs", "Another appender writes the rows.")


def _try_lock(folder: OutputDir, heartbeat: AppenderHeartbeat) -> bool:
    """Lock the folder; a full disk delays it."""
    try:
        locked = folder.try_lock()
    except OSError as error:
        heartbeat.problem = f"{folder.path}: {error.strerror}"
        return False
    heartbeat.problem = ""
    return locked

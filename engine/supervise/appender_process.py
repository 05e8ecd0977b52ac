"""The appender's keeper: the one writer of files is started, watched, started again, told to finish, buried."""

import time
from pathlib import Path

from engine.model.node import Heart, NodeState, Role
from engine.runtime.process_identity import identity_of
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.tables import events, nodes
from engine.store.tables.events import Event, Level
from engine.supervise.child_process import CRASH_LIMIT, HEALTHY_SECONDS, Child, pause_after, spawn


class Scribe:
    """The appender process of one supervisor."""

    def __init__(self, db: Database, folder: Path, *, run: int, supervisor: int, settings: Settings) -> None:
        self._db = db
        self._folder = folder
        self._run = run
        self._supervisor = supervisor
        self._settings = settings
        self.child: Child | None = None
        self._due: float | None = None
        self._crashes = 0
        self._trouble = ""
        self.given_up: str | None = None
        """Why no appender is started any more."""

    def start(self) -> None:
        """Write its row, then start its process. Raises Busy, with nothing begun."""
        with self._db.transaction():
            epoch = nodes.insert_appender(self._db, self._run, self._supervisor, time.time())
        process = spawn(
            "engine.append",
            ["--data", str(self._folder), "--run", str(self._run), "--epoch", str(epoch), "--supervisor",
             str(self._supervisor)],
            first_line=self._settings.to_json(),
            log=self._folder / "logs" / "appender.log",
        )  # fmt: skip
        beat = self._folder / "beats" / f"a{epoch}"
        self.child = Child("appender", epoch, 0, Role.RUNNER, process, beat, time.monotonic())
        self._due = None
        self._db.leisurely(lambda: nodes.appender_spawned(self._db, epoch, process.pid, identity_of(process.pid)))

    def watch(self) -> None:
        """Bury it where it ended or hangs, and start it again when its pause is over."""
        now = time.monotonic()
        child = self.child
        if child is None:
            if self._due is not None and self._due <= now:
                self.start()
            return
        code = child.ended()
        if code is None and (child.look(now) is Heart.ASYSTOLE or child.hung):
            child.hung = child.hung or f"no beat for {child.pulse.age(now):.1f} s; killed"
            code = child.put_down()
        if code is None:
            return
        crashes = 1 if now - child.started_at >= HEALTHY_SECONDS else self._crashes + 1
        final = crashes >= CRASH_LIMIT
        how = child.hung or f"died: {code}"
        with self._db.transaction():
            nodes.end_appender(self._db, child.epoch, NodeState.FAILED if final else NodeState.DEAD, time.time())
            self._tell("ERROR", f"appender {how}" + ("" if final else "; it is started again"))
        self._bury()
        self._crashes = crashes
        if final:
            self.given_up = "the appender ends again and again: see data/logs/appender.log"
        else:
            self._due = now + pause_after(crashes)

    def drain(self) -> bool:
        """While stopping: tell it to write what is left; True once it has. One that dies is started again."""
        child = self.child
        if child is not None and child.ended() == 0 and child.told_to_stop:
            self.end(NodeState.TERMINATED)
            return True
        self.watch()
        if self.child is not None and not self.child.told_to_stop and self.child.pulse.born:
            self.child.stop()
        return self.given_up is not None or (self.child is None and self._due is None)

    def end(self, state: NodeState) -> None:
        """It ended, and nothing succeeds it: write it down."""
        if self.child is not None:
            with self._db.transaction():
                nodes.end_appender(self._db, self.child.epoch, state, time.time())
            self._bury()
        self._due = None

    def copy_beat(self) -> None:
        """Write what its beat says, inside the open transaction."""
        if self.child is None or self.child.pulse.beat is None:
            return
        pulse = self.child.pulse
        nodes.appender_beaten(self._db, self.child.epoch, pulse.age(time.monotonic()), self.child.pulse.beat.flush_ms)
        trouble = self.child.pulse.beat.now
        if trouble != self._trouble:
            self._tell("ERROR" if trouble else "INFO", trouble or "the outputs can be written again", "appender")
            self._trouble = trouble

    def _bury(self) -> None:
        if self.child is not None:
            self.child.bury()
            self.child = None

    def _tell(self, level: Level, text: str, kind: str = "node") -> None:
        source = "appender" if kind == "appender" else "supervisor"
        events.add(self._db, self._run, [Event(time.time(), level, source, kind, text)])

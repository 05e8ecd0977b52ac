"""Runs one thread for each appender that the main loop leaves out: it delays its own outputs alone."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from crawl_engine.append.formats.writer import Writer, create_writer
from crawl_engine.append.loop.appender import AppenderLoop
from crawl_engine.append.loop.chosen_outputs import WholeOutputs, loop_kind
from crawl_engine.append.loop.heartbeat import AppenderHeartbeat
from crawl_engine.append.loop.lifeline import Lifeline, LoopControl
from crawl_engine.append.loop.output_dir import OutputDir
from crawl_engine.append.loop.turns import GIVE_UP_SECONDS, LoopContext
from crawl_engine.append.send.class_process import ClassProcess
from crawl_engine.append.send.command_sender import CommandSender
from crawl_engine.append.send.delivery import DeliveryLoop
from crawl_engine.append.send.delivery_batch import DeliveryBatch, DeliveryTarget
from crawl_engine.append.send.plugin_encoder import EncodedOutput, class_spec
from crawl_engine.model.output_type import CHANGES_OF
from crawl_engine.model.step import PluginFile
from crawl_engine.plugins.files import PLUGINS, resolve_arguments
from crawl_engine.processes.launcher import TemplateLink
from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.output.outputs import Output
from crawl_engine.store.tables.run import runs, versions
from crawl_engine.store.tables.run.runs import Run

_Key = tuple[str, ...]
_WAIT_SECONDS = 0.05
_STOP_SECONDS = 2.0


class OutputLoops(Struct):
    """The loops of one appender process besides its own.

    A plugin encoder has one for each file; a plugin appender, and a sender, one for all its dataDefs.
    """

    data: Path
    run: Run
    epoch: int
    settings: Settings
    heartbeat: AppenderHeartbeat
    lifeline: Lifeline
    link: TemplateLink
    _threads: "dict[_Key, _LoopThread]" = {}

    def sync(self, declared: Sequence[Output]) -> None:
        """Start and stop loops, so that each of these outputs has one. Raises the error that ended a loop."""
        self._raise_failures()
        keys = {_key_of(output) for output in declared}
        for key in [key for key in self._threads if key not in keys]:
            thread = self._threads.pop(key)
            thread.control.stop()
            self.heartbeat.remove_part(thread.control)
        for key in keys - self._threads.keys():
            self._start(key)

    def wait_drained(self) -> None:
        """Wait until all loops are drained, or the supervisor is gone. Raises the error that ended a loop."""
        while any(thread.is_alive for thread in self._threads.values()) and not self.lifeline.supervisor_gone:
            self.heartbeat.tick()
            self.lifeline.wait(_WAIT_SECONDS)
            self._raise_failures()
        self._raise_failures()

    def close(self) -> None:
        """End all loops. One that hangs dies with this process."""
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads.values():
            thread.control.stop()
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _raise_failures(self) -> None:
        for thread in self._threads.values():
            if thread.failure is not None:
                raise thread.failure

    def _start(self, key: _Key) -> None:
        control = LoopControl(self.lifeline)
        self.heartbeat.add_part(control)
        self._threads[key] = _LoopThread("/".join(key[1:]), control, partial(self._run_loop, key, control))

    def _run_loop(self, key: _Key, control: LoopControl) -> None:
        db = connect(self.data / CRAWL, busy_seconds=5)
        with contextlib.closing(db):
            give_up = self.settings.send_drain if key[0] in ("sender", "object") else GIVE_UP_SECONDS
            loop = LoopContext(db, self.data, self.run, self.epoch, control, control, give_up)
            targets = _TargetFactory(loop, control, self.settings, self.link)
            if key[0] in ("encoder", "whole", "object"):
                chosen: EncodedOutput | WholeOutputs = WholeOutputs(key[1], key[0], partial(_create_writer, loop))
                if key[0] == "encoder":
                    chosen = EncodedOutput(key[1], key[2], targets.create_process)
                folder = OutputDir(self.data, self.run.id)  # not locked: the process has the lock
                encoding = AppenderLoop(loop, folder, chosen, whole_every=self.settings.output_every)
                with contextlib.closing(chosen), contextlib.closing(encoding):
                    encoding.run()
                return
            with contextlib.closing(DeliveryLoop(loop, key[1], targets.create)) as delivery:
                delivery.run()


class _TargetFactory(Struct, frozen=True):
    """Creates processes of classes and targets of rows, with the plugin files of the current defs."""

    loop: LoopContext
    stop: LoopControl
    settings: Settings
    link: TemplateLink

    def create_process(self, type_: str, output: str, declared: Sequence[Output]) -> ClassProcess:
        """The process of a class, for outputs that differ only in their dataDefs."""
        spec = class_spec(type_, declared, limit=self.settings.parse_limit, memory=self.settings.parse_memory)
        return ClassProcess(spec, self.link, output, self._load_files, self.stop)

    def create(self, type_: str, output: str, declared: Sequence[Output]) -> DeliveryTarget:
        """The target of the rows of these outputs, which differ only in their dataDefs."""
        settings = declared[0].settings
        limit = settings["limit"] or self.settings.deadline
        match type_:
            case "http":
                from crawl_engine.append.send.http_sender import (
                    HttpSender,  # httpx takes long to import: other runs save it
                )

                return HttpSender(settings["url"], settings["headers"], limit=limit, stop=self.stop)
            case "postgresql":
                from crawl_engine.append.send.postgres import PostgresTarget  # psycopg is an extra
                from crawl_engine.append.send.postgres_table import PostgresTable
                from crawl_engine.append.send.sent_rows import SentRows

                source = SentRows(self.loop.db, self.loop.data, runs.get(self.loop.db, self.loop.run.seq), output)
                tables = {each.data_def: PostgresTable(each.data_def, each.settings) for each in declared}
                return PostgresTarget(
                    settings["url"], tables, source, epoch=self.loop.epoch, limit=limit, stop=self.stop
                )
            case "command":
                load = partial(self._load_arguments, settings["run"])
                return CommandSender(output, self.link, load, limit=limit, stop=self.stop)
        return _ClassTarget(self.create_process(type_, output, declared))

    def _load_arguments(self, run: Sequence[str]) -> list[str]:
        return resolve_arguments(run, self._load_files(), self.loop.data / PLUGINS)

    def _load_files(self) -> Sequence[PluginFile]:
        with self.loop.db.snapshot():
            return versions.read(self.loop.db, runs.get(self.loop.db, self.loop.run.seq).defs_version or 0).plugins


class _ClassTarget:
    """Delivers to a plugin appender."""

    def __init__(self, process: ClassProcess) -> None:
        self._process = process

    def deliver(self, batch: DeliveryBatch, data_def: str) -> None:
        self._process.ask("append", batch.lines, data_def)

    def close(self) -> None:
        self._process.close()


def _create_writer(loop: LoopContext, output: Output, *, run: str, folder: Path) -> Writer:
    """The writer of an output of any type."""
    if output.type not in CHANGES_OF.values():
        return create_writer(output, run=run, folder=folder)
    from crawl_engine.append.changes_writer import create_changes_writer  # few runs need it

    return create_changes_writer(output, loop=loop, folder=folder)


class _LoopThread:
    """One loop in its thread."""

    def __init__(self, name: str, control: LoopControl, work: Callable[[], None]) -> None:
        self.control = control
        self.failure: Exception | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.failure = error


def _key_of(output: Output) -> _Key:
    kind = loop_kind(output)
    return (kind, output.appender, output.data_def) if kind == "encoder" else (kind, output.appender)

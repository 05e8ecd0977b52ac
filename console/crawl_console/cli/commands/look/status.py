"""The command `status`: shows the latest run, whether a supervisor works it or not."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from msgspec.structs import replace

from crawl_console.cli.options import FilePath, common_options, run_option
from crawl_console.cli.output import write_json, write_lines
from crawl_console.format import (
    describe_browsers,
    describe_eta,
    describe_pause,
    describe_seeding,
    describe_state,
    format_signal,
    list_names,
    plural,
)
from crawl_engine.errors import StorageError, UsageError

if TYPE_CHECKING:
    from crawl_console.crawl.servers import ServerRow
    from crawl_engine.model.run import HostGroup
    from crawl_engine.store.read.snapshot import Snapshot

_CODES_SHOWN = ("defs-rejected", "defs-saved", "jobs-ready", "run-failed")
"""Alarms that have lines of their own."""
_MAX_SIGNAL_HOSTS = 4
_MAX_ENDED_NODES = 4
"""Ended nodes that are listed if no node is alive."""


@click.command()
@click.argument("folders", metavar="[--all DIR...]", type=FilePath(), nargs=-1)
@click.option("--all", "several", is_flag=True, help="Show the latest run of each DIR, a data directory, in one line.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the whole snapshot as one JSON object; of --all, one per line."
)
@run_option
@common_options("data")
@click.pass_context
def status(
    context: click.Context, /, folders: Sequence[Path], several: bool, as_json: bool, run_id: str | None, data: Path
) -> int:  # fmt: skip
    """Show the run as the console does."""
    if not several:
        if folders:
            raise UsageError(f"status {folders[0]}: no such argument", "Write --data DIR, or --all DIR… for several.")
        return print_status(data, run_id, as_json=as_json)
    if run_id is not None or context.get_parameter_source("data") is ParameterSource.COMMANDLINE:
        raise UsageError("status: --all excludes --run and --data", "Name the data directories behind --all.")
    if not folders:
        raise UsageError("status --all: which data directories?", "Write `status --all DIR…`.")
    from crawl_console.cli.data_dirs import print_data_dirs

    return print_data_dirs(folders, as_json=as_json)


def print_status(data: Path, run_id: str | None = None, *, as_json: bool = False) -> int:
    """Print the latest run, or that of an id; returns the exit code."""
    from crawl_console.client import end_orphans, read_snapshot, supervisor_alarm, supervisor_pid
    from crawl_console.crawl.servers import list_servers
    from crawl_console.crawl.status import status_as_dict
    from crawl_engine.store.db.file_header import OtherDatabase

    try:
        view = read_snapshot(data)
    except OtherDatabase as error:
        raise StorageError(error.message, error.remedy) from error
    is_latest = run_id is None or (view.run is not None and view.run.id == run_id)
    if not is_latest:
        view = _read_earlier(data, run_id)
    elif supervisor_pid(view) is None:
        view = end_orphans(view)
    alarm = supervisor_alarm(data, view)
    if as_json:
        write_json(status_as_dict(view, alarm, list_servers(data)))
    else:
        servers = map(_server_line, list_servers(data))
        write_lines(*_alarm_lines(view, alarm), *_lines(view, is_latest=is_latest), *servers)
    return 0


def _read_earlier(data: Path, run_id: str | None) -> "Snapshot":
    """The snapshot of an earlier run, without alarms and what the living supervisor does. Raises UsageError."""
    from crawl_console.client import end_orphans, open_latest_run
    from crawl_engine.store.read import snapshot

    with open_latest_run(data, run_id=run_id) as (db, run):
        view = replace(
            snapshot.read(db, run=run.seq), epoch=None, machines=[], defs_problems=[], defs_saved=None, helpers=[]
        )
    return replace(end_orphans(view), alarms=[])  # nothing can be done about an earlier run


def _alarm_lines(view: "Snapshot", alarm: str | None) -> list[str]:
    """Alarms that have no other line below."""
    from crawl_console.client import list_alarms

    shown = {warning.text for warning in view.warnings}
    alarms = [one for one in list_alarms(view, alarm) if one.text not in shown and one.code not in _CODES_SHOWN]
    return [f"ALARM: {one.text}" for one in alarms]


def _lines(view: "Snapshot", *, is_latest: bool) -> list[str]:
    from crawl_console.cli.progress import report_lines
    from crawl_console.client import supervisor_pid
    from crawl_engine.judge.run_verdict import verdict_of
    from crawl_engine.store.read.data_warnings import HOST_WARNINGS

    run = view.run
    if run is None:
        return ["no run yet: start one with `crawl-console run`"]
    pid = supervisor_pid(view)
    leader = next((f"machine {machine.name} leads" for machine in view.machines if machine.leader), None)
    owner = leader or f"supervisor {pid}" if pid else "no supervisor"
    verdict = verdict_of(view, is_live=pid is not None).text
    paused = f"  PAUSED: {describe_pause(run.paused, view.paused_by)}" if run.paused else ""
    held = [
        plural(count, noun)
        for count, noun in ((view.paused_sequences, "sequence"), (view.paused_hosts, "host"))
        if count
    ]
    if held and not run.paused:
        names = f" ({', '.join(view.paused_names)})" if view.paused_names else ""
        paused = f"  PAUSED: {', '.join(held)}{names}"
    jobs = ", ".join(f"{count} {name}" for name, count in view.jobs.items())
    lines = [f"run {run.id}  {verdict}  stage {run.stage}  defs v{run.defs_version}  {owner}{paused}", jobs]
    lines.append(f"{view.running} running; answers: {view.bad_answers} bad ({view.blocked} blocked), {view.gone} gone")
    if pid is not None and run.state.is_open:
        lines.append(f"ETA {describe_eta(run.eta)}")
        lines += _host_lines(run.judgement.hosts)
    if view.seeding is not None:
        lines.append(describe_seeding(view.seeding))
    if view.reextraction is not None:
        done, left = view.reextraction
        lines.append(f"re-extracting stored pages: {done:,} done, at least {left:,} left")
    if view.defs_problems:
        lines.append("the defs on disk have problems and are not in force:")
        lines += [f"  {p['file']}:{p['line']}:{p['col']}: {p['code']} {p['message']}" for p in view.defs_problems]
    if view.defs_saved is not None and pid is not None:
        lines.append(f"defs saved, not published: {view.defs_saved['text']}")
    told = {(alarm.code, alarm.host) for alarm in view.alarms if alarm.code in HOST_WARNINGS}
    lines += [f"WARNING {warning.text}" for warning in view.warnings if (warning.code, warning.host) not in told]
    if pid is None and run.state != "DONE" and is_latest:
        lines.append("`crawl-console run` resumes it")
    if pid is not None:
        lines += [f"  helper {h.name}: {h.state}, {plural(h.restarts, 'restart')}" for h in view.helpers]
    if view.machines:
        width = max(len(m.name) for m in view.machines) + 2
        lines += [
            f"  machine {m.name:<{width}}{m.role:<9}beat {m.heart:g} s ago  {plural(m.nodes, 'node')}  {m.done} done"
            for m in view.machines
        ]
        lines.append(f"  database answers in {view.lag * 1000:.0f} ms")
    for n in [n for n in view.nodes if n.pid] or view.nodes[-_MAX_ENDED_NODES:]:
        heart = n.heart if n.pid else "ended"
        lines.append(f"  {n.id:<5}{n.role:<15}{n.word:<11}{heart:<15}{n.done:>8} done {n.failed:>5} failed")
        lines += [f"    {line}" for line in describe_browsers(n.browsers)]
    lines += [
        f"  {s.group} on {s.host}: {s.ready} ready, {s.delayed} delayed, {s.taken} taken,"
        f" {s.done} done, {s.failed} failed, {s.skipped} skipped,"
        f" {s.incomplete} incomplete{'  PAUSED' if s.paused else ''}"
        for s in view.sequences
    ]
    for a in view.appenders:
        lines.append(f"  {a.name}: {plural(a.rows, 'row')}, {a.bytes} bytes  {a.path}".rstrip())
        lines += [f"    cannot be written, backlog {a.backlog}: {a.error}"] if a.error else []
    return [*lines, *_signal_lines(view), *report_lines(view)]


def _server_line(server: "ServerRow") -> str:
    """Who watches over HTTP: `  served at http://127.0.0.1:8787 with control, to web 127.0.0.1 (2 streams), socket`."""
    clients = [
        f"{one.address} ({plural(one.listening, 'stream')})" if one.listening else one.address for one in server.clients
    ]
    places = " and ".join(filter(None, (server.url, server.socket)))
    return f"  served at {places}{' with control' if server.control else ''}, to {', '.join(clients) or 'nobody now'}"


def _host_lines(groups: "Sequence[HostGroup]") -> list[str]:
    """How the hosts are: `hosts: 2 ok; 3 refused: a.example:443, b.example:443, c.example:443`."""
    named = [f"{group.count:,} {describe_state(group.state)}{_names_of(group)}" for group in groups]
    return [f"hosts: {'; '.join(named)}"] if named else []


def _names_of(group: "HostGroup") -> str:
    return "" if group.state in ("ok", "finished") else f": {list_names(group)}"


def _signal_lines(view: "Snapshot") -> list[str]:
    """What the robots.txt of the hosts say of the use of pages: a line for each text, with its first hosts."""
    hosts: dict[str, list[str]] = {}
    for host in view.hosts:
        if host.content_signal:
            hosts.setdefault(format_signal(host.content_signal), []).append(host.host)
    return [
        f"  Content-Signal {text}: {', '.join(names[:_MAX_SIGNAL_HOSTS])}"
        + (f" and {len(names) - _MAX_SIGNAL_HOSTS} more" if len(names) > _MAX_SIGNAL_HOSTS else "")
        for text, names in hosts.items()
    ]

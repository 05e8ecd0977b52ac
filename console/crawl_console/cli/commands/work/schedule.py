"""The command `schedule`: starts crawls at times by systemd, cron or Kubernetes, and lists them."""

import datetime
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawl_console.cli.options import (
    Nodes,
    Number,
    arguments_option,
    common_options,
    defs_option,
    hide_passwords,
    lines_option,
    load_defs,
)
from crawl_console.cli.output import write_json, write_lines, write_stderr
from crawl_console.format import align_columns, format_count, format_date_time
from crawl_engine.errors import CrawlError, UsageError, one_line

if TYPE_CHECKING:
    from crawl_console.schedule.schedule import KnownSchedule, Schedule
    from crawl_engine.model.definition import Definitions
    from crawl_engine.model.node import NodeRange
    from crawl_engine.settings import Settings

_KINDS = ("systemd", "cron", "kubernetes")
_USER_COMMANDS = ("on_start", "on_end", "on_alarm")
_HEADINGS = ("NAME", "AT", "NEXT", "LAST RUN", "STATE", "EXIT", "PAGES", "FAILED", "ROWS", "DATA")


@click.command()
@click.argument("name", required=False)
@click.option("--at", metavar="SPEC", help="When: hourly, 03:30, 'Mon,Thu 06:00', monthly, '*/15 * * * *'; local.")
@click.option("--fresh", is_flag=True, help="Each start begins a new run; without it, an unfinished run is resumed.")
@click.option("--only-new", is_flag=True, help="Write only rows that no earlier run has.")
@click.option("--max-pages", type=Number(), metavar="N", help="Stop gracefully after N requests for pages.")
@click.option("--nodes", type=Nodes(), metavar="N", help="Node processes: a number, or a range such as 1-4.")
@click.option("--systemd", is_flag=True, help="A timer and its units: of the machine for root, else of the user.")
@click.option("--cron", is_flag=True, help="A line of crontab.")
@click.option("--kubernetes", is_flag=True, help="A CronJob.")
@click.option("--install", is_flag=True, help="Put it in force.")
@click.option("--print", "print_", is_flag=True, help="Print it, and change nothing; the default.")
@click.option("--list", "list_", is_flag=True, help="List the schedules of this user, their last runs and next starts.")
@defs_option
@arguments_option
@lines_option
@common_options("data", "assigned")
def schedule(
    name: str | None, at: str | None, fresh: bool, install: bool, print_: bool, list_: bool, defs: Path,
    arguments: dict[str, str], as_json: bool, data: Path, assigned: dict[str, str], only_new: bool,
    max_pages: int | None, nodes: "NodeRange | None", **kinds: bool,
) -> int:  # fmt: skip
    """Start the crawl of this folder at times, or list what is scheduled."""
    chosen = [kind for kind in _KINDS if kinds[kind]]
    words = [*(["--fresh"] if fresh else []), *(["--only-new"] if only_new else [])]
    words += ["--max-pages", str(max_pages)] if max_pages is not None else []
    words += ["--nodes", str(nodes)] if nodes is not None else []
    if list_:
        if name or at or chosen or install or print_ or words:
            raise UsageError("schedule --list takes no other option but --json", "It lists all schedules.")
        return _list(as_json=as_json)
    if as_json:
        raise UsageError("schedule: --json is of --list", "Leave it out.")
    if name is None or at is None:
        missing = "which NAME?" if name is None else "when? Give --at"
        raise UsageError(f"schedule: {missing}", 'Write for example `schedule shop --at "Mon 03:30" --systemd`.')
    if len(chosen) != 1:
        raise UsageError(
            f"schedule: {' and '.join(f'--{kind}' for kind in chosen) or 'neither'}: who starts it?",
            "Give one of --systemd, --cron, --kubernetes.",
        )
    if install and print_:
        raise UsageError("schedule: --install and --print exclude each other", "--print changes nothing.")
    wanted = _build(name, at, defs, data, assigned, arguments, words, kind=chosen[0])
    return _install(chosen[0], wanted) if install else _print(chosen[0], wanted)


def _build(
    name: str, at: str, defs: Path, data: Path, assigned: dict[str, str], arguments: dict[str, str],
    words: Sequence[str], *, kind: str,
) -> "Schedule":  # fmt: skip
    """The schedule; defs and settings must be in order. Raises UsageError, DefsError."""
    from crawl_console.schedule import cron, systemd
    from crawl_console.schedule.schedule import Schedule, check_commands, check_name, check_words, find_program
    from crawl_console.schedule.times import parse_times

    check_name(name)
    times = parse_times(at)
    definitions, settings = load_defs(defs, assigned, arguments)
    words = [*words, *(w for n, v in assigned.items() for w in ("--set", f"{n}={v}"))]
    words += [word for n, v in arguments.items() for word in ("-a", f"{n}={v}")]
    urls = {"base_url": settings.base_url, "store": settings.store, "notify": assigned.get("notify")}
    kept, hidden = hide_passwords(words, urls)
    if kept != words:
        raise UsageError(
            f"schedule: a secret in --set {', '.join(n.removeprefix('CRAWL_').lower() for n in hidden)}",
            "Every user could read it. Write the setting into crawl.toml, or the variable into crawl.env.",
        )
    made = Schedule(
        name=name, times=times, folder=Path.cwd(), data=data.absolute(), defs=defs.absolute(), program=find_program(),
        options=tuple(words), writable=tuple(_output_folders(definitions)),
        has_loaders=any(group.loader is not None for group in definitions.task_groups),
        stop_seconds=settings.stop_seconds,
    )  # fmt: skip
    check_words([str(made.folder), *made.command, *map(str, made.writable)])
    search_path = {"cron": cron.SEARCH_PATH, "systemd": systemd.SEARCH_PATH}.get(kind)
    if search_path is not None:  # a container has its own
        commands = {name: getattr(settings, name) for name in _USER_COMMANDS}
        check_commands(made, commands, search_path)
    _warn_of_environment(settings)
    return made


def _output_folders(definitions: "Definitions") -> Iterator[Path]:
    """The folders of outputs with absolute paths."""
    from crawl_engine.model.output_type import is_object

    for appender in definitions.appenders:
        if appender.path is not None and not is_object(appender.path) and Path(appender.path).is_absolute():
            folder = Path(appender.path).parent
            yield next(one for one in (folder, *folder.parents) if "{" not in str(one))


def _warn_of_environment(settings: "Settings") -> None:
    """Say which variables of this shell a scheduled run will not have."""
    names = [f"CRAWL_{name.upper()}" for name in settings.__struct_fields__ if f"CRAWL_{name.upper()}" in os.environ]
    if names:
        write_stderr(f"not in the schedule: {', '.join(names)} of this shell; write them into crawl.env beside it")


def _print(kind: str, wanted: "Schedule") -> int:
    from crawl_console.schedule import cron, kubernetes
    from crawl_console.schedule.systemd import Manager

    if kind == "systemd":
        manager = Manager()
        if reason := manager.missing():
            write_stderr(f"{reason}: these units are for another machine")
        for path, text in manager.render(wanted).items():
            write_lines(f"# {path}", *text.split("\n"))
        return 0
    text = cron.render(wanted) if kind == "cron" else kubernetes.render(wanted)
    write_lines(*text.removesuffix("\n").split("\n"))
    return 0


def _install(kind: str, wanted: "Schedule") -> int:
    from crawl_console.schedule import cron, kubernetes
    from crawl_console.schedule.systemd import Manager

    notes = {"systemd": Manager().install, "cron": cron.install, "kubernetes": kubernetes.install}[kind](wanted)
    next_at = wanted.times.next_after(datetime.datetime.now()).timestamp()
    write_lines(f"{wanted.name}: {wanted.times}, next {format_date_time(next_at)[:16]}", *(f"  {n}" for n in notes))
    return 0


def _list(*, as_json: bool) -> int:
    from crawl_console.schedule import cron
    from crawl_console.schedule.systemd import Manager

    folders = dict.fromkeys([True, os.geteuid() == 0])
    known = [*(one for is_system in folders for one in Manager(is_system=is_system).list_installed())]
    known += cron.list_installed()
    if not known and not as_json:
        write_stderr("nothing is scheduled; see `crawl-console schedule --help`")
    lines = [_read_line(one) for one in known]
    if as_json:
        write_json(*lines)
    elif lines:
        write_lines(*align_columns([_HEADINGS, *map(_cells, lines)]))
    return 3 if any(line["error"] for line in lines) else 0


def _read_line(known: "KnownSchedule") -> dict[str, Any]:
    """The object of `schedule --list --json`."""
    from crawl_engine.extract.page.context import format_utc

    next_at = known.times.next_after(datetime.datetime.now()).timestamp()
    line: dict[str, Any] = {
        "name": known.name, "at": str(known.times), "next": format_utc(next_at), "place": known.place,
        "folder": known.folder, "data": str(known.data), "run": None, "state": None, "reason": None, "begun": None,
        "ended": None, "exit_code": None, "done": 0, "failed": 0, "rows": 0, "failed_commands": {}, "error": None,
        "verdict": None,
    }  # fmt: skip
    try:
        return line | _read_last_run(known.data)
    except (CrawlError, OSError) as error:
        return line | {"error": one_line(error.message if isinstance(error, CrawlError) else str(error))}


def _read_last_run(data: Path) -> dict[str, Any]:
    """The latest run of a data dir, as `runs` lists it, and its exit code; empty without one."""
    import contextlib

    from crawl_console.cli.commands.data.runs import judge_runs, run_as_dict
    from crawl_console.client import open_database
    from crawl_engine.store.read.history import list_runs
    from crawl_engine.store.tables.run import runs

    db = open_database(data)
    if db is None:
        return {}
    with contextlib.closing(db):
        for past, verdict in judge_runs(db, list_runs(db, 1)):
            shown = run_as_dict(past, verdict)
            kept = ("run", "state", "reason", "begun", "ended", "done", "failed", "rows", "exit_code", "verdict")
            return {name: shown[name] for name in kept} | {
                "failed_commands": runs.list_failed_commands(db, past.seq),
            }
    return {}


def _cells(line: dict[str, Any]) -> Sequence[str]:
    next_at = _local(line["next"])
    if line["error"] or line["run"] is None:
        verdict = f"error: {line['error']}" if line["error"] else "no run yet"
        return [line["name"], line["at"], next_at, verdict, "", "", "", "", "", line["data"]]
    code = "" if line["exit_code"] is None else str(line["exit_code"])
    code += "".join(f", {setting} failed" for setting in line["failed_commands"])
    return [
        line["name"], line["at"], next_at, _local(line["begun"]), line["verdict"]["word"], code,
        *(format_count(line[name]) for name in ("done", "failed", "rows")), line["data"],
    ]  # fmt: skip


def _local(text: str) -> str:
    return format_date_time(datetime.datetime.fromisoformat(text).timestamp())[:16]

"""A timer of systemd with its service, and the service that mails its failures."""

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from crawl_console.schedule.schedule import (
    ENVIRONMENT_FILE,
    MARK,
    QUIET_CODES,
    KnownSchedule,
    Schedule,
    check_ours,
    read_mark,
    read_text,
    write_files,
)
from crawl_engine.errors import StorageError, UsageError

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH that systemd gives to a service."""
_SYSTEM = Path("/etc/systemd/system")
_RUNNING = Path("/run/systemd/system")
"""This folder exists where systemd runs the machine."""
_SECONDS = 30.0
_STOP_RESERVE = 5.0
_PLAIN = re.compile(r"[\w@%+=:,./~-]+", re.ASCII)
_MAIL_UNIT = "crawl-console-mail@.service"

_TIMER = """\
{mark}
[Unit]
Description=Starts the crawl {name}: {at}

[Timer]
{calendars}
Persistent=true

[Install]
WantedBy=timers.target
"""
_SERVICE = """\
{mark}
[Unit]
Description=The crawl {name}
{network}OnFailure=crawl-console-mail@%N.service

[Service]
Type=exec
{user}WorkingDirectory={folder}
EnvironmentFile=-{environment}
ExecStart={command}
# {codes}
SuccessExitStatus={success}
KillMode=mixed
TimeoutStopSec={stop:g}
OOMPolicy=continue
{hardening}"""
_MAIL = """\
{mark}{{}}
[Unit]
Description=Mails that %i failed

[Service]
Type=oneshot
Environment=MAILTO={recipient}
ExecStart=/bin/sh -c '{{ echo "To: $$MAILTO"; echo "Subject: %i failed on %H"; echo; \
systemctl{manager} status --full --lines=50 --no-pager "%i.service"; }} | "$$(command -v sendmail || \
echo /usr/sbin/sendmail)" -i -t'
{restrictions}"""
_MAIL_RESTRICTIONS = "PrivateTmp=yes\nProtectSystem=full\nProtectHome=read-only\n"
"""Of the machine alone: a manager of the user may have no rights to make them."""
_HARDENING = """\
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
PrivateDevices=yes
{private_tmp}ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={writable}
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
KeyringMode=private
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces={namespaces}
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service{calls}
"""
_LOADER_CALLS = " chroot"
"""The sandbox of a browser makes namespaces, and changes its root in them."""
_FILTERS = re.compile(r"^(?:Protect|Private|ReadWrite|Keyring|Capability|Ambient).*\n", re.MULTILINE)
"""What the manager of a user cannot restrict where users may not make namespaces."""


class Manager:
    """The systemd of the machine, for root, or of the user."""

    def __init__(self, *, is_system: bool | None = None) -> None:
        self.is_system = os.geteuid() == 0 if is_system is None else is_system
        config = os.environ.get("XDG_CONFIG_HOME") or str(Path("~").expanduser() / ".config")
        self.folder = _SYSTEM if self.is_system else Path(config) / "systemd" / "user"

    @property
    def _flags(self) -> list[str]:
        return [] if self.is_system else ["--user"]

    def missing(self) -> str | None:
        """Why no unit can be installed here; None if one can."""
        if shutil.which("systemctl") is None:
            return "systemd is not installed here: there is no systemctl"
        if not _RUNNING.is_dir():
            return f"systemd does not run this machine: there is no {_RUNNING}"
        return None

    def render(self, schedule: Schedule) -> dict[Path, str]:
        """The files of a schedule: timer, service, and the service for mail that all schedules share."""
        unit = f"crawl-console-{schedule.name}"
        folder = str(schedule.folder).replace("%", "%%")
        restricted = _HARDENING
        if not self.is_system:
            restricted = f"PrivateUsers=yes\n{_HARDENING}" if _makes_namespaces() else _FILTERS.sub("", _HARDENING)
        namespaces, calls = "yes", "\nSystemCallFilter=~@privileged"
        if schedule.has_loaders:
            namespaces, calls = "user pid net", _LOADER_CALLS
        writable = [schedule.folder, schedule.data, *schedule.writable, *self._state_folders(schedule)]
        service = _SERVICE.format(
            mark=schedule.mark,
            name=schedule.name,
            network="Wants=network-online.target\nAfter=network-online.target\n" if self.is_system else "",
            user=f"User={_owner_of(schedule.folder)}\n" if self.is_system else "",
            folder=folder,
            environment=f"{folder}/{ENVIRONMENT_FILE}",
            command=" ".join(map(quote, schedule.command)),
            codes="; ".join(f"{code}: {text}" for code, text in QUIET_CODES.items()),
            success=" ".join(map(str, QUIET_CODES)),
            stop=schedule.stop_seconds + _STOP_RESERVE,
            hardening=restricted.format(
                writable=" ".join(quote(f"-{path}", dollar="$") for path in dict.fromkeys(map(str, writable))),
                private_tmp="" if any(map(_is_temporary, writable)) else "PrivateTmp=yes\n",
                namespaces=namespaces,
                calls=calls,
            ),
        )
        timer = _TIMER.format(
            mark=schedule.mark,
            name=schedule.name,
            at=schedule.times,
            calendars="\n".join(f"OnCalendar={one}" for one in schedule.times.calendars),
        )
        mail = _MAIL.format(
            mark=MARK,
            recipient="root" if self.is_system else _user_name(os.geteuid()),
            manager="".join(f" {flag}" for flag in self._flags),
            restrictions=_MAIL_RESTRICTIONS if self.is_system else "",
        )
        return {
            self.folder / f"{unit}.timer": timer,
            self.folder / f"{unit}.service": service,
            self.folder / _MAIL_UNIT: mail,
        }

    def install(self, schedule: Schedule) -> list[str]:
        """Write the files and start the timer; returns notes for the user. Raises UsageError, StorageError."""
        if reason := self.missing():
            raise UsageError(reason, "Use --cron, or --print and copy the units to a machine that has it.")
        files = self.render(schedule)
        for path in files:
            if (text := read_text(path)) is not None:
                check_ours(schedule, text, str(path))
        for path in (schedule.data, *schedule.writable, *self._state_folders(schedule)):
            _make_folder(path, schedule.folder)
        write_files(files)
        unit = f"crawl-console-{schedule.name}.timer"
        self._call("daemon-reload")
        self._call("enable", "--now", unit)
        notes = [f"remove it: systemctl {' '.join([*self._flags, 'disable', '--now', unit])}, then delete the files"]
        if not self.is_system:
            notes.append("it runs while you are logged in; always: loginctl enable-linger")
        if shutil.which("sendmail", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
            notes.append("no sendmail here: failures are not mailed; the setting notify tells of them, too")
        return notes

    def list_installed(self) -> Iterator[KnownSchedule]:
        """The schedules whose timers are in the folder of units."""
        for path in sorted(self.folder.glob("crawl-console-*.timer")):
            if (text := read_text(path)) is not None and (known := read_mark(text, str(path))) is not None:
                yield known

    def _state_folders(self, schedule: Schedule) -> list[Path]:
        """Where the crawls of a user share the clock of hosts."""
        home = Path(pwd.getpwnam(_owner_of(schedule.folder)).pw_dir) if self.is_system else Path("~").expanduser()
        return [home / ".local" / "state" / "crawl-console"]

    def _call(self, *words: str) -> None:
        command = ["systemctl", *self._flags, *words]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.CalledProcessError as error:
            said = (error.stderr or error.stdout).strip() or f"exit code {error.returncode}"
            raise StorageError(
                f"{' '.join(command)}: {said}", "The files are written; run it again by hand."
            ) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StorageError(f"{' '.join(command)}: {error}", "The files are written; run it by hand.") from error


def quote(word: str, *, dollar: str = "$$") -> str:
    """A word of a command, for a unit file. In a list of paths, a `$` stays one."""
    text = word.replace("%", "%%").replace("$", dollar)
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_temporary(path: Path) -> bool:
    """Whether a private /tmp would hide this path."""
    return any(path.is_relative_to(folder) for folder in ("/tmp", "/var/tmp"))


def _owner_of(folder: Path) -> str:
    """The user that has a folder. Raises StorageError."""
    try:
        return _user_name(folder.stat().st_uid)
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}", "Start it in the folder of the crawl.") from error


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        raise UsageError(f"user {number} has no name on this machine", "Give the folder to a user.") from None


def _makes_namespaces() -> bool:
    """Whether this user may make namespaces, as the manager of a user must for most restrictions."""
    try:
        probe = ["unshare", "--user", "--map-root-user", "--mount", "true"]
        return subprocess.run(probe, capture_output=True, timeout=_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _make_folder(path: Path, model: Path) -> None:
    """Make a folder with the owner of another one: a unit refuses a path to write to that is missing."""
    owner = model.stat()
    missing: Sequence[Path] = [one for one in (path, *path.parents) if not one.exists()]
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in missing:
            os.chown(one, owner.st_uid, owner.st_gid)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "Make it by hand.") from error

"""What a child does to be safe: dies with its parent, closes files, limits its memory."""

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_WATCH_SECONDS = 0.5
_ARGUMENTS_START, _ENVIRONMENT_END = 45, 48
"""Field numbers in /proc/self/stat, counted from behind the command's closing parenthesis."""
_OPEN_MAX = 10_240
"""Most open files of a process on macOS, whatever its hard limit says."""
_M_ARENA_MAX, _M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -8, -1, -3
"""Options of glibc's mallopt."""


def die_with_parent(parent: int, *, watches: bool = False) -> None:
    """Have the system kill this process when its parent ends (Linux); exits at once if that has happened already.

    `watches`: on other systems a thread watches the parent; not for a process that forks.
    """
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    elif watches:
        threading.Thread(target=_watch_parent, args=(parent,), name="parent", daemon=True).start()
    if os.getppid() != parent:
        os._exit(0)


def set_process_name(name: str) -> None:
    """Set the name that `top` shows (Linux), at most 15 bytes."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()))


def set_command_line(text: str) -> None:
    """Set the command line that `ps` shows (Linux), cut to the length of the arguments and the environment."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = int(fields[_ARGUMENTS_START]), int(fields[_ENVIRONMENT_END])
        if start:  # 0: the system does not tell
            for name, value in os.environb.items():
                os.putenv(name, value)  # moves it: the text may need its place
            ctypes.memmove(start, os.fsencode(text)[: end - start - 1].ljust(end - start, b"\0"), end - start)


def limit_free_memory() -> None:
    """Have glibc give the memory of a huge page back to the system.

    The thresholds are not smaller, so that the memory for compressing a group of pages is used again by the next.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it, musl has not
    if set_option is not None:
        set_option(_M_ARENA_MAX, 2)
        set_option(_M_TRIM_THRESHOLD, 4_194_304)
        set_option(_M_MMAP_THRESHOLD, 1_048_576)


def close_inherited_files(kept: set[int]) -> None:
    """Close every open file but stderr and `kept`; stdin and stdout become the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    try:
        opened = [int(path.name) for path in Path("/dev/fd").iterdir()]
    except OSError:
        opened = list(range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    for fd in opened:
        if fd > 2 and fd not in kept:
            with suppress(OSError):  # the listing itself had one
                os.close(fd)


def raise_file_limit() -> None:
    """Let this process open as many files as the system grants it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (most, _OPEN_MAX):  # macOS grants less than its hard limit says
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
            return


def reset_signals() -> None:
    """Default actions for all signals; SIGINT and SIGHUP, which are for the supervisor, are ignored."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def ignore_stop_signals() -> None:
    """Ignore the signals that end a process; its client ends it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def become_first_victim() -> None:
    """Have the system, short of memory, end this process before any other (Linux); no core dump is written."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def limit_memory(growth: int) -> None:
    """Let memory grow by so many bytes: beyond them allocations raise MemoryError (Linux).

    No core dump is written, and the system, short of memory, ends this process before any other.
    """
    become_first_victim()
    with suppress(OSError, ValueError):
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + growth, mapped + growth))


def become_subreaper() -> bool:
    """Become the parent of grandchildren whose parent ends (Linux); False where the system refuses."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: object) -> bool:
    """Whether the system took it."""
    return sys.platform == "linux" and not ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(0)

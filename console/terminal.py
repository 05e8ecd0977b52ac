"""Whether this terminal can show the console, and in which signs. Imports little: it is asked before anything is."""

import os
import sys


def unsupported_reason() -> str | None:
    """Why the console cannot be shown here; None: it can."""
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):
        if not stream.isatty():
            return f"{name} is no terminal"
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return f"TERM={os.environ.get('TERM', '')} can place no text"
    return None


def interactive(*, read_only: bool = False) -> bool:
    """Whether the console can be shown; says why not, where somebody sits at a terminal and may expect it."""
    why = unsupported_reason()
    if why is not None and not read_only and (sys.stdout.isatty() or sys.stdin.isatty()):
        sys.stderr.write(f"no console here ({why}): running headless\n")
    return why is None


def ascii_only() -> bool:
    """Whether the terminal is not known to show UTF-8."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").replace("_", "")
    told = next((os.environ[n] for n in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(n)), "")
    # Python speaks UTF-8 under LANG=C too (PEP 540); the terminal then may not
    return encoding != "utf8" or (told in ("C", "POSIX") or ("." in told and "utf" not in told.lower()))

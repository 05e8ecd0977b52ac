"""Detects what this terminal can show; replaces what it cannot. Imports almost nothing."""

import os
import sys

_REPLACEMENTS = {
    "-": "─–—", "|": "│┃║▌▐▎▏▕▊▋▍▉‖├┤", "+": "┌┐└┘╭╮╰╯┬┴┼╔╗╚╝", "#": "█■▇▆", "_": "▁▂", "=": "━═▃▄▅", ">": "▶→≥",
    "<": "←≤", "o": "○◐◌□◷⊘", "*": "●", "x": "✗×", "v": "✓↓▼", "^": "↑▲⇧▔", ".": "…·╌", "'": "‘’“”", "/": "↵",
}  # fmt: skip
_BRAILLE = 0x2800


def unsupported_reason() -> str | None:
    """Why the console cannot be shown here; None if it can."""
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr)):
        if not stream.isatty():
            return f"{name} is not a terminal"
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return f"TERM={os.environ.get('TERM', '')} cannot position text"
    return None


def interactive(*, read_only: bool = False) -> bool:
    """Whether the console can be shown; at a terminal, prints why not."""
    reason = unsupported_reason()
    if reason is not None and not read_only and (sys.stdout.isatty() or sys.stdin.isatty()):
        sys.stderr.write(f"no console here ({reason}): running headless\n")
    return reason is None


def ascii_only() -> bool:
    """Whether the terminal may not show UTF-8."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").replace("_", "")
    locale = next((os.environ[n] for n in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(n)), "")
    # Python writes UTF-8 under LANG=C too (PEP 540); the terminal may not
    return encoding != "utf8" or (locale in ("C", "POSIX") or ("." in locale and "utf" not in locale.lower()))


def to_ascii(text: str) -> str:
    """The text with a similar ASCII character in place of each other one."""
    return text if text.isascii() else "".join(map(_ascii_character, text))


def _ascii_character(character: str) -> str:
    if character.isascii():
        return character
    code = ord(character)
    if _BRAILLE <= code < _BRAILLE + 0x100:  # a braille cell of a plot: by the number of its dots
        return " .:-=+*#@"[(code - _BRAILLE).bit_count()]
    from rich.cells import cell_len

    similar = (plain for plain, characters in _REPLACEMENTS.items() if character in characters)
    return next(similar, "?" * cell_len(character))

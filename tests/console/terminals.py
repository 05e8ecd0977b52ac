"""A pty with a small terminal emulation: the screen, and the modes that are left on."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|P[^\x1b]*\x1b\\|[()][A-Z0-9]|[=>78cM])"
)
_POSITION = re.compile(rb"\x1b\[(\d*);?(\d*)H")
_MODES = {b"?1049": "alternate screen", b"?1000": "mouse", b"?1003": "mouse", b"?25": "cursor", b"?2004": "paste"}

LAUNCH = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Run by a Python of its own: what is forked from a process with threads must not run on in Python."""


class Terminal:
    """Runs a command in a pty of its own session, as a login shell's child would run."""

    def __init__(self, arguments, *, environ=None, size=(80, 24), cwd=None):
        self.size = size
        self.cells = [[" "] * size[0] for _ in range(size[1])]
        self.raw = b""
        self.code = None
        self.modes = {"cursor": True}
        self._rest = b""
        self.fd, other = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        terminal_environ = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "COLORTERM": "truecolor", **(environ or {})}
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, sys.executable, "-m", "crawl_console", *arguments],
            stdin=other, stdout=other, stderr=other, cwd=cwd, env={**os.environ, **terminal_environ},
            start_new_session=True,
        )  # fmt: skip
        os.close(other)
        self.pid = self.process.pid
        self.before = termios.tcgetattr(self.fd)

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def read(self, seconds=0.05):
        """Read and draw pending output; returns whether the process still has the terminal open."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                break
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                return False
            if not data:
                return False
            self.raw += data
            self._draw(self._rest + data)
        return True

    def until(self, expected, seconds=25.0):
        """Wait until the screen shows a text, or a function of its text is true."""
        matches = expected if callable(expected) else lambda text: expected in text
        deadline = time.monotonic() + seconds
        while not (match := matches(self.text())):
            assert time.monotonic() < deadline, f"never shown: {expected}\n{self.text()}\n{self.raw[-600:]!r}"
            if not self.read():
                match = matches(self.text())
                assert match, f"the process ended before: {expected}\n{self.text()}\n{self.raw[-1500:]!r}"
                break
        return match

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def wait(self, seconds=25.0):
        """Wait for the exit code."""
        deadline = time.monotonic() + seconds
        while self.code is None:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                self.read(0.2)
            assert self.code is not None or time.monotonic() < deadline, f"the process does not end:\n{self.text()}"
        return self.code

    def restored(self):
        """What was not restored: modes that are still on, the line discipline."""
        left = [name for name, on in self.modes.items() if on != (name == "cursor")]
        with contextlib.suppress(termios.error):
            if termios.tcgetattr(self.fd)[:4] != self.before[:4]:
                left.append("line discipline")
        return left

    def end(self):
        if self.code is None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
        os.close(self.fd)

    # --- the emulation: cursor positions, text, clearing, and the modes that must be restored

    def _draw(self, data):
        at = 0
        self.row, self.column = getattr(self, "row", 0), getattr(self, "column", 0)
        while at < len(data):
            if data[at] == 0x1B:
                sequence = _SEQUENCE.match(data, at)
                if sequence is None:
                    if len(data) - at < 64:
                        break
                    at += 1
                    continue
                self._apply(sequence.group())
                at = sequence.end()
                continue
            end = data.find(b"\x1b", at)
            piece = data[at : end if end >= 0 else len(data)]
            text = piece.decode("utf-8", "ignore")
            if end < 0 and len(text.encode()) != len(piece):
                break
            self._write(text)
            at += len(piece)
        self._rest = data[at:]

    def _apply(self, sequence):
        if position := _POSITION.fullmatch(sequence):
            self.row, self.column = int(position[1] or 1) - 1, int(position[2] or 1) - 1
        elif sequence == b"\x1b[2J":
            self.cells = [[" "] * self.size[0] for _ in range(self.size[1])]
        elif sequence[-1:] in b"hl" and sequence[2:-1] in _MODES:
            self.modes[_MODES[sequence[2:-1]]] = sequence.endswith(b"h")
            if sequence[2:-1] == b"?1049":
                self.cells = [[" "] * self.size[0] for _ in range(self.size[1])]
                self.row = self.column = 0

    def _write(self, text):
        for character in text:
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.row = min(self.row + 1, self.size[1] - 1)
            elif self.row < self.size[1] and self.column < self.size[0]:
                self.cells[self.row][self.column] = character
                self.column += 1

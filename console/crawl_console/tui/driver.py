"""The driver of the terminal, which outlives a terminal that is closed."""

import contextlib
from typing import Any, TextIO, cast

from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """Drops what is written to a closed terminal.

    Textual's writer thread ends at the first failed write. Then its queue fills, and the app waits for it forever,
    deaf to signals: asyncio's handlers would run in the thread that waits.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = cast(Any, _DroppingFile(cast(TextIO, self._file)))

    def _sigcont_application(self, *arguments: Any) -> None:
        """Return after ^z; after SIGSTOP, which leaves all modes on, draw everything over what a shell wrote.

        Textual would start the threads that read and write a second time.
        """
        if self._must_signal_resume or not self._auto_restart:
            super()._sigcont_application(*arguments)
        else:
            self._app.call_later(self._draw_again)

    def _draw_again(self) -> None:
        self.write("\x1b[?1049h\x1b[2J")
        self._app.refresh(layout=True)


class _DroppingFile:
    """A text file whose writes do not fail."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

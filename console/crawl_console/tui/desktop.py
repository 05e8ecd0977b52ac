"""Key actions outside the console: browser, clipboard, editor, CSV files."""

import csv
import os
import re
import shlex
import subprocess
import sys
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crawl_console.format import plural
from crawl_console.sanitize import clean
from crawl_console.tui.host import AppHost
from crawl_engine.runtime.private_file import create_draft

_MAX_COPY_CHARS = 100_000


_FILE_LINE = re.compile(r"(\S+\.ya?ml):(\d+)")


class DesktopActions:
    """Each reports its result as a toast."""

    def __init__(self, app: AppHost) -> None:
        self._app = app

    def open_in_browser(self, url: str) -> None:
        """Open an http or https URL in the user's browser; copy it where there is no desktop."""
        if not url.startswith(("http://", "https://")):
            self._app.show_toast("only http and https URLs can be opened", "warning")
            return
        if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            self._app.show_toast("o: no desktop here; the URL goes to the clipboard", "warning")
            self.copy_text(url)  # a text browser would take over this terminal
            return
        self._app.show_toast(f"opening {url}")
        self._app.run_in_thread(lambda: webbrowser.open(url))

    def copy_text(self, text: str) -> None:
        """Copy to the terminal's clipboard (OSC 52), which works over SSH too; in tmux to its buffer."""
        lines = [clean(line) for line in text[:_MAX_COPY_CHARS].splitlines()]
        what = lines[0] if len(lines) == 1 else f"{len(lines)} lines"
        if "TMUX" in os.environ:
            self._app.run_in_thread(lambda: self._copy_in_tmux("\n".join(lines), what))
        elif "STY" in os.environ or os.environ.get("TERM") == "linux":
            self._app.show_toast(f"not copied: this terminal has no clipboard: {what}", "warning")
        else:
            self._app.copy_to_clipboard("\n".join(lines))
            self._app.show_toast(f"copied {what}")

    def _copy_in_tmux(self, text: str, what: str) -> None:
        """Tmux drops the escape sequences of programs; its own command also reaches the terminal's clipboard."""
        try:
            result = subprocess.run(
                ["tmux", "load-buffer", "-w", "-"], input=text.encode(), capture_output=True, timeout=5, check=False
            )
            problem = result.stderr.decode("utf-8", "replace").strip() if result.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        if problem:
            self._app.call_in_app(self._app.show_toast, f"not copied: tmux: {problem}", "warning")
        else:
            self._app.call_in_app(self._app.show_toast, f"copied to tmux's buffer (prefix ] pastes it): {what}")

    def edit_file(self, location: tuple[Path, int] | None) -> None:
        """Open a def at a line in $VISUAL or $EDITOR; without a location, the first def file."""
        path, line = location if location is not None else (self._first_def(), 1)
        file = self._find_def(path) if path is not None else None
        if file is None:
            self._app.show_toast(f"no such def: {path or self._app.options.defs}", "warning")
            return
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        try:
            with self._app.suspend():
                code = subprocess.run([*editor, *_editor_args(editor[0], file, line)], check=False).returncode
        except OSError as error:
            self._app.show_toast(f"{editor[0]}: {error.strerror}; set $EDITOR", "error")
            return
        except Exception as error:  # a terminal that cannot be suspended, as in tests
            self._app.show_toast(f"the editor cannot run here: {error}", "error")
            return
        self._app.refresh()
        if code:
            self._app.show_toast(f"{file.name}: the editor exited with {code}", "warning")
        else:
            self._app.show_toast(f"{file.name}: edited; {self._describe_save()}")

    def _describe_save(self) -> str:
        """What becomes of saved defs."""
        poll = self._app.last_poll
        if poll is None or poll.supervisor_pid is None:
            return "the next run uses what you saved"
        if self._app.options.settings.on_save == "ask":
            return "what you saved waits: 5 shows its changes, y publishes"
        return "what you saved is in use at once"

    def edit_mentioned_file(self, text: str) -> None:
        """Open the first `file.yml:line` that a text mentions, else the first def file."""
        self.edit_file(find_file_line(text))

    def _find_def(self, path: Path) -> Path | None:
        """The file a message names: as written, or below the defs."""
        defs = self._app.options.defs
        for candidate in (path, defs / path, defs.parent / path, defs / path.name):
            if candidate.is_file():
                return candidate
        return next((p for p in sorted(defs.rglob(path.name)) if p.is_file()), None) if defs.is_dir() else None

    def _first_def(self) -> Path | None:
        from crawl_console.tui.state.live_preview import list_def_files  # loads parsers of pages

        return next((path for path, _ in list_def_files(self._app.options.defs)), None)

    def export_rows(self, name: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write rows to a CSV file in the data dir."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = self._app.options.data / "exports" / f"{name}-{stamp}.csv"
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(create_draft(path), "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(headings)
                writer.writerows(rows)
        except OSError as error:
            self._app.show_toast(f"export: {path}: {error.strerror}", "error")
            return
        self._app.show_toast(f"{plural(len(rows), 'row')}: {path}")


def _editor_args(editor: str, path: Path, line: int) -> list[str]:
    """Each editor's own way to open a file at a line."""
    name = Path(editor).name
    if name in ("code", "codium", "cursor"):
        return ["--wait", "--goto", f"{path}:{line}"]
    if name in ("hx", "helix", "subl", "zed", "micro"):
        return [f"{path}:{line}"]
    if name in ("vi", "vim", "nvim", "nano", "emacs", "emacsclient", "kak", "joe", "mg", "ee", "ne"):
        return [f"+{line}", str(path)]
    return [str(path)]


def find_file_line(text: str) -> tuple[Path, int] | None:
    match = _FILE_LINE.search(text)
    return (Path(match[1]), int(match[2])) if match else None

"""What keys do beyond the terminal's screen: browser, clipboard, editor, files."""

import csv
import os
import shlex
import subprocess
import sys
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.sanitize import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    from console.tui.options import ConsoleOptions
    from console.tui.screens.base import View
    from console.tui.state.source import AcceptedDefs

    _Base = App[int]
else:
    _Base = object

_MAX_COPY_CHARS = 100_000


class DesktopActions(_Base):
    """Mixed into the app; uses its `setup` and `say`."""

    if TYPE_CHECKING:
        options: ConsoleOptions
        view_stack: list[View]
        show_toast: Callable[..., None]
        run_in_thread: Callable[[Callable[[], Any]], None]

        @property
        def accepted_defs(self) -> AcceptedDefs | None:
            """The def version in force."""

    def open_in_browser(self, url: str) -> None:
        """Open a page in the user's browser; nothing but http and https is. Without a desktop the URL is copied."""
        if not url.startswith(("http://", "https://")):
            self.show_toast("only http and https are opened", "warning")
            return
        if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            self.copy_text(url)  # a browser of text would take this terminal
            return
        self.show_toast(f"opening {url}")
        self.run_in_thread(lambda: webbrowser.open(url))

    def copy_text(self, text: str) -> None:
        """To the terminal's clipboard (OSC 52), over SSH too."""
        lines = [clean(line) for line in text[:_MAX_COPY_CHARS].splitlines()]
        self.copy_to_clipboard("\n".join(lines))
        self.show_toast(f"copied {lines[0] if len(lines) == 1 else f'{len(lines)} lines'}")

    def edit_file(self, place: tuple[Path, int] | None) -> None:
        """The def at its line in $VISUAL or $EDITOR; without a place the first file of the defs."""
        path, line = place if place is not None else (self.first_def(), 1)
        if path is None or not (found := self.find_def(path)):
            self.show_toast(f"no such def: {path or self.options.defs}", "warning")
            return
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        try:
            with self.suspend():
                code = subprocess.run([*editor, *_editor_args(editor[0], found, line)], check=False).returncode
        except OSError as error:
            self.show_toast(f"{editor[0]}: {error.strerror}; set $EDITOR", "error")
            return
        except Exception as error:  # a terminal that cannot be given away, as in tests
            self.show_toast(f"the editor cannot be shown here: {error}", "error")
            return
        self.refresh()
        self.show_toast(
            f"{found.name}: {'edited' if not code else f'the editor ended with {code}'}; ^r reloads the defs"
        )

    def edit_def(self, name: str) -> None:
        """A file of the defs."""
        self.edit_file((Path(name), 1))

    def find_def(self, path: Path) -> Path | None:
        """The file a message names: as written, or somewhere below the defs."""
        defs = self.options.defs
        for candidate in (path, defs / path, defs.parent / path, defs / path.name):
            if candidate.is_file():
                return candidate
        return next((p for p in sorted(defs.rglob(path.name)) if p.is_file()), None) if defs.is_dir() else None

    def first_def(self) -> Path | None:
        """The first file of the defs."""
        defs = self.options.defs
        if defs.is_file():
            return defs
        return next((p for p in sorted(defs.rglob("*")) if p.suffix in (".yml", ".yaml")), None)

    def group_data_defs(self, group: str) -> list[str]:
        """The dataDefs that the tasks of a group name."""
        found = self.accepted_defs.definitions.task_group(group) if self.accepted_defs else None
        return list(dict.fromkeys(task.data_def for task in found.tasks)) if found else []

    def export_rows(self, name: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """What is shown, as a CSV file in the data dir."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = self.options.data / "exports" / f"{name}-{stamp}.csv"
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(headings)
                writer.writerows(rows)
            path.chmod(0o600)
        except OSError as error:
            self.show_toast(f"export: {path}: {error.strerror}", "error")
            return
        self.show_toast(f"{len(rows)} rows: {path}")


def _editor_args(editor: str, path: Path, line: int) -> list[str]:
    """How editors are told a line."""
    name = Path(editor).name
    if name in ("code", "codium", "cursor"):
        return ["--wait", "--goto", f"{path}:{line}"]
    if name in ("hx", "helix", "subl", "zed", "micro"):
        return [f"{path}:{line}"]
    if name in ("vi", "vim", "nvim", "nano", "emacs", "emacsclient", "kak", "joe", "mg", "ee", "ne"):
        return [f"+{line}", str(path)]
    return [str(path)]

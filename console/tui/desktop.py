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

    from console.tui.options import Setup
    from console.tui.screens.base import View
    from console.tui.state.source import Accepted

    _Base = App[int]
else:
    _Base = object

_COPIED = 100_000


class Outside(_Base):
    """Mixed into the app; uses its `setup` and `say`."""

    if TYPE_CHECKING:
        setup: Setup
        stack: list[View]
        say: Callable[..., None]
        aside: Callable[[Callable[[], Any]], None]

        @property
        def accepted(self) -> Accepted | None:
            """The def version in force."""

    def browse(self, url: str) -> None:
        """Open a page in the user's browser; nothing but http and https is. Without a desktop the URL is copied."""
        if not url.startswith(("http://", "https://")):
            self.say("only http and https are opened", "warning")
            return
        if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            self.copy(url)  # a browser of text would take this terminal
            return
        self.say(f"opening {url}")
        self.aside(lambda: webbrowser.open(url))

    def copy(self, text: str) -> None:
        """To the terminal's clipboard (OSC 52), over SSH too."""
        lines = [clean(line) for line in text[:_COPIED].splitlines()]
        self.copy_to_clipboard("\n".join(lines))
        self.say(f"copied {lines[0] if len(lines) == 1 else f'{len(lines)} lines'}")

    def edit(self, place: tuple[Path, int] | None) -> None:
        """The def at its line in $VISUAL or $EDITOR; without a place the first file of the defs."""
        path, line = place if place is not None else (self.first_def(), 1)
        if path is None or not (found := self.find_def(path)):
            self.say(f"no such def: {path or self.setup.defs}", "warning")
            return
        editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
        try:
            with self.suspend():
                code = subprocess.run([*editor, *_at(editor[0], found, line)], check=False).returncode
        except OSError as error:
            self.say(f"{editor[0]}: {error.strerror}; set $EDITOR", "error")
            return
        except Exception as error:  # a terminal that cannot be given away, as in tests
            self.say(f"the editor cannot be shown here: {error}", "error")
            return
        self.refresh()
        self.say(f"{found.name}: {'edited' if not code else f'the editor ended with {code}'}; ^r reloads the defs")

    def edit_named(self, name: str) -> None:
        """A file of the defs."""
        self.edit((Path(name), 1))

    def find_def(self, path: Path) -> Path | None:
        """The file a message names: as written, or somewhere below the defs."""
        defs = self.setup.defs
        for candidate in (path, defs / path, defs.parent / path, defs / path.name):
            if candidate.is_file():
                return candidate
        return next((p for p in sorted(defs.rglob(path.name)) if p.is_file()), None) if defs.is_dir() else None

    def first_def(self) -> Path | None:
        """The first file of the defs."""
        defs = self.setup.defs
        if defs.is_file():
            return defs
        return next((p for p in sorted(defs.rglob("*")) if p.suffix in (".yml", ".yaml")), None)

    def data_defs_of(self, group: str) -> list[str]:
        """The dataDefs that the tasks of a group name."""
        found = self.accepted.definitions.task_group(group) if self.accepted else None
        return list(dict.fromkeys(task.data_def for task in found.tasks)) if found else []

    def export(self, name: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """What is shown, as a CSV file in the data dir."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = self.setup.data / "exports" / f"{name}-{stamp}.csv"
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(headings)
                writer.writerows(rows)
            path.chmod(0o600)
        except OSError as error:
            self.say(f"export: {path}: {error.strerror}", "error")
            return
        self.say(f"{len(rows)} rows: {path}")


def _at(editor: str, path: Path, line: int) -> list[str]:
    """How editors are told a line."""
    name = Path(editor).name
    if name in ("code", "codium", "cursor"):
        return ["--wait", "--goto", f"{path}:{line}"]
    if name in ("hx", "helix", "subl", "zed", "micro"):
        return [f"{path}:{line}"]
    if name in ("vi", "vim", "nvim", "nano", "emacs", "emacsclient", "kak", "joe", "mg", "ee", "ne"):
        return [f"+{line}", str(path)]
    return [str(path)]

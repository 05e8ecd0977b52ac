"""Dialogs: confirm, and quit. The harmless button has the focus; text is never parsed as markup."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from console.sanitize import clean


class Dialog(ModalScreen[str]):
    """A question with buttons; returns the id of the chosen button, at `esc` the last one's."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 66; max-width: 96%; height: auto; max-height: 96%; padding: 0 2;
        border: round $primary; background: $panel;
    }
    Dialog .lines { height: auto; margin: 1 0; }
    Dialog Horizontal { height: auto; align-horizontal: right; }
    Dialog Button { min-width: 6; margin-left: 2; padding: 0 1; }
    Dialog Button:focus { text-style: bold reverse; }
    Dialog.grave > Vertical { border: round $error; }
    """
    BINDINGS = [("left,shift+tab,h", "app.focus_previous", ""), ("right,tab,l", "app.focus_next", "")]  # noqa: RUF012

    def __init__(
        self, title: str, lines: Sequence[str], buttons: Sequence[tuple[str, str, str]], *, destructive: bool = False
    ) -> None:
        """`buttons`: key, id and label; the last one is harmless and has the focus."""
        super().__init__(classes="grave" if destructive else "")
        self._title = title
        self._lines = lines
        self._buttons = buttons

    def compose(self) -> ComposeResult:
        """Lines above, buttons below."""
        with Vertical() as box:
            box.border_title = Content(clean(self._title))
            yield Static(Content("\n".join(clean(line) for line in self._lines)), classes="lines", markup=False)
            with Horizontal():
                for key, id_, label in self._buttons:
                    yield Button(Content(f"{key} {clean(label)}"), id=id_, compact=True)

    def on_mount(self) -> None:
        """Focus the harmless button."""
        self.query_one(f"#{self._buttons[-1][1]}", Button).focus()

    def on_key(self, event: object) -> None:
        """Choose a button by its key."""
        pressed = getattr(event, "key", "")
        for key, id_, _ in self._buttons:
            if pressed == {"esc": "escape"}.get(key, key):
                event.stop()  # type: ignore[attr-defined]
                self.dismiss(id_)
                return
        if pressed in ("escape", "ctrl+c", "q"):
            event.stop()  # type: ignore[attr-defined]
            self.dismiss(self._buttons[-1][1])

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Choose a button by a click or enter."""
        self.dismiss(event.button.id)


def confirm_dialog(title: str, lines: Sequence[str], yes: str, *, destructive: bool = False) -> Dialog:
    """A dialog that returns `yes` or `no`; Cancel has the focus."""
    return Dialog(title, lines, (("y", "yes", yes), ("n", "no", "Cancel")), destructive=destructive)


def kill_dialog(node: str, lines: Sequence[str]) -> Dialog:
    """A dialog that returns `node`, `run` or `no`; Cancel has the focus."""
    buttons = (("k", "node", f"Kill {node}"), ("w", "run", "Kill the whole run"), ("n", "no", "Cancel"))
    return Dialog("Kill", lines, buttons, destructive=True)


def quit_dialog(lines: Sequence[str]) -> Dialog:
    """A dialog that returns `detach`, `stop`, `kill` or `stay`."""
    return Dialog(
        "Quit the console",
        lines,
        (("d", "detach", "Detach"), ("s", "stop", "Stop"), ("k", "kill", "Kill"), ("esc", "stay", "Stay")),
    )

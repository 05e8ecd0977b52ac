"""The way between views: a stack of them, the one on top being seen. What it wants read is asked of the poller."""

from typing import TYPE_CHECKING

from console.tui.bindings import PLAIN, SCREENS
from console.tui.screens import top_view
from console.tui.screens.base import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    _Base = App[int]
else:
    _Base = object


class Ways(_Base):
    """Mixed into the app; uses its frame and its poller."""

    if TYPE_CHECKING:
        from console.tui.options import Setup
        from console.tui.state.log_buffer import Tail
        from console.tui.state.poller import Poller
        from console.tui.state.rates import Paces
        from console.tui.widgets.bars import Hints, Tabs
        from console.tui.widgets.prompt import Prompt

        setup: Setup
        views: dict[str, View]
        stack: list[View]
        paces: Paces
        tail: Tail
        poller: Poller
        tabs: Tabs
        hints: Hints
        prompt: Prompt
        _show: Callable[[], None]

    def go(self, name: str) -> None:
        """To one of the seven screens."""
        name = name if name in SCREENS else "nodes"
        if name not in self.views:
            self.views[name] = top_view(name, self.paces, self.tail)
        self._stand([self.views[name]])

    def push(self, view: View) -> None:
        """Into something."""
        self._stand([*self.stack, view])

    def pop(self) -> None:
        """Back out of it."""
        if len(self.stack) > 1:
            self._stand(self.stack[:-1])

    def _stand(self, stack: list[View]) -> None:
        left = [view for view in self.stack if view not in stack]
        for view in self.stack:
            view.display = False
        self.stack = stack
        top = stack[-1]
        if not top.is_attached:
            self.query_one("#body").mount(top)
        for view in left:
            if view not in self.views.values():
                view.remove()
        top.display = True
        self.prompt.close()
        self.tabs.current = stack[0].NAME
        self.call_after_refresh(self._settled, top)

    def _settled(self, top: View) -> None:
        if self.stack and self.stack[-1] is top and top.is_attached:
            top.begin()
            self.reask()
            self.recrumb()
            self._show()

    def recrumb(self) -> None:
        """The breadcrumb and the hints are of the view that is shown."""
        self.tabs.crumbs = " > ".join(view.crumb() for view in self.stack)
        self.hints.hints = self.stack[-1].HINTS
        if self.setup.ascii_only:
            self.hints.hints = [(PLAIN.get(key, key), does) for key, does in self.hints.hints]
        self.tabs.redraw()
        self.hints.redraw()

    def reask(self, *, at_once: bool = True) -> None:
        """The poller reads what the visible view wants."""
        view = self.stack[-1]
        reading = view.reading()
        self.poller.ask(self.tail if view.READS_LOG else view, reading, view.SHOWN, at_once=at_once)

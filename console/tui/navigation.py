"""The way between views: a stack of them, the one on top being seen. What it wants read is asked of the poller."""

from typing import TYPE_CHECKING

from console.tui.bindings import ASCII_KEY_LABELS, SCREEN_NAMES
from console.tui.screens import create_view
from console.tui.screens.base import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App

    _Base = App[int]
else:
    _Base = object


class Navigation(_Base):
    """Mixed into the app; uses its frame and its poller."""

    if TYPE_CHECKING:
        from console.tui.options import ConsoleOptions
        from console.tui.state.log_buffer import LogBuffer
        from console.tui.state.poller import Poller
        from console.tui.state.rates import Rates
        from console.tui.widgets.bars import HintBar, Tabs
        from console.tui.widgets.prompt import Prompt

        options: ConsoleOptions
        views: dict[str, View]
        view_stack: list[View]
        rates: Rates
        log_buffer: LogBuffer
        poller: Poller
        tabs: Tabs
        hints: HintBar
        prompt: Prompt
        _update_screen: Callable[[], None]

    def switch_to(self, name: str) -> None:
        """To one of the seven screens."""
        name = name if name in SCREEN_NAMES else "nodes"
        if name not in self.views:
            self.views[name] = create_view(name, self.rates, self.log_buffer)
        self._set_view_stack([self.views[name]])

    def push_view(self, view: View) -> None:
        """Into something."""
        self._set_view_stack([*self.view_stack, view])

    def pop_view(self) -> None:
        """Back out of it."""
        if len(self.view_stack) > 1:
            self._set_view_stack(self.view_stack[:-1])

    def _set_view_stack(self, stack: list[View]) -> None:
        left = [view for view in self.view_stack if view not in stack]
        for view in self.view_stack:
            view.display = False
        self.view_stack = stack
        top = stack[-1]
        if not top.is_attached:
            self.query_one("#body").mount(top)
        for view in left:
            if view not in self.views.values():
                view.remove()
        top.display = True
        self.prompt.close()
        self.tabs.current = stack[0].NAME
        self.call_after_refresh(self._activate_view, top)

    def _activate_view(self, top: View) -> None:
        if self.view_stack and self.view_stack[-1] is top and top.is_attached:
            top.activate()
            self.refresh_query()
            self.refresh_breadcrumbs()
            self._update_screen()

    def refresh_breadcrumbs(self) -> None:
        """The breadcrumb and the hints are of the view that is shown."""
        self.tabs.breadcrumbs = " > ".join(view.breadcrumb() for view in self.view_stack)
        self.hints.hints = self.view_stack[-1].HINTS
        if self.options.ascii_only:
            self.hints.hints = [(ASCII_KEY_LABELS.get(key, key), does) for key, does in self.hints.hints]
        self.tabs.redraw()
        self.hints.redraw()

    def refresh_query(self, *, at_once: bool = True) -> None:
        """The poller reads what the visible view wants."""
        view = self.view_stack[-1]
        reading = view.view_query()
        self.poller.set_query(
            self.log_buffer if view.READS_LOG else view, reading, view.SNAPSHOT_LIMIT, at_once=at_once
        )

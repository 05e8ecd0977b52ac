"""What the console shows: one screen, or one dialog, a file. A screen is imported when it is first gone to."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.paces import Paces
    from console.screens.view import View
    from console.tail import Tail


def top_view(name: str, paces: "Paces", tail: "Tail") -> "View":
    """One of the seven screens."""
    match name:
        case "jobs" | "failed":
            from console.screens.jobs import JobsView
            from console.wanted import of_state

            return JobsView(of_state("failed"), name=name) if name == "failed" else JobsView()
        case "defs":
            from console.screens.defs import DefsView

            return DefsView()
        case "plots":
            from console.screens.plots import PlotsView

            return PlotsView()
        case "hosts":
            from console.screens.hosts import HostsView

            return HostsView()
        case "log":
            from console.screens.log import LogView

            return LogView(tail)
        case _:
            from console.screens.nodes import NodesView

            return NodesView(paces, tail)

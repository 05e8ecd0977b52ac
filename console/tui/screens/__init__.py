"""The screens and dialogs, one per file. A screen is imported when it is first shown."""

from console.tui.screens.base import View
from console.tui.state.log_buffer import LogBuffer


def create_view(name: str, log_buffer: LogBuffer) -> View:
    match name:
        case "jobs":
            from console.tui.screens.jobs import JobsView

            return JobsView()
        case "failed":
            from console.tui.screens.failed import FailedView

            return FailedView()
        case "defs":
            from console.tui.screens.defs import DefsView

            return DefsView()
        case "plots":
            from console.tui.screens.plots import PlotsView

            return PlotsView()
        case "runs":
            from console.tui.screens.runs import RunsView

            return RunsView()
        case "hosts":
            from console.tui.screens.hosts import HostsView

            return HostsView()
        case "log":
            from console.tui.screens.log import LogView

            return LogView(log_buffer)
        case _:
            from console.tui.screens.nodes import NodesView

            return NodesView(log_buffer)

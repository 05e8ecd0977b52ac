"""Messages from the polling thread to the app."""

from textual.message import Message

from console.tui.state.source import PollResult


class Polled(Message, namespace="console"):
    """A poll succeeded."""

    def __init__(self, result: PollResult) -> None:
        super().__init__()
        self.result = result

    def can_replace(self, message: Message) -> bool:
        """Of several queued results only the newest is shown."""
        return isinstance(message, Polled)


class PollFailed(Message, namespace="console"):
    """A poll failed."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

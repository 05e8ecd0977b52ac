"""What a console acts through: someone who carries orders to the supervisor, and its answer back."""

from pathlib import Path
from typing import Any, Protocol

from console import ordering


class Orders(Protocol):
    """Called on a worker thread; may take seconds. Raises CrawlError where nobody can obey."""

    def give(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Whether it was done, and a sentence for the operator."""


class CommandOrders:
    """Orders as the commands of the command line give them."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def give(self, name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Give the command, and wait for its answer."""
        return ordering.ask(self._data, name, arguments)

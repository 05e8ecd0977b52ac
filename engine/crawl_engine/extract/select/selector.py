"""What every selector does."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from crawl_engine.extract.select.css import Speed
from crawl_engine.extract.select.scope import Scope

if TYPE_CHECKING:
    from crawl_engine.extract.select.node_value import SelectedNode


class Selector(ABC):
    """A compiled selector: finds matches in document order, and nothing in a document of another kind."""

    speed: Speed
    leaves_block = False
    """Whether it finds matches outside of the block, or at their places in the page."""

    @abstractmethod
    def first(self, scope: Scope) -> "SelectedNode | None": ...

    @abstractmethod
    def all(self, scope: Scope) -> "list[SelectedNode]": ...

    def each(self, scope: Scope) -> "Iterator[SelectedNode]":
        """All matches; on a page with very many elements one by one."""
        return iter(self.all(scope))

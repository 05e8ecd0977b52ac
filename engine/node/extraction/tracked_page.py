"""A page that notes on the progress board when it is parsed."""

from functools import cached_property
from typing import Any

from engine.extract.page import Page
from engine.node.extraction.board import Phase, ProgressSlot


def tracked_page(slot: ProgressSlot) -> type[Page]:
    """A page that notes when it is parsed."""

    class TrackedPage(Page):
        @cached_property
        def tree(self) -> Any:
            before = slot.enter(Phase.PARSING)
            tree = super().tree
            slot.enter(before)
            return tree

        @cached_property
        def element(self) -> Any:
            before = slot.enter(Phase.PARSING)
            element = super().element
            slot.enter(before)
            return element

    return TrackedPage

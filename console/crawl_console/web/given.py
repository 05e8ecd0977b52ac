"""What came of orders that browsers gave: a form counts once, and the next page says it."""

import asyncio
import itertools
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any

from msgspec import Struct

_MAX_KEPT = 1_000
"""Forms that are known to be sent; older ones count again."""
_UNDO = "undo-"


class UndoForm(Struct, frozen=True):
    """The form that takes an order back."""

    label: str
    name: str
    arguments: Mapping[str, str]


class GivenOrder(Struct, frozen=True):
    """An order that was given, and what came of it."""

    id: str
    lines: Sequence[str]
    done: bool
    by: str
    at: float
    """Wall clock."""
    undo: UndoForm | None = None

    @property
    def undo_key(self) -> str:
        """The same on each page that shows it: two browsers take it back once."""
        return f"{_UNDO}{self.id}"


Give = Callable[[str], Awaitable[GivenOrder]]
"""Carries an order out; gets the id of what came of it."""


class GivenOrders:
    """Those of one data dir since the server began."""

    def __init__(self) -> None:
        self._start = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._by_form: OrderedDict[Hashable, asyncio.Task[GivenOrder]] = OrderedDict()
        self._by_id: OrderedDict[str, GivenOrder] = OrderedDict()
        self._taken_back: set[str] = set()

    def new_key(self) -> str:
        """For the forms of a page that is made now."""
        return f"{self._start}-{next(self._numbers)}"

    def is_of_now(self, key: str) -> bool:
        """Whether a key was made by this server since it began: what an earlier one carried out is not known."""
        return key.removeprefix(_UNDO).startswith(f"{self._start}-")

    async def give(self, key: str, order: Hashable, give: Give) -> GivenOrder:
        """Have an order carried out, or wait for what comes of it if its form was sent before. No key: always."""
        form = (key, order)
        task = self._by_form.get(form) if key else None
        if task is None:
            task = asyncio.create_task(self._carry_out(key, give))
            if key:
                self._by_form[form] = task
                _forget_oldest(self._by_form)
                task.add_done_callback(lambda done: self._forget_failed(form, done))
        return await asyncio.shield(task)

    def find(self, id_: str) -> GivenOrder | None:
        """What came of an order; without its undo, once that is given."""
        order = self._by_id.get(id_)
        if order is None or order.undo_key not in self._taken_back:
            return order
        return GivenOrder(order.id, order.lines, order.done, order.by, order.at)

    async def _carry_out(self, key: str, give: Give) -> GivenOrder:
        order = await give(self.new_key())
        self._by_id[order.id] = order
        _forget_oldest(self._by_id)
        if order.done and key.startswith(_UNDO):
            self._taken_back.add(key)
        return order

    def _forget_failed(self, form: Hashable, task: asyncio.Task[GivenOrder]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._by_form.pop(form, None)


def _forget_oldest(kept: OrderedDict[Any, Any]) -> None:
    if len(kept) > _MAX_KEPT:
        kept.popitem(last=False)

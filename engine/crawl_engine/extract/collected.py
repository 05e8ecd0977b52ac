"""The records of all states of a page as one set: those of one key are one record."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from crawl_engine.extract.page.page import Page
from crawl_engine.model.record import RecordCounts, Rejection, to_text

_Key = tuple[str, ...]


class _CollectedRecord(Struct):
    """A record: with a row, rejected, or neither: a filter dropped it."""

    row: Mapping[str, Any] | None = None
    rejection: Rejection | None = None
    missing: Sequence[str] = ()


class CollectedRecords:
    """The records of a page, state by state: the last one first.

    The last state that has a record says what it is, unless it is rejected there and complete in another one.
    """

    def __init__(self, key: Sequence[str]) -> None:
        """`key`: the fields that tell records apart; empty: the last state alone counts."""
        self._key = key
        self._states: list[dict[_Key, _CollectedRecord]] = [{}]

    @property
    def is_at_last(self) -> bool:
        return len(self._states) == 1

    def end_state(self) -> None:
        """The next records are those of the state before."""
        self._states.append({})

    def add_row(self, row: Mapping[str, Any], missing: Iterable[str]) -> None:
        self._add(row, _CollectedRecord(row=row, missing=tuple(missing)))

    def add_filtered(self, row: Mapping[str, Any]) -> None:
        self._add(row, _CollectedRecord())

    def add_rejected(self, values: Mapping[str, Any], rejection: Rejection, missing: Iterable[str]) -> None:
        """`values`: those of the key that can be read."""
        self._add(values, _CollectedRecord(rejection=rejection, missing=tuple(missing)))

    def _add(self, values: Mapping[str, Any], record: _CollectedRecord) -> None:
        state = self._states[-1]
        key = tuple([to_text(values.get(name)) for name in self._key])
        if not any(key):
            # of an earlier state it is a place that is filled later, or a record that the last one has, too
            if self.is_at_last:
                state["", str(len(state))] = record
        elif record.rejection is None or key not in state:
            state[key] = record

    def merge(self) -> list[_CollectedRecord]:
        """One record a key, in the order in which the states had them."""
        merged: dict[_Key, _CollectedRecord] = {}
        for state in reversed(self._states):
            for key, record in state.items():
                if record.rejection is None or key not in merged or merged[key].rejection is not None:
                    merged[key] = record
        return [*merged.values()]


def count_records(records: Sequence[_CollectedRecord], counted: Iterable[str]) -> RecordCounts:
    """How they were filled. `counted`: the fields whose absence counts."""
    missing = dict.fromkeys(counted, 0)
    for record in records:
        for name in record.missing:
            missing[name] += 1
    rejected = sum(record.rejection is not None for record in records)
    rows = sum(record.row is not None for record in records)
    return RecordCounts(rows + rejected, rejected, tuple(missing.items()), len(records) - rows - rejected)


def iter_earlier(page: Page) -> Iterable[Page]:
    """The states of a page before the last one as pages, the first one last; they share what is said of it."""
    for text in () if page.states is None else page.states.read_backwards():
        state = type(page)(
            url=page.url, text=text, kind=page.kind, status=page.status, fetched_at=page.fetched_at,
            headers=page.headers, encoding=page.encoding,
        )  # fmt: skip
        state.faults, state.warnings = page.faults, page.warnings
        yield state

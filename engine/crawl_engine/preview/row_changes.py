"""Compares the rows of one page before and after a change of the defs.

Rows are paired by their dataDef's `key`, else by their position in the page.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from crawl_engine.append.formats.row_json import decode_as_text, split_fields
from crawl_engine.model.record import to_text


class RowChange(Struct, frozen=True, kw_only=True):
    """One row before and after. Values are texts as in CSV; None: the row does not exist."""

    before: Mapping[str, str] | None
    after: Mapping[str, str] | None
    fields: tuple[str, ...] = ()
    """Fields that differ."""
    emptied: tuple[str, ...] = ()
    """Fields that lost their value."""

    @property
    def kind(self) -> str:
        """`added`, `vanished`, `changed` or `same`."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "vanished"
        return "changed" if self.fields else "same"


def compare_rows(before: Sequence[str], after: Sequence[str], key: Sequence[str]) -> list[RowChange]:
    """Pair the rows of one page, JSON objects: each new row with its old one, vanished rows last."""
    pairs: list[int | None]
    if key:
        pairs, unpaired = [None] * len(after), list(range(len(before)))
        _pair_equal(pairs, unpaired, before, after)  # several rows may have one key
        _pair_equal(pairs, unpaired, *([_key_values(row, key) for row in rows] for rows in (before, after)))
    else:
        pairs = [index if index < len(before) else None for index in range(len(after))]
        unpaired = list(range(len(after), len(before)))
    changes = [_row_change(None if old is None else before[old], row) for old, row in zip(pairs, after, strict=True)]
    return changes + [RowChange(before=_csv_texts(before[old]), after=None) for old in unpaired]


def _pair_equal(
    pairs: list[int | None], unpaired: list[int], before: Sequence[object], after: Sequence[object]
) -> None:
    """Pair each new row without a partner with the first unpaired old row of an equal value."""
    old_by_value: dict[object, list[int]] = {}
    for old in unpaired:
        old_by_value.setdefault(before[old], []).append(old)
    for new, value in enumerate(after):
        if pairs[new] is None and old_by_value.get(value):
            pairs[new] = old_by_value[value].pop(0)
    paired = {old for old in pairs if old is not None}
    unpaired[:] = [old for old in unpaired if old not in paired]


def _row_change(before: str | None, after: str) -> RowChange:
    texts_after = _csv_texts(after)
    if before is None:
        return RowChange(before=None, after=texts_after)
    if before == after:
        return RowChange(before=texts_after, after=texts_after)
    texts_before, fields_before, fields_after = _csv_texts(before), split_fields(before), split_fields(after)
    names = dict.fromkeys((*fields_after, *fields_before))
    return RowChange(
        before=texts_before,
        after=texts_after,
        fields=tuple(name for name in names if fields_before.get(name) != fields_after.get(name)),
        emptied=tuple(name for name in names if texts_before.get(name) and not texts_after.get(name)),
    )


def _csv_texts(row: str) -> dict[str, str]:
    return {name: to_text(value) for name, value in decode_as_text(row).items()}


def _key_values(row: str, key: Sequence[str]) -> tuple[str | None, ...]:
    fields = split_fields(row)
    return tuple(fields.get(name) for name in key)

"""Warnings about JSON that selectors cannot read: no JSON at all, or JSON that is broken."""

from collections.abc import Iterable, Sequence

from engine.node.def_cache import CompiledDataDef


class SelectorWarnings:
    """One for each node: it warns once of each dataDef, and once of each kind of fault."""

    def __init__(self) -> None:
        self._warned: set[int] = set()
        self._warned_faults: set[str] = set()

    def warn(self, compiled: Iterable[CompiledDataDef], page_kind: str, faults: Sequence[str] = ()) -> tuple[str, ...]:
        """The warnings about a page of that kind; none where all was said before. `faults`: what was skipped on it."""
        new_faults = [fault for fault in faults if fault not in self._warned_faults]
        self._warned_faults.update(new_faults)
        if page_kind not in ("html", "xml"):
            return tuple(new_faults)
        new = [one for one in compiled if one.json_selector and one.id not in self._warned]
        self._warned.update(one.id for one in new)
        message = f"`jmespath:` reads JSON, and this page is {page_kind.upper()}"
        return (*[f"{one.data_def}.{one.json_selector}: {message}" for one in new], *new_faults)

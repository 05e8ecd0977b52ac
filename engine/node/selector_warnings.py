"""Warns of `jmespath:` selectors that are applied to pages that are not JSON: they match nothing."""

from collections.abc import Iterable

from engine.node.def_cache import CompiledDataDef


class SelectorWarnings:
    """One for each node: it warns once of each dataDef."""

    def __init__(self) -> None:
        self._warned: set[int] = set()

    def warn(self, compiled: Iterable[CompiledDataDef], page_kind: str) -> tuple[str, ...]:
        """The warnings about a page (`html`, `xml` or `json`); none where all was said before."""
        if page_kind == "json":
            return ()
        new = [one for one in compiled if one.json_selector and one.id not in self._warned]
        self._warned.update(one.id for one in new)
        return tuple(
            f"{one.data_def}.{one.json_selector}: `jmespath:` reads JSON, and this page is {page_kind.upper()}"
            for one in new
        )

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
        messages = []
        for one in compiled:
            warning = _describe_mismatch(one, page_kind)
            if warning and one.id not in self._warned:
                self._warned.add(one.id)
                messages.append(warning)
        return (*messages, *new_faults)


def _describe_mismatch(compiled: CompiledDataDef, page_kind: str) -> str:
    """Which selector matches nothing on pages of that kind; empty: none does so for its kind alone."""
    if compiled.json_selector and page_kind in ("html", "xml"):
        selector, what = compiled.json_selector, "`jmespath:` reads JSON"
    elif compiled.embedded_selector and page_kind != "html":
        selector, what = compiled.embedded_selector, "`jsonld:` and `jmespath(CSS):` read the JSON in HTML"
    else:
        return ""
    return f"{compiled.data_def}.{selector}: {what}, and this page is {page_kind.upper()}"

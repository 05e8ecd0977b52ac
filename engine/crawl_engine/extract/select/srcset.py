"""Reads the candidates of `srcset` by the algorithm of HTML, in which URLs may hold commas."""

from collections.abc import Iterator

from crawl_engine.late_regex import late_regex

_BLANK = "\t\n\f\r "
_URL = late_regex(rf"[{_BLANK},]*([^{_BLANK},][^{_BLANK}]*)")
_DESCRIPTORS = late_regex(r"(?:[^,(]+|\([^)]*\)?)*")
_WORD = late_regex(f"[^{_BLANK}]+")
_DESCRIPTOR = late_regex(
    r"(?:(?P<width>[0-9]+)w|(?P<height>[0-9]+)h|(?P<density>-?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)x)"
)


def is_srcset(attribute: str) -> bool:
    """Whether an attribute lists candidates: `srcset`, and names that end in it, such as `data-srcset`."""
    return attribute.lower().endswith("srcset")


def read_candidates(text: str, *, largest: bool) -> list[str]:
    """The URLs as written, in order; with `largest` the widest one, or the one of the highest density."""
    candidates = list(_parse(text))
    if largest and candidates:
        return [max(candidates, key=lambda candidate: candidate[1:])[0]]
    return [url for url, *_ in candidates]


def _parse(text: str) -> Iterator[tuple[str, int, float]]:
    """URL, width (0: it has none) and density of each candidate whose descriptors are valid."""
    at = 0
    while found := _URL.match(text, at):
        url, at = found[1], found.end()
        if url.endswith(","):
            yield url.rstrip(","), 0, 1.0
            continue
        descriptors = _DESCRIPTORS.match(text, at)
        assert descriptors is not None
        at = descriptors.end() + 1
        size = _read_size(descriptors[0])
        if size is not None:
            yield url, *size


def _read_size(descriptors: str) -> tuple[int, float] | None:
    """Width and density; None if the descriptors are invalid: then the candidate is dropped."""
    sizes: dict[str, str] = {}
    for word in _WORD.findall(descriptors):
        found = _DESCRIPTOR.fullmatch(word)
        kind = found.lastgroup if found is not None else None
        if found is None or kind is None or kind in sizes:
            return None
        sizes[kind] = found[kind]
    width, density = int(sizes.get("width", "0")[:9]), float(sizes.get("density", "1"))
    is_invalid = ("width" in sizes and not width) or density < 0 or ("density" in sizes and len(sizes) > 1)
    return None if is_invalid or ("height" in sizes and "width" not in sizes) else (width, density)

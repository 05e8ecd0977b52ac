"""Loads the defs: files to trees to terms to `Definitions`, every mistake told at once. Changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from engine import urls
from engine.defs import conflicts, names, pydantic_errors, references, sources, steps, yaml_tree
from engine.defs.build import build
from engine.defs.language import Defs
from engine.defs.merge import merge
from engine.defs.problems import Problems
from engine.defs.yaml_node import Node
from engine.errors import DefsError, Problem
from engine.model.definition import Definitions, Locator, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Defs that can be used, and what is odd about them."""

    definitions: Definitions
    warnings: tuple[Problem, ...] = ()


def load(path: Path) -> Loaded:
    """The defs below a directory, or of one file. Raises DefsError, and nothing else, with all problems together."""
    problems = Problems()
    found = sources.read(path, problems)
    files = tuple(source.shown for source in found)
    unread = problems.fatal
    roots = [yaml_tree.parse(source.text, source.shown, problems) for source in found]
    broken = unread or any(root is None and _has_text(source.text) for root, source in zip(roots, found, strict=True))
    root = merge([root for root in roots if root is not None], sources.whole(path), problems)
    terms = _terms(root, problems)
    names.check(root, problems)
    steps.check(root, problems)
    conflicts.check(root, problems)
    if not broken:
        # What a broken file defines is unknown here: names would be missed that are well written in it.
        references.check(root, problems)
    if terms is None or problems.fatal:
        raise DefsError(problems.told(files))
    paths = {source.shown: source.path for source in found}
    definitions = build(terms, root, files, paths)
    for group in definitions.locator_groups:
        for locator in group.locators:
            _check_seeds(locator, problems)
    return Loaded(definitions=definitions, warnings=tuple(problems.told(files)))


def baseless(definitions: Definitions) -> Iterator[tuple[Place, str]]:
    """URLs of locators that are no absolute ones, each with its locator's place, where the defs give them no base."""
    if definitions.base_url is None:
        for group in definitions.locator_groups:
            for locator in group.locators:
                for url in (*locator.urls, *([locator.sitemap] if locator.sitemap else [])):
                    if not urls.is_web(url):
                        yield locator.place, url


def _terms(root: Node, problems: Problems) -> Defs | None:
    try:
        return Defs.model_validate(root.value())
    except ValidationError as error:
        pydantic_errors.note(error, root, problems)
        return None


def _check_seeds(locator: Locator, problems: Problems) -> None:
    """Seeds are read when a run starts, and may be written until then."""
    if locator.from_file not in (None, "-") and not Path(str(locator.from_file)).is_file():
        message = f"there is no file '{locator.from_file}' now; it is read when a run starts"
        problems.warn(locator.place, "missing-file", message)


def _has_text(text: str) -> bool:
    """Whether a file holds more than comments and blank lines."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())

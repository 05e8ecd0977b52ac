"""All hostile answers by name."""

from collections.abc import Callable, Iterator, Mapping

from tests.hostile import documents, markup, protocol, records
from tests.hostile.answer import HostileAnswer

PARTS: Mapping[str, Callable[[], Iterator[HostileAnswer]]] = {
    "markup": markup.answers,
    "documents": documents.answers,
    "protocol": protocol.answers,
    "records": records.answers,
}


def all_answers() -> Mapping[str, HostileAnswer]:
    """Every answer; bodies are made only when they are asked for, except small ones."""
    named: dict[str, HostileAnswer] = {}
    for answer in (answer for answers in PARTS.values() for answer in answers()):
        assert answer.name not in named, f"two answers are named {answer.name}"
        named[answer.name] = answer
    return named

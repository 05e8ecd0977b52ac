"""All hostile answers by name."""

from collections.abc import Mapping

from tests.hostile import documents, markup, protocol
from tests.hostile.answer import HostileAnswer


def all_answers() -> Mapping[str, HostileAnswer]:
    """Every answer; bodies are made only when they are asked for, except small ones."""
    named: dict[str, HostileAnswer] = {}
    for answer in (*markup.answers(), *documents.answers(), *protocol.answers()):
        assert answer.name not in named, f"two answers are named {answer.name}"
        named[answer.name] = answer
    return named

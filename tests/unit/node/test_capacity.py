"""When a node asks for more, how much it may take, and when it leaves the rings to others."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from engine.node.capacity import Capacity
from tests.unit.node.leased_jobs import leased


@dataclass
class Node:
    busy: int = 0
    woken: int = 0
    now: float = 100.0
    room: Capacity = field(init=False)

    def __post_init__(self) -> None:
        self.room = Capacity(32, count_active=lambda: self.busy, wake=self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def take(self, count: int) -> None:
        self.room.add_leased([leased(number) for number in range(count)])
        self.busy += count


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node()
    monkeypatch.setattr("time.monotonic", lambda: made.now)
    return made


def test_an_empty_node_may_take_its_slots_and_a_few_more(node: Node) -> None:
    assert node.room.free == 40
    assert node.room.should_dequeue()


def test_what_waits_to_be_committed_takes_room_too(node: Node) -> None:
    node.take(40)
    node.busy = 0
    assert node.room.free == 24
    node.room.release([leased(number) for number in range(40)])
    assert node.room.free == 40


def test_a_few_free_slots_are_gathered_for_a_moment(node: Node) -> None:
    node.take(30)
    assert node.room.free == 10
    assert not node.room.should_dequeue()
    node.now += 0.005
    assert not node.room.should_dequeue()
    node.now += 0.005
    assert node.room.should_dequeue()


def test_who_starved_is_woken_once_there_is_room(node: Node) -> None:
    node.take(40)
    assert not node.room.should_dequeue()
    node.busy = 30
    node.room.notify_freed()
    assert node.woken == 0, "ten slots are too few"
    node.busy = 20
    node.room.notify_freed()
    node.room.notify_freed()
    assert node.woken == 1
    assert node.room.should_dequeue()


def test_a_fed_node_leaves_the_rings_to_others_for_a_moment(node: Node) -> None:
    assert node.room.should_dequeue()
    node.take(20)
    node.room.mark_refilled()
    assert node.room.free == 20
    assert not node.room.should_dequeue()
    node.room.notify_freed()
    assert node.woken == 0
    node.now += 0.06
    assert node.room.should_dequeue(), "nobody else wanted it"
    node.room.mark_refilled()
    node.busy = 0
    assert not node.room.should_dequeue(), "the commit of what it holds will lease"
    node.room.release([leased(number) for number in range(20)])
    assert node.room.should_dequeue(), "it has nothing to work"


def test_a_node_that_every_commit_feeds_asks_all_the_same_now_and_then(node: Node) -> None:
    """A host with a delay is served by its ring alone: beside a fast host it must not wait for that one's end."""
    node.take(20)
    asked = []
    for _ in range(100):
        node.now += 0.01
        node.room.mark_refilled()
        if node.room.should_dequeue():
            asked.append(node.now)
    assert len(asked) >= 10
    assert all(later - earlier <= 0.1 for earlier, later in pairwise(asked))


def test_what_will_be_free_is_told_before_it_is(node: Node) -> None:
    node.take(40)
    node.busy = 12
    assert node.room.after_commit([leased(number) for number in range(28)]) == (12, 28, {1: 12})
    assert node.room.held == 40


def test_beside_a_suspect_there_is_no_room(node: Node) -> None:
    node.room.add_leased([leased(1)._replace(crashes=1)])
    node.busy = 1
    assert node.room.exclusive
    assert node.room.free == 0
    node.busy = 0
    node.room.release([leased(1)])
    assert not node.room.exclusive
    assert node.room.free == 40

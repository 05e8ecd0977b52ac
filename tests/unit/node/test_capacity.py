"""When a node answers doorbells, how much it may lease, and when it leaves doorbells to other nodes."""

import threading
from itertools import pairwise

import pytest

from crawl_engine.node.capacity import ActiveJobs, Capacity
from tests.unit.node.leased_jobs import leased


class CountedEvent(threading.Event):
    """Counts how often it was set."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def set(self) -> None:
        super().set()
        self.count += 1


class Node:
    """A capacity of 32 slots whose jobs and clock the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.jobs = ActiveJobs()
        self.wakeup = CountedEvent()
        self.capacity = Capacity(32, active_jobs=self.jobs, wakeup=self.wakeup)

    @property
    def woken(self) -> int:
        return self.wakeup.count

    def set_active(self, count: int) -> None:
        self.jobs.completed = self.jobs.submitted - count

    def take(self, count: int) -> None:
        self.capacity.add_leased([leased(number) for number in range(count)])
        self.jobs.submitted += count


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node()
    monkeypatch.setattr("time.monotonic", lambda: node.now)
    return node


def test_an_empty_node_may_take_its_slots_and_a_few_more(node: Node) -> None:
    assert node.capacity.free == 40
    assert node.capacity.should_dequeue()


def test_jobs_that_wait_for_a_commit_reduce_the_free_slots(node: Node) -> None:
    node.take(40)
    node.set_active(0)
    assert node.capacity.free == 24
    node.capacity.release([leased(number) for number in range(40)])
    assert node.capacity.free == 40


def test_a_few_free_slots_wait_for_more_for_a_moment(node: Node) -> None:
    node.take(30)
    assert node.capacity.free == 10
    assert not node.capacity.should_dequeue()
    node.now += 0.005
    assert not node.capacity.should_dequeue()
    node.now += 0.005
    assert node.capacity.should_dequeue()


def test_the_worker_is_woken_once_enough_slots_are_free(node: Node) -> None:
    node.take(40)
    assert not node.capacity.should_dequeue()
    node.set_active(30)
    node.capacity.notify_freed()
    assert node.woken == 0, "ten slots are too few"
    node.set_active(20)
    node.capacity.notify_freed()
    node.capacity.notify_freed()
    assert node.woken == 1
    assert node.capacity.should_dequeue()


def test_a_refilled_node_leaves_doorbells_to_others_for_a_moment(node: Node) -> None:
    assert node.capacity.should_dequeue()
    node.take(20)
    node.capacity.mark_refilled()
    assert node.capacity.free == 20
    assert not node.capacity.should_dequeue()
    node.capacity.notify_freed()
    assert node.woken == 0
    node.now += 0.06
    assert node.capacity.should_dequeue(), "no other node answered it"
    node.capacity.mark_refilled()
    node.set_active(0)
    assert not node.capacity.should_dequeue(), "the commit of what it holds will lease"
    node.capacity.release([leased(number) for number in range(20)])
    assert node.capacity.should_dequeue(), "it holds no job"


def test_a_node_refilled_by_every_commit_still_polls_now_and_then(node: Node) -> None:
    """Only a doorbell serves a host with a delay: it must not wait until a fast host is done."""
    node.take(20)
    polls = []
    for _ in range(100):
        node.now += 0.01
        node.capacity.mark_refilled()
        if node.capacity.should_dequeue():
            polls.append(node.now)
    assert len(polls) >= 10
    assert all(later - earlier <= 0.1 for earlier, later in pairwise(polls))


def test_the_capacity_after_a_commit_is_known_before_it(node: Node) -> None:
    node.take(40)
    node.set_active(12)
    assert node.capacity.after_commit([leased(number) for number in range(28)]) == (12, 28, {1: 12})
    assert node.capacity.held == 40


def test_a_job_that_crashed_a_node_runs_alone(node: Node) -> None:
    node.capacity.add_leased([leased(1)._replace(crashes=1)])
    node.set_active(1)
    assert node.capacity.exclusive
    assert node.capacity.free == 0
    node.set_active(0)
    node.capacity.release([leased(1)])
    assert not node.capacity.exclusive
    assert node.capacity.free == 40

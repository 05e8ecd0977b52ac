"""When nodes are started and retired, without processes: 4 slots a node, 2 CPUs, 5 s to wait, 60 s of idleness."""

from collections.abc import Sequence

import pytest

from crawl_engine.model.node import NodeRange
from crawl_engine.runtime.beat_file import Beat
from crawl_engine.supervise.nodes.elastic_nodes import NodeScaler, PoolLoad, ScalingDecision

SLOTS = 4
NOTHING = ScalingDecision()


class Run:
    """A run whose clock the test moves, a second at each look."""

    def __init__(self, nodes: str = "1-4", cpus: int = 2) -> None:
        self.range = NodeRange.parse(nodes)
        self.scaler = NodeScaler(wait=5.0, idle=60.0, slots=SLOTS, cpus=cpus)
        self.now = 100.0
        self.held: dict[int, int] = {1: 0}
        self.worked: dict[int, int] = {1: 0}
        self.alone: set[int] = set()
        self.cpu_use = 0.1
        self.starting = self.given_up = 0
        self.leasable = True

    def look(self, seconds: float = 1.0) -> ScalingDecision:
        self.now += seconds
        nodes = {
            n: Beat(
                number=1, state="DONE", in_flight=held, runs_alone=n in self.alone, done=self.worked.get(n, 0),
                cpu=self.cpu_use * self.now,
            )
            for n, held in self.held.items()
        }  # fmt: skip
        load = PoolLoad(nodes=nodes, starting=self.starting, given_up=self.given_up)
        jobs_wait = self.scaler.observe(load, self.range, self.now) and self.leasable
        return self.scaler.decide(jobs_wait=jobs_wait, now=self.now)

    def looks(self, count: int) -> Sequence[ScalingDecision]:
        return [self.look() for _ in range(count)]

    def fill(self, *numbers: int) -> None:
        """These nodes hold as many jobs as they have slots, and commit one between two looks."""
        self.held = dict.fromkeys(numbers, SLOTS)
        self.worked = {n: self.worked.get(n, 0) + 1 for n in numbers}


def test_a_node_starts_when_jobs_have_waited_long_enough() -> None:
    run = Run()
    run.fill(1)
    assert run.looks(5) == [NOTHING] * 5
    assert run.look() == ScalingDecision(start=True)


def test_a_start_that_failed_is_due_again_and_one_that_succeeded_is_not() -> None:
    run = Run()
    run.fill(1)
    run.looks(5)
    assert run.look().start
    assert run.look().start
    run.scaler.restart_wait()
    assert not any(decision.start for decision in run.looks(5))
    assert run.look().start


@pytest.mark.parametrize("state", ["starting", "given_up"])
def test_no_node_starts_beside_one_that_starts_or_beyond_the_most(state: str) -> None:
    run = Run("1-2")
    run.fill(1)
    setattr(run, state, 1)
    assert set(run.looks(20)) == {NOTHING}


def test_the_most_is_never_exceeded() -> None:
    run = Run("1-2")
    run.fill(1, 2)
    assert set(run.looks(20)) == {NOTHING}


def test_jobs_that_no_node_could_lease_start_none() -> None:
    run = Run()
    run.fill(1)
    run.leasable = False
    assert set(run.looks(20)) == {NOTHING}


def test_a_wait_that_was_interrupted_begins_again() -> None:
    run = Run()
    run.fill(1)
    run.looks(5)
    run.leasable = False
    run.look()
    run.leasable = True
    assert run.looks(5) == [NOTHING] * 5
    assert run.look().start


def test_a_node_with_free_slots_that_takes_jobs_needs_no_other() -> None:
    run = Run()
    run.held[1] = 2
    for _ in range(20):
        run.worked[1] += 1
        assert run.look() == NOTHING


def test_a_node_that_takes_no_job_is_helped_although_it_has_free_slots() -> None:
    run = Run()
    run.held[1] = 1
    assert any(decision.start for decision in run.looks(10))


def test_nodes_that_work_a_job_alone_are_helped_unless_another_takes_jobs() -> None:
    run = Run()
    run.held, run.worked, run.alone = {1: 1, 2: SLOTS}, {}, {1}
    for _ in range(20):
        run.worked[1] = run.worked.get(1, 0) + 1
        assert run.look() == NOTHING
    run.alone = {1, 2}
    for _ in range(6):
        run.worked[1] += 1
        decision = run.look()
    assert decision.start


@pytest.mark.parametrize(
    ("nodes", "use", "starts"), [((1,), 1.0, True), ((1,), 1.3, True), ((1, 2), 0.6, True), ((1, 2), 0.9, False)]
)
def test_a_node_starts_where_the_cpus_have_room_for_one_like_the_others(
    nodes: tuple[int, ...], use: float, starts: bool
) -> None:
    run = Run()
    run.fill(*nodes)
    run.cpu_use = use
    assert any(decision.start for decision in run.looks(20)) is starts


def test_once_the_cpus_are_free_the_wait_is_measured_again() -> None:
    run = Run(cpus=1)
    run.fill(1)
    run.cpu_use = 0.9
    assert set(run.looks(20)) == {NOTHING}
    run.cpu_use = 0.0
    run.scaler.restart_wait()
    assert any(decision.start for decision in run.looks(8))


def bound_load(*numbers: int, starting: int = 0, given_up: int = 0, idle: int = 0) -> PoolLoad:
    """Nodes that are bound by CPU, but for the one of the number `idle`."""
    nodes = {n: Beat(number=1, state="DONE", in_flight=1, done=9, cpu=1.0, is_cpu_bound=n != idle) for n in numbers}
    return PoolLoad(nodes=nodes, starting=starting, given_up=given_up)


@pytest.mark.parametrize(
    ("load", "nodes", "cpus", "bound"),
    [
        (bound_load(1), "1-2", 2, True),
        (bound_load(1), "1-2", 1, False),
        (bound_load(1), "1-1", 2, False),
        (bound_load(1, idle=1), "1-2", 2, False),
        (bound_load(1, 2), "1-4", 2, False),
        (bound_load(1, 2), "1-4", 4, True),
        (bound_load(1, 2, idle=2), "1-4", 4, False),
        (bound_load(1, starting=1), "1-4", 4, False),
        (bound_load(1, given_up=1), "1-2", 4, False),
        (bound_load(), "1-2", 2, False),
    ],
)
def test_nodes_are_bound_by_cpu_if_all_are_and_one_more_may_start_on_a_cpu(
    load: PoolLoad, nodes: str, cpus: int, bound: bool
) -> None:
    scaler = NodeScaler(wait=5.0, idle=60.0, slots=SLOTS, cpus=cpus)
    assert scaler.is_cpu_bound(load, NodeRange.parse(nodes)) is bound


def test_idle_nodes_are_retired_the_last_first_down_to_the_least() -> None:
    run = Run("2-4")
    run.held = dict.fromkeys((3, 1, 4, 2), 0)
    assert set(run.looks(60)) == {NOTHING}
    assert run.look() == ScalingDecision(retire=(4, 3))


def test_only_nodes_without_a_job_for_long_enough_are_retired() -> None:
    run = Run()
    run.leasable = False
    run.held = {1: 0, 2: 1, 3: 0}
    run.looks(50)
    run.worked = {3: 1}  # a job between two looks
    run.looks(10)
    assert run.look() == ScalingDecision(retire=(1,))


def test_a_node_that_starts_counts_for_the_least() -> None:
    run = Run("1-4")
    run.starting = 1
    run.looks(60)
    assert run.look() == ScalingDecision(retire=(1,))
    run = Run("2-4")
    run.starting = 1
    assert set(run.looks(70)) == {NOTHING}

"""Which machines are silent and which one leads, by what one of them reads and its own clock."""

from collections.abc import Mapping

import pytest

from crawl_engine.store.tables.run.machines import LeaderLease, MachineRole, MachineView, SeenMachine
from crawl_engine.supervise.machines.election import SILENT_SECONDS, Election


def view(
    beats: Mapping[int, int], *, leader: int | None = None, roles: Mapping[int, MachineRole] | None = None
) -> MachineView:
    """Machines by number with their counters; they stand by."""
    role = roles or {}
    seen = [SeenMachine(epoch, f"m{epoch}", role.get(epoch, "STANDBY"), count, 1) for epoch, count in beats.items()]
    return MachineView(LeaderLease(leader, 1), tuple(seen))


def watch(
    election: Election, seconds: float, beats: Mapping[int, int], *, leader: int | None = None, start: float = 0.0
) -> float:  # fmt: skip
    """Look for so long, while no counter changes; returns the time then."""
    now = start
    while now < start + seconds:
        now += 0.25
        election.observe(view(beats, leader=leader), now)
    return now


def test_a_machine_whose_counter_stands_for_four_seconds_is_silent() -> None:
    election = Election(2)
    election.observe(view({1: 5, 2: 9}, leader=1), 0.0)
    watch(election, SILENT_SECONDS - 0.5, {1: 5, 2: 9}, leader=1)
    assert not election.silent and not election.should_lead(1)
    watch(election, 0.5, {1: 5, 2: 9}, leader=1, start=SILENT_SECONDS - 0.5)
    assert [machine.epoch for machine in election.silent] == [1]
    assert election.should_lead(1)


def test_a_beat_starts_the_silence_again() -> None:
    election = Election(2)
    now = watch(election, 3.5, {1: 5, 2: 9}, leader=1)
    election.observe(view({1: 6, 2: 9}, leader=1), now + 0.25)
    watch(election, 3.5, {1: 6, 2: 9}, leader=1, start=now + 0.25)
    assert not election.silent


@pytest.mark.parametrize("missed", [False, True], ids=["stopped", "cut off"])
def test_time_in_which_the_observer_could_not_read_counts_for_nobody(missed: bool) -> None:
    election = Election(2)
    now = watch(election, 2.5, {1: 5, 2: 9}, leader=1)
    if missed:
        election.miss()
    election.observe(view({1: 5, 2: 9}, leader=1), now + 3600)
    assert not election.silent


def test_a_machine_never_finds_itself_silent() -> None:
    election = Election(2)
    watch(election, 60, {2: 9}, leader=2)
    assert not election.silent


def test_the_lowest_number_leads_first_and_the_next_one_if_it_does_not() -> None:
    lowest, next_one = Election(3), Election(7)
    for election in (lowest, next_one):
        election.observe(view({3: 1, 7: 1}), 0.0)
    assert lowest.should_lead(1) and not next_one.should_lead(1)
    for count in range(8):  # both beat, and the first one hangs
        next_one.observe(view({3: count, 7: count}), (count + 1) * 0.25)
    assert next_one.should_lead(1)


def test_nobody_leads_beside_a_leader_that_lives() -> None:
    election = Election(1)
    election.observe(view({1: 1, 2: 1}, leader=2), 0.0)
    assert not election.should_lead(1)


def test_a_start_waits_for_a_quorum_and_a_run_that_lost_its_leader_does_not() -> None:
    initial: dict[int, MachineRole] = {1: "INITIAL", 2: "INITIAL"}
    election = Election(1)
    election.observe(view({1: 1}, roles=initial), 0.0)
    assert not election.should_lead(2) and election.missing(2) == 1
    election.observe(view({1: 1, 2: 1}, roles=initial), 0.25)
    assert election.should_lead(2) and election.missing(2) == 0
    alone = Election(1)
    alone.observe(view({1: 1}), 0.0)
    assert alone.should_lead(2)


def test_a_machine_that_leaves_does_not_lead_again() -> None:
    election = Election(2)
    election.observe(view({1: 1, 2: 1}, roles={1: "LEAVING"}), 0.0)
    assert election.should_lead(1) and not election.others
    leaving = Election(1)
    leaving.observe(view({1: 1, 2: 1}, roles={1: "LEAVING"}), 0.0)
    assert not leaving.should_lead(1) and [other.epoch for other in leaving.others] == [2]

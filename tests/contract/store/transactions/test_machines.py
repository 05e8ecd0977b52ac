"""Machines in the store: they join, one leads, the silent ones end, and their jobs are for others."""

import os

import pytest

from crawl_engine import __version__
from crawl_engine.errors import Fenced, UsageError
from crawl_engine.model.node import Role
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.run import commands, machines, nodes, runs
from crawl_engine.store.tables.run.machines import LeaderLease
from crawl_engine.store.transactions.takeover import end_silent, take_lead
from tests.contract.store.harness import StoreHarness


def join(db: Database, identity: str, *, host: str = "web", program: str = __version__) -> int:
    with db.transaction():
        return machines.join(db, identity=identity, host=host, program=program, now=0.0)


def lead(db: Database, epoch: int, *silent: int) -> LeaderLease:
    view = machines.read_view(db, None)
    taken = take_lead(db, epoch, view.lease, [m for m in view.machines if m.epoch in silent], None, 0.0)
    assert taken is not None
    return taken


def test_the_row_of_a_machine_and_its_beats(store: StoreHarness) -> None:
    first, second = join(store.db, "boot:2:1"), join(store.db, "boot:3:1")
    assert machines.beat(store.db, first) and machines.beat(store.db, first) and machines.beat(store.db, second)
    seen = {machine.epoch: machine for machine in machines.read_view(store.db, None).machines}
    assert (seen[first].name, seen[first].role, seen[first].beats) == ("web", "INITIAL", 2)
    assert (seen[second].name, seen[second].beats) == (f"web-{second}", 1)
    rows = machines.list_machines(store.db, store.run)
    assert [(row.name, row.leader, row.role) for row in rows[1:]] == [
        ("web", False, "INITIAL"), (f"web-{second}", False, "INITIAL"),
    ]  # fmt: skip
    assert all(0 <= row.heart < 60 for row in rows[1:])


def test_a_machine_of_another_version_is_refused(store: StoreHarness) -> None:
    join(store.db, "boot:2:1", program="0.0.9")
    with pytest.raises(UsageError, match=r"machine web works here with crawl-console 0\.0\.9"):
        join(store.db, "boot:3:1")


def test_one_of_two_takes_the_lead(store: StoreHarness) -> None:
    first, second = join(store.db, "boot:2:1"), join(store.db, "boot:3:1")
    seen = machines.get_lease(store.db)
    lease = take_lead(store.db, first, seen, [], None, 0.0)
    assert lease == LeaderLease(first, seen.fence + 1)
    assert take_lead(store.db, second, seen, [], None, 0.0) is None
    assert take_lead(store.db, second, lease, [], None, 0.0) is None, "the leader has not ended"
    machines.check_leader(store.db, lease)


def test_a_silent_leader_is_fenced_and_its_jobs_are_for_others(store: StoreHarness) -> None:
    old, new = join(store.db, "boot:2:1"), join(store.db, "boot:3:1")
    lease = lead(store.db, old)
    with store.db.transaction():
        node, _ = nodes.insert(store.db, store.run, old, Role.RUNNER, None, 0.0)
        assert nodes.register(store.db, node, "DONE", os.getpid(), "boot:9:9")
        appender = nodes.insert_appender(store.db, store.run, old, 0.0)
    store.seed("http://a/1", "http://a/2")
    assert len(store.take("http://a/1", node=node)) == 2
    assert machines.beat(store.db, old)
    taken = lead(store.db, new, old)
    assert taken.epoch == new and taken.fence > lease.fence
    with pytest.raises(Fenced):
        machines.check_leader(store.db, lease)
    with pytest.raises(Fenced):
        machines.check_member(store.db, old)
    with pytest.raises(Fenced):
        nodes.check_live(store.db, node)
    assert not nodes.is_appender_alive(store.db, appender)
    assert not machines.beat(store.db, old)
    assert store.db.value("SELECT count(*) FROM jobs WHERE state = 'READY'") == 2
    store.check_counters()


def test_a_machine_that_beats_again_before_its_end_stays(store: StoreHarness) -> None:
    machine = join(store.db, "boot:2:1")
    (seen,) = [m for m in machines.read_view(store.db, None).machines if m.epoch == machine]
    machines.beat(store.db, machine)
    with store.db.transaction():
        assert end_silent(store.db, [seen], store.run, 0.0) == []
    machines.check_member(store.db, machine)


def test_nobody_leads_a_run_that_has_ended(store: StoreHarness) -> None:
    machine = join(store.db, "boot:2:1")
    with store.db.transaction():
        runs.end(store.db, store.run, 0.0, 0, None)
    assert take_lead(store.db, machine, machines.get_lease(store.db), [], store.run, 0.0) is None


def test_files_of_another_machine_are_written_from_their_first_row(store: StoreHarness) -> None:
    with store.db.transaction():
        outputs.ensure(
            store.db, store.run, appender="a", type_="csv", data_def="book", path="/data/book.csv", settings={}
        )
        (output,) = outputs.list_outputs(store.db, store.run)
        outputs.advance(store.db, output.id, cursor=9, size=100, rows=9, inode=7)
        outputs.begin_files_again(store.db, store.run)
    (output,) = outputs.list_outputs(store.db, store.run)
    assert (output.cursor, output.bytes, output.rows, output.inode) == (0, 0, 0, None)


def test_a_command_is_handed_to_the_machine_that_has_the_node(store: StoreHarness) -> None:
    machine = join(store.db, "boot:2:1")
    with store.db.transaction():
        _, number = nodes.insert(store.db, store.run, machine, Role.RUNNER, None, 0.0)
        command = commands.submit(store.db, store.supervisor, "kill", {"node": f"n{number}"}, 0.0)
        assert nodes.list_owners(store.db, store.run)[number] == machine
        commands.hand_over(store.db, command, machine)
        commands.expire(store.db, 0.0)
    assert [c.id for c in commands.list_new(store.db, machine, limit=9, max_bytes=99)] == [command]
    assert commands.list_new(store.db, store.supervisor, limit=9, max_bytes=99) == []

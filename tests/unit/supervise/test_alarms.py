"""Alarms are a function of the situation: they end when their cause ends; the past and what was ordered raise none."""

import pytest

from crawl_engine.judge.trouble import RunJudge, without_supervisor
from crawl_engine.model.run import Alarm, RunState, Stage
from crawl_engine.store.read.data_warnings import DataWarning
from crawl_engine.store.read.situation import HostWork, Situation
from tests.console.builders import node, output, run

DEAD = {"state": "DEAD", "role": "DEAD_RUNNER", "pid": None, "reason": "died: signal 9"}


def judge(situation):
    return RunJudge().update(situation)[1]


def alarms(**changes):
    return [(alarm.level, alarm.text) for alarm in judge(Situation(1_000.0, **changes))]


def host_alarms(*hosts):
    found = judge(Situation(1_000.0, hosts=dict(enumerate(hosts))))
    return [(alarm.code, alarm.text, alarm.host) for alarm in found]


def test_a_death_is_an_alarm_until_its_replacement_is_at_work():
    assert alarms(nodes=[node(1, **DEAD)]) == [("warn", "n1 dead: signal 9; a new node follows")]
    for final in ({"state": "FAILED"}, {"heart": "APPARENT_DEATH"}):
        assert alarms(nodes=[node(1, **{**DEAD, **final})]) == [("bad", "n1 dead: signal 9; not replaced")]
    starting = node(2, "STARTING", replaces="n1")
    assert alarms(nodes=[node(1, **DEAD), starting]) == [("warn", "n1 dead: signal 9; n2 is starting")]
    assert alarms(nodes=[node(1, **DEAD), node(2, replaces="n1")]) == []


@pytest.mark.parametrize("state", ["DRAINING", "SHUTDOWN", "TERMINATED", "READY"])
def test_a_death_is_over_when_its_replacement_was_at_work(state):
    assert alarms(nodes=[node(1, **DEAD), node(2, state, replaces="n1")]) == []


def test_a_replacement_that_dies_has_the_alarm():
    dead = [node(1, **DEAD), node(2, **{**DEAD, "replaces": "n1", "reason": "no beat for 3.0 s; killed"})]
    assert alarms(nodes=dead) == [("warn", "n2 dead: no beat for 3.0 s; killed; a new node follows")]
    third = node(3, "STARTING", replaces="n2")
    assert alarms(nodes=[*dead, third]) == [("warn", "n2 dead: no beat for 3.0 s; killed; n3 is starting")]
    assert alarms(nodes=[*dead, node(3, "DONE", replaces="n2")]) == []


@pytest.mark.parametrize("changes", [{"past": True}, {"reason": "killed by an operator"}])
def test_the_past_and_an_order_are_no_alarm(changes):
    assert alarms(nodes=[node(1, **{**DEAD, **changes})]) == []


def test_a_pause_is_an_order_and_no_alarm():
    assert alarms(paused="operator", paused_pages=40) == []


def test_an_output_that_cannot_be_written_and_a_dead_appender_are_alarms():
    broken = [output("crm/book", error="ValueError: no room", backlog=7), output("rows/book")]
    assert alarms(outputs=broken) == [("bad", "crm/book cannot be written, backlog 7: ValueError: no room")]
    assert alarms(outputs=[output(pid=None, beat_age=None)]) == [], "it starts"
    assert alarms(outputs=[output(pid=None, beat_age=None)], appender_lost=True) == [
        ("bad", "the appender is dead and starts again; backlog 12")
    ]
    assert alarms(outputs=[output(beat_age=2.1)]) == [
        ("warn", "the appender has sent no heartbeat for 2.1 s; backlog 12")
    ]
    assert alarms(outputs=[output()]) == []


@pytest.mark.parametrize(
    ("reason", "code", "text"),
    [
        ("HTTP 429", "host-resting", "a:80 rests 9 s after HTTP 429"),
        ("HTTP 503", "host-resting", "a:80 rests 9 s after HTTP 503"),
        ("HTTP 403", "host-refused", "a:80 refuses the crawler: HTTP 403; asked again in 9 s"),
        (
            "challenge (cf-mitigated: challenge)", "host-refused",
            "a:80 refuses the crawler: challenge (cf-mitigated: challenge); asked again in 9 s",
        ),
    ],
)  # fmt: skip
def test_a_host_that_refuses_is_told_from_one_that_rests(reason, code, text):
    rests = HostWork(5.0, 1, "a:80", 0.0, 1_009.0, 1, reason)
    assert host_alarms(rests) == [(code, text, "a:80")]
    again = HostWork(5.0, 1, "a:80", 0.0, 999.0, 1, reason)
    assert [found[0] for found in host_alarms(again)] == [code] * (code == "host-refused"), "it has served no page yet"
    assert host_alarms(HostWork(0.0, 6, "a:80", 0.0, 1_009.0, 1, reason)) == [], "no page waits for it"


@pytest.mark.parametrize("reason", [None, "HTTP 429", "HTTP 403", "challenge (cf-mitigated: challenge)"])
def test_a_silent_host_is_one_alarm_whatever_it_answered_before(reason):
    hangs = HostWork(5.0, 1, "a:80", 0.0, 1_009.0, 1, reason, silent=24.0)
    blocked = [DataWarning("blocked", "a:80 refused 9 of 10 requests", host="a:80")] if reason == "HTTP 403" else []
    found = judge(Situation(1_000.0, hosts={1: hangs}, deadline=30.0, warnings=blocked))
    assert [alarm.code for alarm in found] == ["host-silent"]


def test_many_hosts_that_refuse_are_one_alarm():
    hosts = [HostWork(5.0, 1, f"{name}:80", 0.0, 1_009.0, 1, "HTTP 403") for name in "abcdef"]
    blocked = [DataWarning("blocked", f"{host.key} refused 9 of 10 requests", host=host.key) for host in hosts]
    found = judge(Situation(1_000.0, hosts=dict(enumerate(hosts)), warnings=blocked))
    assert [(alarm.code, alarm.count) for alarm in found] == [("host-refused", 6)]


def test_many_hosts_with_one_trouble_are_one_alarm():
    hosts = [
        HostWork(5.0, 1, f"{name}:80", 0.0, 1_001.0 + number, 1, "HTTP 429") for number, name in enumerate("abcdef")
    ]
    assert host_alarms(*hosts) == [("host-resting", "6 hosts rest; f:80 rests 6 s after HTTP 429", None)]


def test_a_warning_is_an_alarm_of_the_same_code_until_it_ends():
    empty = DataWarning("empty-field", "book.price was never filled in 40 records", "book", subject="price")
    seeds = DataWarning("empty-seeds", "no URL in a.txt, the seeds of the group g", subject="a.txt")
    over = DataWarning("dropped-rows", "recovered: book gave 20 rows a page", "book", ended=True)
    found = judge(Situation(1.0, warnings=[empty, seeds, over]))
    assert [alarm.as_dict() for alarm in found] == [
        {
            "code": "empty-field", "text": empty.text, "host": None, "data_def": "book", "field": "price",
            "since": 0.0, "acknowledged": False,
        },
        {
            "code": "empty-seeds", "text": seeds.text, "host": None, "data_def": None, "field": None, "since": 0.0,
            "acknowledged": False,
        },
    ]  # fmt: skip
    assert [alarm.key for alarm in found] == ["filled book price", "empty-seeds a.txt"]


def test_one_host_that_refuses_is_one_alarm():
    refusing = HostWork(5.0, 1, "a:80", 0.0, 1_009.0, 1, "HTTP 403")
    blocked = DataWarning("blocked", "a:80 refused 9 of 10 requests", host="a:80")
    found = judge(Situation(1_000.0, hosts={1: refusing}, warnings=[blocked]))
    assert [alarm.code for alarm in found] == ["host-refused"]
    assert judge(Situation(1_000.0, warnings=[blocked])) == [], "it is judged by its last answers"
    ended = Situation(1_000.0, stage=Stage.CRAWL_COMPLETE, warnings=[blocked])
    assert [alarm.code for alarm in judge(ended)] == ["blocked"]


def test_the_worst_alarm_is_the_first():
    problem = {"file": "defs/a.yml", "line": 3, "col": 7, "message": "unknown key"}
    found = judge(
        Situation(
            1_000.0, RunState.FAILED, reason="no space", disk="disk nearly full", defs_problems=[problem, problem],
            hosts={1: HostWork(5.0, 1, "a:80", 0.0, 1_009.0, 1, "HTTP 429")},
        )
    )  # fmt: skip
    assert [(alarm.code, alarm.level) for alarm in found] == [
        ("disk-low", "bad"), ("run-failed", "bad"), ("defs-rejected", "bad"), ("host-resting", "warn")
    ]  # fmt: skip


def test_alarms_of_processes_and_hosts_end_with_their_supervisor():
    kept = [Alarm("node-lost", "n1 dead"), Alarm("host-refused", "a:80"), Alarm("empty-field", "book.price")]
    lost = without_supervisor(kept, run())
    assert [alarm.code for alarm in lost] == ["supervisor-lost", "empty-field"]
    ended = without_supervisor(kept, run(stage=Stage.SHUTDOWN_COMPLETE))
    assert [alarm.code for alarm in ended] == ["jobs-ready", "empty-field"]
    done = without_supervisor(kept, run(state="DONE", stage=Stage.SHUTDOWN_COMPLETE))
    assert [alarm.code for alarm in done] == ["empty-field"]


def test_a_doubt_about_a_value_names_its_field():
    doubt = DataWarning("digits-left", "book.price: `match` …", "book", subject="price")
    [alarm] = judge(Situation(1_000.0, warnings=[doubt]))
    assert (alarm.code, alarm.level, alarm.data_def, alarm.field) == ("digits-left", "warn", "book", "price")


FAILING = Alarm("failing-requests", "a:80 fails: 9 of the last 50 answers bad (HTTP 500)", host="a:80", since=3.0)


def situation(good, bad=0, stage=Stage.RUNNING, at=1_000.0, **changes):
    work = HostWork(5.0, good, "a:80", waiting=5, answers={200: good, 500: bad}, bad=bad, **changes)
    return Situation(at, hosts={1: work}, stage=stage)


def test_an_alarm_of_an_earlier_start_ends_by_good_answers_of_its_host():
    judge_ = RunJudge([FAILING])
    assert judge_.update(Situation(1_000.0, stage=Stage.START_NODES))[1] == [FAILING]
    for number, good in enumerate((90, 90, 92, 94)):
        assert judge_.update(situation(good, 5, at=1_001.0 + number))[1] == [FAILING]
    assert judge_.update(situation(95, 5, at=1_010.0))[1] == []
    assert judge_.update(situation(95, 5, at=1_011.0))[1] == []


def fleet(good, bad=0, names="abcdef", at=1_000.0):
    works = [HostWork(5.0, good, f"{name}:80", waiting=5, answers={200: good, 500: bad}, bad=bad) for name in names]
    return Situation(at, hosts=dict(enumerate(works)))


def test_an_alarm_of_many_hosts_is_one_over_a_resume_until_few_are_left():
    [group] = RunJudge().update(fleet(5, 9))[1]
    assert (group.key, group.count) == ("failing-requests", 6)
    again = RunJudge([group])
    assert again.update(Situation(1_000.0, stage=Stage.START_NODES))[1] == [group]
    for number in range(100):
        assert again.update(fleet(9, at=1_001.0 + number))[1] == [group], "no host has answered since"
    recovers, others = HostWork(5.0, 99, "a:80", waiting=5, answers={200: 99}), fleet(9, at=1_200.0)
    left = again.update(Situation(1_200.0, hosts={**others.hosts, 0: recovers}))[1]
    assert [alarm.text for alarm in left] == [f"{name}:80 has not answered well since this start" for name in "bcdef"]
    assert again.update(fleet(99, at=1_300.0))[1] == []


def test_an_alarm_of_many_hosts_that_are_not_known_ends_with_its_start():
    group = Alarm("failing-requests", "6 hosts fail; a:80 fails", count=6)
    assert RunJudge([group]).update(fleet(9))[1] == []


def test_a_host_that_fails_again_stays_in_the_alarm_of_many_hosts():
    [group] = RunJudge().update(fleet(5, 9))[1]
    again = RunJudge([group])
    again.update(fleet(5, 9, "bcdef"))
    [still] = again.update(fleet(5, 9, "abcdef"))[1]
    assert (still.key, still.count, sorted(still.members)) == (group.key, 6, sorted(group.members))
    [fewer] = RunJudge([group]).update(fleet(5, 9, "b"))[1]
    assert (fewer.key, fewer.count, fewer.members[0]) == (group.key, 6, "reach b:80"), "five of them are not proven"


def test_a_stop_heals_nothing():
    judge_ = RunJudge()
    [alarm] = judge_.update(situation(5, 9))[1]
    assert alarm.code == "failing-requests"
    for stage in (Stage.INTERRUPTED, Stage.STOPPING_NODES_GRACEFUL, Stage.SHUTDOWN_COMPLETE):
        assert judge_.update(situation(5, 9, stage, 1_001.0))[1] == [alarm]


def test_a_host_has_one_trouble_whatever_it_is_called_now():
    codes = ("host-silent", "host-refused", "host-resting", "blocked", "failing-requests")
    assert {Alarm(code, "x", host="a:80").key for code in codes} == {"reach a:80"}
    fields = ("empty-field", "dropped-field", "less-filled")
    assert {Alarm(code, "x", data_def="book", field="isbn").key for code in fields} == {"filled book isbn"}
    assert len({Alarm(code, "6 hosts", count=6).key for code in codes}) == 5


def test_trouble_of_the_data_comes_before_trouble_of_the_pace():
    empty = DataWarning("empty-field", "book.price was never filled in 40 records", "book", subject="price")
    resting = HostWork(5.0, 1, "a:80", 0.0, 1_009.0, 1, "HTTP 429")
    found = judge(Situation(1_000.0, hosts={1: resting}, warnings=[empty]))
    assert [alarm.code for alarm in found] == ["empty-field", "host-resting"]

"""A host is silent while it keeps requests waiting and answers none, over attempts that reach their deadline."""

import pytest

from crawl_engine.supervise.analysis.host_watch import SilenceWatch


def test_a_hanging_host_is_silent_over_its_attempts_until_it_answers() -> None:
    watch = SilenceWatch(30.0)
    for now in range(15):
        watch.update({1: 0.0}, (), float(now))
    assert watch.seconds(1, 14.0) == 0.0
    watch.update({1: 0.0}, (), 15.0)
    assert watch.seconds(1, 15.0) == 15.0
    watch.update({1: 0.0}, (), 19.0)  # the supervisor is late
    for now in (30.0, 31.0):
        watch.update({}, (), now)  # its job waits for its second attempt
    for now in range(32, 45):
        watch.update({1: 32.0}, (), float(now))
    assert watch.seconds(1, 44.0) == 44.0
    watch.update({1: 32.0}, {1}, 45.0)
    assert watch.seconds(1, 45.0) == 0.0
    watch.update({}, (), 46.0)
    assert watch.seconds(1, 46.0) == 0.0


def test_a_host_that_answers_is_never_silent_for_long() -> None:
    watch = SilenceWatch(30.0)
    for now in range(100):
        watch.update({1: now - now % 4.0, 2: float(now)}, (), float(now))
        assert watch.seconds(1, float(now)) <= 4.0
        assert watch.seconds(2, float(now)) == 0.0


@pytest.mark.parametrize(("takes", "late"), [((20,), 0), ((16, 18, 22, 26), 2), ((17, 3, 24, 1), 4)])
def test_a_slow_host_is_not_silent_again_with_each_page(takes: tuple[int, ...], late: int) -> None:
    """`late`: seconds from an answer to its commit; the next request is under way by then."""
    watch, at, began, silent = SilenceWatch(30.0), 0, [], False
    answers = []
    for take in takes * 20:
        at += take
        answers.append(at)
    for now in range(at):
        sent = max([0, *(answer for answer in answers if answer <= now)])
        watch.update({1: float(sent)}, {1} if now - late in answers else (), float(now))
        if (watch.seconds(1, float(now)) >= 15.0) is not silent:
            silent = not silent
            if silent:
                began.append(now)
    assert len(began) <= 2
    for now in range(at, at + 46):
        watch.update({1: float(at)} if now < at + 30 else {1: at + 31.0}, (), float(now))
    assert watch.seconds(1, at + 45.0) >= 45.0, "it hangs now"


def test_a_host_that_hung_is_silent_as_early_the_next_time() -> None:
    watch = SilenceWatch(30.0)
    for now in range(70):
        sent = 0.0 if now < 30 else 31.0 if now < 61 else 62.0
        watch.update({1: sent}, (), float(now))
    watch.update({1: 62.0}, {1}, 70.0)
    for now in range(71, 87):
        watch.update({1: 70.0}, (), float(now))
    assert watch.seconds(1, 86.0) == 16.0


def test_one_request_that_hangs_beside_others_that_are_answered_is_no_silence() -> None:
    watch = SilenceWatch(30.0)
    for now in range(30):
        watch.update({1: 0.0}, {1}, float(now))
        assert watch.seconds(1, float(now)) == 0.0


def test_refused_connections_are_no_silence() -> None:
    watch = SilenceWatch(2.0)
    for now in range(20):
        watch.update({1: float(now)} if now % 2 else {}, (), now + 0.5)
        assert watch.seconds(1, now + 0.5) <= 0.5

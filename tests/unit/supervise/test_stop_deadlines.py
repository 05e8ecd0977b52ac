"""A stop that was asked for ends in time, whatever its stages take."""

import pytest

from crawl_engine.settings import Settings
from crawl_engine.supervise.stages import StopDeadlines


@pytest.mark.parametrize("limit", [1.0, 5.0, 28.0, 120.0])
@pytest.mark.parametrize("grace", [0.0, 25.0, 600.0])
def test_the_stages_follow_each_other_before_the_end(limit: float, grace: float) -> None:
    settings = Settings(stop_within=limit, grace=grace)
    deadlines = StopDeadlines(settings)
    deadlines.bound(100.0)
    now, end = 100.0, 100.0 + limit
    assert settings.job_grace <= grace
    assert now + settings.job_grace < end
    for stage in (deadlines.nodes, deadlines.nodes_forced, deadlines.files, deadlines.files_forced):
        assert now < stage(now) < end
        now = stage(now)
    assert now < deadlines.busy(now, processes_alive=True) < end
    assert now < deadlines.helpers() < end


def test_by_default_a_stop_fits_a_container_and_the_whole_grace() -> None:
    assert Settings().stop_seconds == 28.0
    assert Settings().job_grace == Settings().grace == 25.0
    assert Settings(grace=60.0).stop_seconds == 63.0
    assert Settings(grace=60.0).job_grace == 60.0
    assert Settings(grace=60.0, stop_within=10.0).job_grace == 7.0


def test_a_second_request_and_a_natural_end_have_their_own_time() -> None:
    deadlines = StopDeadlines(Settings())
    assert deadlines.nodes(0.0) == 1800.0
    assert deadlines.files(0.0) == 300.0
    deadlines.bound(0.0)
    deadlines.bound(20.0)
    assert deadlines.files(10.0) < 28.0

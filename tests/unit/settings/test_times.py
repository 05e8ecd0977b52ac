"""Times on the command line and in settings: seconds, or a number with a unit."""

import pytest

from crawl_console.cli.main import main
from crawl_engine.errors import UsageError
from crawl_engine.settings import load_settings
from crawl_engine.settings.values import parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), (".5", 0.5), ("250ms", 0.25), ("90s", 90), ("5m", 300), ("2 h", 7200), ("1d", 86400),
     ("PT5M", 300), ("P1D", 86400), ("0", 0), (3, 3), (0.5, 0.5)],
)  # fmt: skip
def test_times_are_read(text: object, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5 minutes", "m", "1m30s", "PT", "P1Y", "five", "5M", True])
def test_what_is_no_time_is_refused(text: object) -> None:
    with pytest.raises(ValueError):
        parse_seconds(text)


def test_settings_take_times() -> None:
    settings = load_settings({"delay": "250ms", "max_time": "5m", "grace": "1m"}, environment={"CRAWL_DEADLINE": "1m"})
    assert (settings.delay, settings.max_time, settings.grace, settings.deadline) == (0.25, 300, 60, 60)
    assert load_settings({"max_time": "none"}, environment={}).max_time is None
    with pytest.raises(UsageError) as error:
        load_settings({"deadline": "soon"}, environment={})
    assert "a time such as 90s" in str(error.value)
    with pytest.raises(UsageError):
        load_settings({"deadline": "1ms"}, environment={})


@pytest.mark.parametrize(("option", "value"), [("--max-time", "5x"), ("--max-time", "10ms"), ("--grace", "-1")])
def test_flags_refuse_what_is_no_time(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--no-ui", option, value])
    assert ended.value.code == 2
    assert option in capsys.readouterr().err

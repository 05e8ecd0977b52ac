"""The history below the current alarms: an alarm stands once, and so does a warning that came again."""

from crawl_console.words.alarm_table import without_current
from crawl_engine.model.run import Alarm
from crawl_engine.store.tables.run.events import Event


def test_the_history_has_no_current_alarm_and_each_warning_once() -> None:
    texts = [
        "a:80 fails: 3 of 9",
        "b:80 is silent for 9 s",
        "a:80 fails: 8 of 20",
        "b:80 is silent for 24 s",
        "another",
    ]
    history = [(id_, Event(float(id_), "WARNING", "n1", "host", text)) for id_, text in enumerate(texts)]
    current = Alarm("failing-requests", "a:80 fails: 12 of 31")
    assert [event.text for _, event in without_current(history, [current])] == ["b:80 is silent for 24 s", "another"]

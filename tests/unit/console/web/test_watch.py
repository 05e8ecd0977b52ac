"""What those who listen to a data dir are told."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

from crawl_console.web.watch import Watch


def test_lines_that_come_while_a_view_is_read_are_told_once(tmp_path: Path) -> None:
    lines: list[tuple[int, Any]] = [(4, None), (5, None)]

    class Source(Mock):
        def last_event_id(self) -> int:
            last = lines[-1][0]
            lines.append((last + 1, None))  # a node commits now
            return last

        def events(self, run: int, after: int, limit: int) -> list[tuple[int, Any]]:
            return [line for line in lines if line[0] > after][:limit]

    watch = Watch("shop", tmp_path)
    watch._source = Source()
    told: list[int] = []
    before = Mock(last_event=4, error=None)
    for _ in range(3):
        before.last_event, found = watch._new_lines(1, before)
        told += [id_ for id_, _ in found]
    assert told == [5, 6, 7, 8]
    watch.close()

"""What the crawl gave so far: rows, rejected records and the least filled field of each dataDef."""

from collections.abc import Sequence

from crawl_console.crawl.source import PollResult
from crawl_console.format import Span
from crawl_console.tui.widgets.pane import ListPane
from crawl_console.words.result_lines import DATA_HEADINGS, DataDefLine, data_lines, data_spans


class DataPane(ListPane):
    """Lists the dataDefs that were applied; those with a warning first."""

    TITLE = "data"
    HEADINGS = DATA_HEADINGS
    EMPTY = "nothing yet"

    def update_from(self, poll: PollResult) -> None:
        self.show(data_lines(poll.snapshot))

    def spans(self, item: DataDefLine) -> tuple[str, Sequence[Span]]:
        return data_spans(item)

"""Charts: stacked areas, lines, scale, grid and time axis; the same peak however wide they are."""

from crawl_console.tui.screens.plots import AnswersPlot, LatencyPlot, RowsPlot
from crawl_console.tui.widgets.chart import Point, draw_points, tick_positions, time_axis
from crawl_engine.store.tables.run.samples import Sample
from tests.console.builders import AT, run, samples, snapshot
from tests.console.fakes import FakeSource, open_console


def drawn(columns):
    """The rows of cells from the top."""
    return ["".join((cell or " ")[0] for cell in row) for row in reversed(list(zip(*columns, strict=True)))]


def test_parts_are_stacked_to_their_share():
    points = [Point([(6.0, "good"), (2.0, "bad")]), Point([(1.0, "good")])]
    [column] = draw_points(points, 8.0, 4)
    assert drawn([column]) == ["⡇", "⡇", "⡇", "⣧"]
    assert [role for _, role in column] == ["good", "good", "good", "bad"]
    assert draw_points([Point([(0.01, "good")]), Point()], 8.0, 2) == [[("⡀", "good"), None]], "what is there is seen"
    assert draw_points([Point([(0.0, "good")])] * 2, 0.0, 2) == [[None, None]]


def test_a_line_goes_from_each_value_to_the_next_above_its_area():
    points = [Point([(1.0, "accent")], 1.0), Point([(1.0, "accent")], 4.0), Point((), 4.0), Point()]
    columns = draw_points(points, 4.0, 2)
    assert drawn(columns) == ["⢸⠁", "⣼ "]
    assert columns[1] == [None, ("⠁", "warn")]
    assert columns[0][0] == ("⣼", "accent")


def test_the_axis_names_both_ends():
    axis = time_axis(60, 1_000.0, 300.0, clock=lambda at: f"{at:.0f}")
    assert axis.startswith("700")
    assert axis.endswith("1000")
    assert len(axis) == 60
    assert {0, 59} <= tick_positions(60)


def test_the_peak_is_the_same_at_every_width():
    for plot in (AnswersPlot(), RowsPlot(), LatencyPlot()):
        plot.samples, plot.seconds, plot.ends_at = samples(), 300.0, AT + 300
        assert plot.peak() == max(plot.height(sample) for sample in plot.samples if sample.at >= AT)
    narrow, wide = AnswersPlot(), AnswersPlot()
    for plot in (narrow, wide):
        plot.samples = samples()
    assert narrow.labels()[1] == wide.labels()[1]


def test_a_gap_is_filled_for_a_short_time_only():
    plot = RowsPlot()
    plot.samples, plot.seconds, plot.ends_at = [Sample(AT, 1.0, 5.0, 0, 0)], 300.0, AT + 200
    columns = plot.columns(60)
    filled = [index for index, column in enumerate(columns) if column]
    assert len(filled) == 3, "12 of 300 seconds"


async def test_errors_are_stacked_by_class_with_a_strip_each(tmp_path, monkeypatch):
    monkeypatch.setattr("crawl_console.tui.screens.plots.time.time", lambda: AT + 300)
    source = FakeSource()
    source.samples_ = samples()
    async with open_console(tmp_path, source=source, screen="plots", size=(160, 48)) as console:
        await console.until(lambda: "429" in console.screen())
        for words in ("2xx", "4xx", "429", "5xx", "server errors  now 3.0", "area p50", "line p95"):
            assert words in console.screen()
        strips = [line for line in console.text() if line[1:4] in ("429", "5xx")]
        starts = [next(at for at, sign in enumerate(line) if "⠀" < sign <= "⣿") for line in strips]
        assert starts[0] < starts[1], "over the same time"
        assert not set("░▒▓█╬│▲●") & set("".join(console.text()[4:])), "braille throughout"
        assert "22:13:20" in console.screen()
        assert "22:18:20" in console.screen()
        assert "┈" in console.screen(), "a grid"


async def test_the_range_is_the_age_of_the_run_and_ends_with_it(tmp_path, monkeypatch):
    """The first seconds fill the frame, and an ended run keeps its tail."""
    monkeypatch.setattr("crawl_console.tui.screens.plots.time.time", lambda: AT + 4_000)
    source = FakeSource()
    for seconds, shown in ((20, "20s"), (4 * 60 + 5, "4m05"), (3 * 3600, "3h00")):
        source.samples_ = [Sample(AT + at, 5.0, 5.0, 0, 3, {"2xx": 5.0}, 0.1, 0.2) for at in (0, seconds / 2, seconds)]
        source.current = snapshot(run=run(state="KILLED", stage="SHUTDOWN_COMPLETE"))
        source.supervisor = None
        async with open_console(tmp_path, source=source, screen="plots", size=(120, 40)) as console:
            await console.until(lambda shown=shown: f"the whole run, {shown}" in console.screen())
            plot = console.app.navigation.top.plots[0]
            columns = plot.columns(50)
            assert any(columns[:4]), "it begins with the run"
            assert columns[-1][-1].at == AT + seconds, "and ends with it"


async def test_a_narrow_window_shows_two_plots_of_use(tmp_path):
    source = FakeSource()
    source.samples_ = samples()
    async with open_console(tmp_path, source=source, screen="plots") as console:
        await console.until(lambda: "answers a second" in console.screen() and "latency" in console.screen())
        assert "queue" not in "\n".join(console.text()[4:])
        await console.press("tab", "tab")
        await console.until(lambda: "rows a second" in console.screen() and "─ queue" in console.screen())

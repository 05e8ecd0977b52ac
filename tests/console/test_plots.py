"""Charts: stacked columns, ranges, scale, grid and time axis; the same peak however wide they are."""

from console.tui.screens.plots import AnswersPlot, LatencyPlot, RowsPlot
from console.tui.widgets.chart import Part, Range, range_column, stacked_column, tick_positions, time_axis
from engine.store.tables.run.samples import Sample
from tests.console.builders import AT, run, samples, snapshot
from tests.console.fakes import FakeSource, open_console


def test_parts_are_stacked_to_their_share():
    column = stacked_column([Part(6.0, "a", "good"), Part(2.0, "b", "bad")], 8.0, 4)
    assert column == [("a", "good"), ("a", "good"), ("a", "good"), ("b", "bad")]
    assert stacked_column([Part(1.0, "a", "good")], 8.0, 4) == [("▄", "good"), None, None, None]
    assert stacked_column([], 8.0, 2) == [None, None]
    assert stacked_column([Part(0.0, "a", "good")], 0.0, 2) == [None, None]


def test_a_range_has_a_mark_at_either_end():
    assert range_column(Range(1.0, 3.5), 4.0, 4) == [None, ("●", "accent"), ("│", "dim"), ("▲", "warn")]
    assert range_column(Range(None, None), 4.0, 2) == [None, None]
    assert range_column(Range(4.0, 4.0), 4.0, 2) == [None, ("●", "accent")]


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


async def test_errors_are_stacked_by_class_with_a_sign_each(tmp_path, monkeypatch):
    monkeypatch.setattr("console.tui.screens.plots.time.time", lambda: AT + 300)
    source = FakeSource()
    source.samples_ = samples()
    async with open_console(tmp_path, source=source, screen="plots", size=(160, 48)) as console:
        await console.until(lambda: "429" in console.screen())
        for sign in ("░ 2xx", "▓ 4xx", "█ 429", "╬ 5xx", "server errors  now 3.0", "● p50", "▲ p95"):
            assert sign in console.screen()
        assert "22:13:20" in console.screen()
        assert "22:18:20" in console.screen()
        assert "┈" in console.screen(), "a grid"


async def test_the_range_is_the_age_of_the_run_and_ends_with_it(tmp_path, monkeypatch):
    """The first seconds fill the frame, and an ended run keeps its tail."""
    monkeypatch.setattr("console.tui.screens.plots.time.time", lambda: AT + 4_000)
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

"""Every screen, what leads into it and out of it."""

import pytest

from tests.console.fakes import FakeSource, held, line, look, node, run, samples


async def test_nodes_show_state_as_sign_and_word(tmp_path):
    async with held(tmp_path) as console:
        text = console.whole()
        for told in ("▶ ready", "◐ drain", "● done", "! stale", "✗ dead", "○ standby", "SIGKILL · replaced by n7"):
            assert told in text
        assert "finishing 1 job" in text
        assert "no beat; img.example/a.png" in text
        assert "ready 12480 run 16 retry 41 failed 7" in text
        assert "4 Failed!7" in text


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("2", "shop.example/item/1"), ("3", "ROBOTS"), ("4", "HTTP 500"), ("5", "DATADEF"), ("6", "log all"),
        ("7", "pages a second"), ("1", "NODE"),
    ],
)  # fmt: skip
async def test_digits_lead_to_screens(tmp_path, key, told):
    async with held(tmp_path) as console:
        await console.press(key)
        await console.until(lambda: told in console.whole())


async def test_a_node_leads_to_its_jobs_and_a_job_and_back(tmp_path):
    async with held(tmp_path) as console:
        await console.press("enter")
        await console.until(lambda: "Nodes > Jobs /node:n1" in console.whole())
        await console.until(lambda: "shop.example/item/1" in console.whole())
        await console.press("enter")
        await console.until(lambda: "job 1 DONE" in console.whole())
        assert "job 1" in console.text()[2]
        for tab, told in (("Page", "server: tea/1"), ("Error", "no error"), ("Attempts", "84 ms"), ("Rows", "1.50")):
            await console.press("tab")
            await console.until(lambda: f"[{tab}]" in console.whole() and told in console.whole())  # noqa: B023
        await console.press("escape", "escape")
        await console.until(lambda: "NODE" in console.whole())
        assert len(console.app.navigation.view_stack) == 1


async def test_a_line_of_the_log_leads_to_its_job(tmp_path):
    async with held(tmp_path, screen="log") as console:
        await console.press("k", "k", "enter")
        await console.until(lambda: "job 2 FAILED" in console.whole())
        assert "[Error]" in console.whole()


async def test_tab_brings_the_next_pane_into_a_narrow_window(tmp_path):
    async with held(tmp_path) as console:
        assert "sequences 2" not in console.whole()
        await console.press("tab", "tab")
        await console.until(lambda: "sequences 2" in console.whole())
        assert "‖ detail" in console.whole()
        await console.press("tab", "tab", "tab", "tab")
        await console.until(lambda: "alarms" in console.whole() and "n5 dead" in console.whole())


async def test_wide_windows_show_all_panes(tmp_path):
    async with held(tmp_path, size=(160, 48)) as console:
        for told in ("sequences 2", "hosts 3", "appender", "last flush 4.2 ms", "throughput", "alarms", "log all"):
            assert told in console.whole()


async def test_zoom_gives_one_pane_the_whole(tmp_path):
    async with held(tmp_path, size=(160, 48)) as console:
        await console.press("tab", "z")
        await console.until(lambda: "NODE" not in console.whole())
        assert "log all" in console.whole()
        await console.press("z")
        await console.until(lambda: "NODE" in console.whole())


async def test_hosts_sort_and_filter(tmp_path):
    async with held(tmp_path, screen="hosts") as console:
        await console.press("s", "s", "s", "s", "S")  # by delay, the greatest first
        await console.until(lambda: "slow.example" in console.text()[4])
        assert "fetching" in console.whole()
        await console.press("slash")
        await console.type("img !shop")
        await console.press("enter")
        await console.until(lambda: "slow.example" not in console.whole())
        assert "img.example" in console.whole()
        await console.press("escape")
        await console.until(lambda: "slow.example" in console.whole())
        await console.press("enter")
        await console.until(lambda: "Jobs /host:" in console.whole())


async def test_jobs_filter_by_the_grammar_and_tell_what_is_wrong(tmp_path):
    async with held(tmp_path, screen="jobs") as console:
        await console.until(lambda: "✗ failed" in console.whole())
        await console.press("slash")
        await console.type("state:ready")
        await console.press("enter")
        await console.until(lambda: "item/3" in console.whole() and "item/1" not in console.whole())
        await console.press("slash")
        await console.type(" colour:red")
        await console.press("enter")
        await console.until(lambda: any("unknown key 'colour'" in told for told in console.toasts()))
        await console.press("escape")
        await console.until(lambda: "item/1" in console.whole())


async def pressed_until(console, key, told):
    for _ in range(40):
        if told in console.whole():
            return
        await console.press(key)
    raise AssertionError(f"no {told}:\n{console.whole()}")


async def test_jobs_page_through_thousands(tmp_path):
    source = FakeSource()
    source.jobs_ = [line(number) for number in range(1, 3001)]
    async with held(tmp_path, source=source, screen="jobs") as console:
        await console.until(lambda: "item/9" in console.whole())
        await pressed_until(console, "pagedown", "item/80")
        await console.press("G")
        await console.until(lambda: "item/3000" in console.whole())
        await pressed_until(console, "pageup", "item/2870")
        await console.press("g")
        await console.until(lambda: "item/1\n" in console.whole() or "item/1 " in console.whole())


async def test_failed_shows_why(tmp_path):
    async with held(tmp_path, screen="failed") as console:
        await console.until(lambda: "HTTP 500" in console.whole())
        assert "item/1" not in console.whole()


async def test_defs_show_files_problems_and_data_defs(tmp_path):
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "blog.yaml").write_text("a: 1\nselctor: x\n")
    source = FakeSource()
    async with held(tmp_path, source=source, screen="defs") as console:
        await console.until(lambda: "blog.yaml" in console.whole() and "v3 is in force" in console.whole())
        assert "detail" in console.whole()
        await console.press("enter")
        await console.until(lambda: "2  selctor: x" in console.whole())
        await console.press("escape")
        await console.until(lambda: "in force" in console.whole())


async def test_plots_span_minutes_to_hours(tmp_path, monkeypatch):
    monkeypatch.setattr("console.tui.screens.plots.time.time", lambda: 1_700_000_300.0)
    source = FakeSource()
    source.samples_ = samples()
    async with held(tmp_path, source=source, screen="plots") as console:
        await console.until(lambda: "⣿" in console.whole())
        for span in ("15m", "1h", "6h", "5m"):
            await console.press("s")
            await console.until(lambda: f"Plots > {span}" in console.whole())  # noqa: B023


async def test_the_run_over_shows_how_it_ended(tmp_path):
    async with held(tmp_path) as console:
        console.source.look = look(
            run=run(state="DONE", stage="SHUTDOWN_COMPLETE"), nodes=[node(1, "TERMINATED", pid=None)]
        )
        console.source.alive = None
        await console.until(lambda: "run 3f2a DONE" in console.whole())
        text = console.whole()
        assert "00:12:34" in text
        assert "/data/output/3f2a/rows/" in text
        await console.until(lambda: "HTTP 500 (4 attempts)" in console.whole())
        assert console.app.quit_flow.run_exit_code() == 1, "jobs failed"
        await console.press("escape")
        await console.until(lambda: "NODE" in console.whole())


async def test_tiny_windows_keep_to_one_pane(tmp_path):
    for size in ((40, 10), (20, 5), (10, 3)):
        async with held(tmp_path, size=size) as console:
            await console.press("2", "3", "6", "7", "1")
            assert len(console.text()) == size[1]


async def test_a_data_dir_without_a_run(tmp_path):
    from engine.store.read.snapshot import EMPTY_SNAPSHOT

    source = FakeSource()
    source.look, source.alive = EMPTY_SNAPSHOT, None
    async with held(tmp_path, source=source) as console:
        assert "no run yet" in console.whole()
        await console.press("2", "3", "4", "5", "6", "7", "1", "c")
        assert any("no supervisor is running" in told for told in console.toasts())

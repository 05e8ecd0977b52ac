"""Below the groups of failed pages: when those of the chosen one failed, which they are, what their host answered."""

from tests.console.builders import AT, line
from tests.console.fakes import FakeSource, open_console


def failing(count):
    source = FakeSource()
    seconds = [*range(count - 1), 300]
    source.jobs_ = [
        line(n, "FAILED", reason="HTTP 500 (4 attempts)", changed_at=AT + seconds[n]) for n in reversed(range(count))
    ]
    source.jobs_ += [line(99, "FAILED", reason="timeout", host="b:80", changed_at=AT + 7, url="http://b/x")]
    source.page_text = b"<p>" + b"word " * 60 + b"last</p>"
    return source


async def test_the_chosen_group_shows_when_its_pages_failed_and_which_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: AT + 400)
    async with open_console(tmp_path, source=failing(20), screen="failed", size=(120, 40)) as console:
        await console.until(lambda: "20 pages of shop.example:443: HTTP 500 (4 attempts)" in console.screen())
        assert "first 22:13:20   last 22:18:20" in console.screen()
        upper, lower, axis = console.text()[10:13]
        assert (len(upper), len(lower)) == (6, 62), "many early ones, and a late one"
        assert axis.endswith("22:18:20")
        assert "https://shop.example/item/19" in console.screen()
        assert "the first one, job 0" in console.screen()
        assert "last</p>" in console.screen(), "the body is wrapped"
        table = next(n for n, text in enumerate(console.text()) if "the chosen group" in text)
        assert table == 7, "no empty half"
        await console.press("down")
        await console.until(lambda: "1 page of b:80: timeout" in console.screen())
        assert "http://b/x" in console.screen()
        assert "⡇" not in console.screen()


async def test_a_group_that_grows_is_read_again_and_one_that_is_gone_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("crawl_console.tui.screens.failed._READ_SECONDS", 0.0)
    source = failing(3)
    async with open_console(tmp_path, source=source, screen="failed", size=(120, 40)) as console:
        await console.until(lambda: "3 pages of shop.example" in console.screen())
        source.jobs_ = failing(9).jobs_
        await console.until(lambda: "9 pages of shop.example" in console.screen())
        await console.press("down")
        await console.until(lambda: "1 page of b:80" in console.screen())
        source.jobs_ = source.jobs_[:-1]
        await console.until(lambda: "b:80" not in console.screen())


async def test_a_low_window_shows_the_groups_alone(tmp_path):
    async with open_console(tmp_path, source=failing(3), screen="failed", size=(80, 14)) as console:
        await console.until(lambda: "HTTP 500" in console.screen())
        assert "the chosen group" not in console.screen()

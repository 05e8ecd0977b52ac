"""The log shows a line a reason and host, and counts the pages that went well by host."""

from crawl_console.words.log_folding import FoldedLines
from crawl_engine.store.tables.run.events import Event
from tests.console.builders import AT, snapshot
from tests.console.fakes import FakeSource, open_console


def failure(number, text="HTTP 500", host="a"):
    text = f"{text}; attempt 2 in 0.{number} s  http://{host}/{number}"
    return number, Event(AT, "WARNING", "n1", "page", text, number)


def alarm(number, text):
    return number, Event(AT, "WARNING", "supervisor", "host", text, None)


def folded(*lines):
    folded = FoldedLines()
    folded.extend(lines, fold=True)
    folded.sort()
    return folded


def described(*lines):
    return ["".join(line.describe()[:2]) for line in folded(*lines).lines]


def test_lines_that_say_the_same_of_a_host_are_one_which_moves_to_the_end():
    lines = folded(failure(1), failure(2), failure(3, "timeout"), failure(4))
    assert [(line.id, line.count) for line in lines.lines] == [(3, 1), (4, 3)]
    assert lines.lines[1].describe() == ("HTTP 500; asked again", " · a ×3", "/4")
    lines.extend([failure(5, "timeout")], fold=True)
    assert [(line.id, line.count) for line in lines.lines] == [(5, 2), (4, 3)], "a line stays where it is read"
    lines.sort()
    lines.drop_first(1)
    lines.extend([failure(6), failure(7, "timeout")], fold=True)
    lines.sort()
    assert [(line.id, line.count) for line in lines.lines] == [(6, 1), (7, 3)]


def test_a_fold_names_its_hosts_and_never_merges_them_in_silence():
    """Three hosts that refuse the crawler are no host that refused it three times."""
    refusals = [alarm(n, f"127.0.0.1:930{n} refused 4 of 4 requests") for n in range(1, 6)]
    assert described(*refusals[:3]) == [event.text for _, event in refusals[:3]]
    [text] = described(*refusals, (6, refusals[1][1]))
    assert text == "refused 4 of 4 requests · 5 hosts ×6: 127.0.0.1:9302 ×2, 127.0.0.1:9301, 127.0.0.1:9303 …"
    many = [failure(n, host=f"shop{n % 5}:80") for n in range(1, 10)]
    [text] = described(*many)
    assert text == "HTTP 500; asked again · 5 hosts ×9: shop1:80 ×2, shop2:80 ×2, shop3:80 ×2 …"


def test_a_fold_never_merges_statuses_or_nodes():
    assert described(failure(1, "HTTP 500"), failure(2, "HTTP 404"), failure(3, "HTTP 500")) == [
        failure(2, "HTTP 404")[1].text, "HTTP 500; asked again · a ×2",
    ]  # fmt: skip
    deaths = [(n, Event(AT, "ERROR", "supervisor", "node", f"n{n} died: signal 9", None)) for n in range(5, 10)]
    assert described(*deaths[:2]) == ["n5 died: signal 9", "n6 died: signal 9"]
    assert described(*deaths) == ["died: signal 9 · 5 nodes ×5: n5, n6, n7 …"]
    places = [(n, Event(AT, "ERROR", "n1", "page", f"price: no match defs/shop.yml:{n}:12", 1)) for n in (1, 1)]
    assert described(*places) == ["price: no match defs/shop.yml:1:12 ×2"]


def success(number, host="a", seconds="84 ms"):
    text = f"200 {seconds:>7}   12 kB  24 rows  http://{host}/{number}"
    return number, Event(AT, "INFO", "n1", "page", text, number)


def test_pages_that_went_well_are_counted_by_host():
    folded = FoldedLines()
    lines = [success(1), success(2, "b:81", "1.5 s"), success(3, "b:81", "stored"), success(4, seconds="40 ms")]
    folded.extend([*lines, failure(5)], fold=True, fold_pages=True)
    assert [line.id for line in folded.lines] == [5]
    assert {host: (pages.count, list(pages.seconds)) for host, pages in folded.pages.items()} == {
        "b:81": (2, [1.5]), "a": (2, [0.084, 0.04]),
    }  # fmt: skip
    assert next(reversed(folded.pages)) == "a", "the newest page is one of a"
    folded.clear()
    folded.extend(lines, fold=True)
    assert len(folded.lines) == 4


def test_only_pages_that_went_well_are_counted():
    """A page with a problem is a warning; routine has no line, what an operator changed has one."""
    folded = FoldedLines()
    lines = [
        (1, Event(AT, "WARNING", "n1", "page", "200   84 ms   12 kB   0 rows  http://a/1; empty page", 1)),
        (2, Event(AT, "INFO", "supervisor", "node", "n1 is ready", None)),
        (3, Event(AT, "INFO", "n1", "page", "SKIPPED by robots.txt  http://a/3", 3)),
        (4, Event(AT, "INFO", "n1", "page", "301 → http://a/5  http://a/4", 4)),
        (5, Event(AT, "INFO", "n1", "node", "n1 DONE RUNNER", None)),
        (6, Event(AT, "INFO", "supervisor", "command", "pause: 12 jobs wait", None)),
        (7, Event(AT, "INFO", "supervisor", "stage", "RUNNING", None)),
        (8, Event(AT, "INFO", "n1", "state", "n1 READY RUNNER", None)),
    ]
    folded.extend(lines, fold=True, fold_pages=True)
    assert [line.id for line in folded.lines] == [1, 3, 6]
    assert not folded.pages


async def test_the_log_shows_trouble_and_all_on_demand(tmp_path):
    source = FakeSource()
    source.lines = [success(1), success(2), failure(3), success(4, "b", "1.5 s")]
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.until(lambda: "b last 1 ok  p50 1.5s   ·   a last 2 ok  p50 84ms" in console.screen())
        assert "─▌trouble · follow ─ =: all" in console.screen()
        assert "http" not in console.screen()
        assert sum("200" in line for line in console.text()) == 0
        await console.press("slash")
        await console.type("a/1")
        await console.press("enter")
        await console.until(lambda: "200   84 ms   12 kB  24 rows  a/1" in console.screen())
        await console.press("escape", "equals_sign")
        await console.until(lambda: "log all" in console.screen() and "a/2" in console.screen())
        await console.press("equals_sign")
        await console.until(lambda: "a/2" not in console.screen() and "a last 2 ok" in console.screen())
        source.lines = source.lines[:2]
        source.current = snapshot(jobs={**snapshot().jobs, "failed": 0})
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.until(lambda: "✓ no trouble" in console.screen())


async def test_the_errors_of_a_host_fold_and_keep_their_urls(tmp_path):
    source = FakeSource()
    reason = "FAILED: the server closed the connection before it had sent the whole header of its answer"
    url = "https://shop.example/catalogue/some-long-category/page-{}.html"
    lines = [Event(AT, "ERROR", "n1", "page", f"{reason}  {url.format(number)}", number) for number in range(1, 18)]
    source.lines = [*enumerate(lines, 1), (18, Event(AT, "ERROR", "n1", "page", f"timeout  {url.format(18)}", 18))]
    async with open_console(tmp_path, source=source, screen="hosts") as console:
        await console.press("down", "l")
        await console.until(lambda: "×17" in console.screen())
        [line] = [line for line in console.text() if "×17" in line]
        assert "page-17.html" in line
        assert "page-18.html" in console.screen()


async def test_repeats_are_folded_and_unfolded(tmp_path):
    source = FakeSource()
    source.lines = [failure(number) for number in range(1, 9)]
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.until(lambda: "×8" in console.screen())
        assert sum("HTTP 500" in line for line in console.text()) == 1
        await console.press("equals_sign")
        await console.until(lambda: sum("HTTP 500" in line for line in console.text()) == 8)


async def test_lines_that_leave_the_list_leave_cursor_and_page_where_they_are(tmp_path):
    source = FakeSource()
    source.lines = [failure(n, host=f"h{n}") for n in (1, 2, 3)]
    source.lines += [failure(n, "timeout", host="a") for n in (4,)]
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.press("k")
        await console.press("j", "k")
        await console.until(lambda: any(line.startswith(">") and "h3" in line for line in console.text()))
        source.lines += [failure(5, host="h5"), failure(6, "timeout", host="a")]
        await console.until(lambda: "4 hosts ×4: h1, h2, h3 …" in console.screen())
        assert "2 new" in console.screen()
        [at] = [line for line in console.text() if line.startswith(">")]
        assert "4 hosts" in at, "the line that h3 is in now"
        await console.press("G")
        await console.until(lambda: "follow" in console.screen() and "a ×2" in console.screen())


async def test_the_number_of_lines_that_say_the_same_is_never_cut(tmp_path):
    source = FakeSource()
    reason = "FAILED: the server closed the connection before it had sent the header of its answer"
    source.lines = [
        (n, Event(AT, "ERROR", "n1", "page", f"{reason}  http://shop.example/{n}", n)) for n in range(1, 40)
    ]
    async with open_console(tmp_path, source=source, screen="log") as console:
        await console.until(lambda: "… · shop.example ×39" in console.screen())
        await console.press("w")
        await console.until(lambda: "header of its answer · shop.example ×39" in console.screen().replace("\n", " "))

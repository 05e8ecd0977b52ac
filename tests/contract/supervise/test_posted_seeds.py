"""Seeds are posted in batches, which tell their number and wait for a write-ahead log that is too large."""

import threading
import time

import pytest

from crawl_engine.settings import Settings
from crawl_engine.store.db.connector import connect
from crawl_engine.store.tables.run import runs
from crawl_engine.supervise.seeding import posted_seeds
from crawl_engine.supervise.seeding.posted_seeds import SeedPoster
from crawl_engine.supervise.wal_guard import WalGuard
from tests.contract.store.harness import StoreHarness
from tests.contract.store.step_reports import publish_steps

URLS = [("argument", f"http://a/{number:06}/{'x' * 200}") for number in range(6_000)]


@pytest.mark.sqlite
def test_a_batch_waits_while_the_log_is_full(store: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posted_seeds, "WalGuard", lambda path: WalGuard(path, 100_000, 300_000))
    publish_steps(store)
    store.db.checkpoint(1.0)
    log, reader = store.folder / "crawl.db-wal", connect(store.folder / "crawl.db", read_only=True)
    counts: list[int] = []
    sizes: list[int] = []

    def note(number: int) -> None:
        counts.append(number)
        sizes.append(log.stat().st_size)

    db = connect(store.folder / "crawl.db", durable=False)
    poster = SeedPoster(db, runs.get(db, store.run), "g", Settings())
    with reader.snapshot():
        reader.value("SELECT count(*) FROM jobs")
        thread = threading.Thread(target=poster.post, args=(URLS, note))
        thread.start()
        time.sleep(1.5)
        assert len(counts) == 1, "the next batch waits for the reader"
    thread.join(30)
    reader.close()
    db.close()
    assert len(counts) > 1
    assert sum(counts) == 6_000
    assert poster.result.created == 6_000
    assert max(sizes) < 3_000_000, "the log holds one batch, not all of them"

"""The queries of a commit are compiled once for each connection, not once for each commit."""

from tests.contract.store.harness import Page, StoreHarness

HOST = "http://shop"


def test_a_commit_compiles_none_of_its_queries_again(store: StoreHarness) -> None:
    compiled: list[str | None] = []

    def record(_action: int, first: str | None, *_more: str | None) -> int:
        compiled.append(first)
        return 0

    store.seed(f"{HOST}/0")
    [job] = store.take(f"{HOST}/0")
    store.db._connection.set_authorizer(record)  # SQLite calls it only while it compiles
    counts = []
    for page in range(1, 4):
        compiled.clear()
        result = store.commit(store.done(job, data=["{}"], links=[Page(f"{HOST}/{page}")]), free=1)
        [job] = result.leased
        counts.append(len(compiled))
    store.db._connection.set_authorizer(None)

    assert counts[0] > 100
    assert counts[2] == 0

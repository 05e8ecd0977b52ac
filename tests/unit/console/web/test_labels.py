"""The names of data dirs: in addresses, and in metrics, where they stay when others are served beside them."""

import pytest

pytest.importorskip("prometheus_client", reason="the extra serve is missing")

from pathlib import Path

from crawl_console.web.watch import label_folders, name_folders


@pytest.mark.parametrize(
    ("folder", "label"),
    [("/srv/town/data", "town-data"), ("/srv/shops/north", "north"), ("/data", "data"), ("/", "root")],
)
@pytest.mark.parametrize("others", [[], ["/srv/shop/data"], ["/srv/shop/data", "/srv/other/south"]])
def test_a_label_does_not_depend_on_what_else_is_served(folder, label, others):
    assert label_folders([Path(one) for one in (*others, folder)])[-1] == label


def test_labels_are_distinct():
    folders = [Path("/a/town/data"), Path("/b/town/data"), Path("/c/shop")]
    assert label_folders(folders) == ["/a/town/data", "/b/town/data", "shop"]


def test_names_in_addresses_are_the_shortest_distinct_ends():
    assert list(name_folders([Path("/a/data")])) == ["data"]
    assert list(name_folders([Path("/a/data"), Path("/b/data")])) == ["a-data", "b-data"]

"""The command `series`: one field over the runs, by key; as a table, JSON, CSV and a plot."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from crawl_console.cli.main import main
from crawl_engine.model.definition import DataDef, Definitions, Field, definition_hash
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run import runs, versions
from tests.contract.store.harness import StoreHarness

Command = Callable[..., tuple[int, str, str]]
FIELDS = ("sku", "price", "name", 'odd"na.me')


def product(*key: str, name: str = "product", fields: Sequence[str] = FIELDS) -> DataDef:
    return DataDef(name=name, key=key, fields=tuple(Field(name=one) for one in fields))


class Runs:
    """Adds runs with rows of one dataDef."""

    def __init__(self, store: StoreHarness) -> None:
        self.db, self.folder = store.db, store.folder
        store.seed("http://a/1")
        (self.job,) = store.take("http://a/1")

    def add(self, *texts: str, data_def: DataDef | None = None) -> str:
        """Add a run with these rows; returns its id."""
        data_def = data_def or product("sku")
        with self.db.transaction():
            run = runs.create(self.db, None, 1_700_000_000.0 + 86_400 * runs.create(self.db, None, 0.0).seq)
            version = versions.publish(self.db, Definitions(data_defs=(data_def,)), 0.0)
            runs.set_version(self.db, run.seq, version)
            id_ = versions.ensure_data_def(self.db, data_def.name, definition_hash(data_def))
            rows.add(self.db, run.seq, [(self.job.id, NewRows(data_def.name, id_, texts))])
            rows.add_counts(self.db, run.seq, data_def.name, rows=len(texts))
        return run.id


@pytest.fixture
def added(store: StoreHarness) -> Runs:
    return Runs(store)


@pytest.fixture
def series(added: Runs, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["series", *words, "--data", str(added.folder)])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def row(sku: object, price: str, name: str = "x") -> str:
    return f'{{"sku":{orjson.dumps(sku).decode()},"price":{price},"name":"{name}"}}'


def cells(line: str) -> list[str]:
    return line.split()


def test_the_price_of_one_row_over_the_runs(added: Runs, series: Command) -> None:
    first = added.add(row("SKU-17", "12.50"), row("SKU-18", "3"))
    second = added.add(row("SKU-18", "4"))
    third = added.add(row("SKU-17", "11.90"), row("SKU-18", "5"))
    code, out, error = series("product", "price", "--key", "SKU-17")
    assert (code, error) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "product.price of sku SKU-17"
    assert cells(lines[1]) == ["RUN", "BEGUN", "price"]
    shown = [(cells(line)[0], cells(line)[-1]) for line in lines[3:6]]
    assert shown == [(first, "12.50"), (second, "-"), (third, "11.90")]
    assert lines[6:] == ["min 11.90, median 12.20, max 12.50"]


def test_all_keys_as_lines_and_the_runs_as_columns(added: Runs, series: Command) -> None:
    ids = [added.add(row("a", f"{number}.0"), row("b", "7", name=f"n{number}")) for number in range(10)]
    _, out, error = series("product", "price")
    assert error == "the newest 8 of 10 runs; --limit N shows more\n"
    heading, days, _, first, second = out.splitlines()
    assert cells(heading) == ["sku", *ids[-8:], "MIN", "MEDIAN", "MAX"]
    assert len(cells(days)) == 16, "a date and a time for each"
    assert cells(first) == ["a", *(f"{number}.0" for number in range(2, 10)), "2.0", "5.5", "9.0"]
    assert cells(second) == ["b", *["7"] * 8, "7", "7", "7"]
    assert cells(series("product", "price", "--limit", "10")[1].splitlines()[0])[1:11] == ids
    names = series("product", "name", "--limit", "2", "--key", "name=n9")[1].splitlines()
    assert names[0] == "product.name of sku b", "one key is left"
    assert [cells(line)[-1] for line in names[3:]] == ["-", "n9"], "without numbers nothing is summed up"


def test_json_and_csv_have_a_line_for_each_run_and_key(added: Runs, series: Command) -> None:
    first = added.add(row("a", "1.50"), row("é", '{"amount":2.10,"currency":"€"}'))
    second = added.add(row("a", "null"), row("a", "[1,2]"), '{"sku":"b"}', '{"name":"no key"}')
    out = series("product", "price", "--json")[1]
    assert '"value":1.50}' in out, "digits stay"
    assert [orjson.loads(line) | {"begun": ""} for line in out.splitlines()] == [
        {"run": first, "begun": "", "key": {"sku": "a"}, "value": 1.5},
        {"run": second, "begun": "", "key": {"sku": "a"}, "value": [1, 2]},
        {"run": second, "begun": "", "key": {"sku": "b"}, "value": None},
        {"run": first, "begun": "", "key": {"sku": "é"}, "value": {"amount": 2.1, "currency": "€"}},
    ]
    begun = orjson.loads(out.splitlines()[0])["begun"]
    written = list(csv.reader(io.StringIO(series("product", "price", "--csv")[1])))
    assert written[0] == ["run", "begun", "sku", "price"]
    assert written[1] == [first, begun, "a", "1.50"]
    assert [line[2:] for line in written[2:]] == [["a", "[1,2]"], ["b", ""], ["é", "2.10 €"]]


def test_amounts_are_numbers_while_they_have_one_currency(added: Runs, series: Command) -> None:
    for amount, currency in (("2.10", '"€"'), ("3.00", '"€"'), ("9", '"€"')):
        added.add(row(1, f'{{"amount":{amount},"currency":{currency}}}'))
    assert series("product", "price", "--key", "1")[1].endswith("min 2.10, median 3.00, max 9 €\n")
    assert series("product", "price.amount", "--key", "1")[1].endswith("min 2.10, median 3.00, max 9\n")
    added.add(row("1", '{"amount":1,"currency":"$"}'))
    assert series("product", "price", "--key", "1")[1].splitlines()[-1].endswith("1 $"), "no minimum of two currencies"
    code, out, error = series("product", "price", "--key", "1", "--plot")
    assert (code, out) == (2, "")
    assert "--plot: price is not a number, or has several currencies" in error


def test_a_plot_of_one_row(added: Runs, series: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for price in ("10", "20", "30", None, "10"):
        added.add(row("a", price or "1") if price else row("b", "1"))
    lines = series("product", "price", "--key", "a", "--plot")[1].splitlines()
    assert len(lines) == 13
    assert lines[1].startswith("         30 ")
    assert lines[10].startswith("         10 ")
    assert all(len(line) <= 60 for line in lines)
    top, bottom = lines[1][12:], lines[10][12:]
    assert 8 <= len(top.strip()) <= 11, "one of five runs reaches the top"
    assert bottom[30:36].strip() == "", "the run without the row is a gap"
    monkeypatch.setenv("LC_ALL", "C")
    drawn = series("product", "price", "--key", "a", "--plot")[1]
    assert drawn.isascii()
    assert "@" in drawn


def test_a_plot_of_all_rows(added: Runs, series: Command) -> None:
    for price in (1, 9, 5):
        added.add(row("a", str(price)), row("b", "2"))
    heading, _, first, second = series("product", "price", "--plot")[1].splitlines()
    assert cells(heading) == ["sku", "price", "MIN", "MEDIAN", "MAX", "LATEST"]
    assert cells(first) == ["a", "▁█▄", "1", "5", "9", "5"]
    assert cells(second) == ["b", "▄▄▄", "2", "2", "2", "2"]


def test_without_a_declared_key_the_user_names_it(added: Runs, series: Command) -> None:
    plain = product()
    added.add(row("a", "1", name="x=1"), row("b", "2"), data_def=plain)
    code, out, error = series("product", "price")
    assert (code, out) == (2, "")
    assert "product has no `key`\n  Name the field that identifies a row: --key FIELD." in error
    assert [cells(line)[0] for line in series("product", "price", "--key", "sku")[1].splitlines()[3:]] == ["a", "b"]
    assert series("product", "price", "--key", "sku=a")[1].startswith("product.price of sku a\n")
    assert series("product", "price", "--key", "name=x=1")[1].startswith("product.price of name x=1\n")
    code, _, error = series("product", "price", "--key", "skew")
    assert code == 2
    assert "--key skew: product has no field 'skew'" in error
    assert "Name the field that identifies a row, of sku, price, name" in error


def test_the_key_itself_needs_another_field_that_identifies_a_row(added: Runs, series: Command) -> None:
    added.add(row("a", "1"))
    code, _, error = series("product", "sku")
    assert code == 2
    assert "sku is the `key` of product\n  Name the field that identifies a row: --key FIELD." in error
    assert series("product", "sku", "--key", "name")[1].startswith("product.sku of name x\n")


def test_a_key_of_two_fields(added: Runs, series: Command) -> None:
    both = product("sku", "name")
    added.add(row("a", "1", name="x"), row("a", "2", name="y"), data_def=both)
    code, _, error = series("product", "price", "--key", "a")
    assert code == 2
    assert "--key a: the key of product is sku, name\n  Write --key sku=… --key name=…." in error
    assert series("product", "price", "--key", "sku=a", "--key", "name=y")[1].startswith(
        "product.price of sku a, name y\n"
    )
    lines = series("product", "price", "--key", "sku=a")[1].splitlines()
    assert [cells(line)[:3] for line in lines[3:]] == [["a", "x", "1"], ["a", "y", "2"]]


def test_the_field_does_not_identify_its_rows(added: Runs, series: Command) -> None:
    watched = product("sku", "price")
    for price in ("1", "2"):
        added.add(row("a", price), row("b", "7"), data_def=watched)
    assert series("product", "price", "--key", "a")[1].endswith("min 1, median 1.5, max 2\n")
    assert [cells(line)[0] for line in series("product", "price")[1].splitlines()[3:]] == ["a", "b"]
    assert "the key of product is sku, price" in series("product", "name", "--key", "a")[2]


def test_odd_names_and_keys(added: Runs, series: Command) -> None:
    odd = 'odd"na.me'
    added.add(*(orjson.dumps({"sku": sku, odd: 3}).decode() for sku in ("https://a/?sku=1&x=2", "a\"b'c\\%", "=")))
    for key in ("https://a/?sku=1&x=2", "a\"b'c\\%", "="):
        assert orjson.loads(series("product", odd, "--key", key, "--json")[1]) | {"run": "", "begun": ""} == {
            "run": "", "begun": "", "key": {"sku": key}, "value": 3,
        }  # fmt: skip


def test_runs_by_since_and_limit(added: Runs, series: Command) -> None:
    ids = [added.add(row("a", str(number))) for number in range(5)]
    added.add(row("a", "9"), data_def=product("sku", name="other"))

    def shown(*words: str) -> list[Any]:
        return [orjson.loads(line)["run"] for line in series("product", "price", "--json", *words)[1].splitlines()]

    assert shown() == ids
    assert shown("--limit", "2") == ids[3:]
    assert shown("--since", ids[1]) == ids[1:]
    assert shown("--since", ids[1], "--limit", "1") == ids[4:]
    code, out, error = series("product", "price", "--since", "nothing")
    assert (code, out) == (2, "")
    assert "unknown run 'nothing'" in error


def test_a_deleted_run_is_absent_and_the_oldest_that_is_left_is_named(
    added: Runs, series: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [added.add(row("a", str(number))) for number in range(4)]
    (added.folder / "beats").mkdir()
    with added.db.transaction():
        added.db.execute("UPDATE runs SET state = 'DONE'")
    with pytest.raises(SystemExit) as ended:
        main(["runs", "delete", ids[1], "--yes", "--data", str(added.folder)])
    assert ended.value.code == 0
    capsys.readouterr()
    lines = series("product", "price", "--key", "a")[1].splitlines()
    assert [cells(line)[0] for line in lines[3:6]] == [ids[0], ids[2], ids[3]]
    code, out, error = series("product", "price", "--since", ids[1])
    oldest = added.db.value("SELECT id FROM runs ORDER BY seq LIMIT 1")
    assert (code, out) == (2, "")
    assert error == f"error: run {ids[1]} was deleted\n  The oldest run that is left is {oldest}.\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("product", "prise"), 2, "product has no field 'prise' (did you mean 'price'?)"),
        (("product", "price.", "--json"), 2, "product has no field 'price.'"),
        (("produkt", "price"), 2, "unknown dataDef 'produkt' (did you mean 'product'?)"),
        (("product", "price", "--key", "none"), 0, "no row of product has sku 'none' in 1 run"),
        (("product", "price", "--key", ""), 0, "no row of product has sku '' in 1 run"),
        (("product", "price", "--plot", "--csv"), 2, "--json, --csv and --plot exclude each other"),
        (("product", "price", "--limit", "0"), 2, "0 is not in the range"),
        (("product", "price", "--limit", "x"), 2, "'x' is not a valid integer"),
        (("product",), 2, "Missing argument 'FIELD'"),
    ],
)
def test_bad_input(added: Runs, series: Command, words: tuple[str, ...], code: int, message: str) -> None:
    added.add(row("a", "1"))
    got, out, error = series(*words)
    assert (got, out) == (code, "")
    assert message in error


def test_a_data_def_without_rows_and_a_data_dir_without_runs(
    added: Runs, series: Command, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    with added.db.transaction():
        version = versions.publish(added.db, Definitions(data_defs=(product("sku"),)), 0.0)
        runs.set_version(added.db, runs.create(added.db, None, 2.0).seq, version)
    assert series("product", "price") == (0, "", "no run has rows of product\n")
    with pytest.raises(SystemExit) as ended:
        main(["series", "product", "price", "--data", str(tmp_path / "nothing")])
    assert ended.value.code == 0
    assert "no run yet" in capsys.readouterr().err


def test_cells_of_pages_are_cleaned_and_cut(added: Runs, series: Command) -> None:
    added.add(row("\x1b[31m", orjson.dumps("x" * 500).decode()))
    out = series("product", "price")[1]
    assert "\x1b" not in out
    assert "x" * 79 + "…" in out

"""docs/deploy against the metrics of `serve`: the board, the alert rules; promtool where it is installed."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

pytest.importorskip("prometheus_client", reason="the extra serve is missing")

from crawl_console.web.metrics import Families

from .doc_pages import ROOT

DEPLOY = ROOT / "docs/deploy"
BOARD = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
GROUPS = yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))["groups"]
RULES = [rule["expr"] for group in GROUPS for rule in group["rules"]]
EXPRESSIONS = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]] + RULES
FAMILIES = {
    metric.name + ("_total" if metric.type == "counter" else ""): metric for metric in vars(Families()).values()
}
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_uses_metrics_and_labels_that_exist(expression):
    used = set(re.findall(r"\bcrawl_\w+", expression))
    assert used <= set(FAMILIES)
    known = {"instance"}.union(*(FAMILIES[name]._labelnames for name in used))
    labels = set(re.findall(r"(\w+)\s*(?:=~|!=|=)\s*\"", expression))
    for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        labels |= set(re.split(r", *", names))
    assert labels <= known | {"job"}


def test_every_metric_is_on_the_page_and_in_the_board_or_a_rule():
    page = (ROOT / "docs/serve.md").read_text("utf-8")
    assert {name for name in FAMILIES if f"`{name}`" not in page} == set()
    assert {name for name in FAMILIES if not any(name in one for one in EXPRESSIONS)} == set()


def check(*arguments, **options):
    return subprocess.run(["promtool", "check", *arguments], capture_output=True, text=True, check=False, **options)


@promtool
def test_the_rules_tell_what_they_are_for(tmp_path):
    for path in (DEPLOY / "alerts.yml", ROOT / "tests/data/alerts_test.yml"):
        shutil.copy(path, tmp_path)
    command = ["promtool", "test", "rules", "alerts_test.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@promtool
def test_promtool_accepts_the_rules_and_the_configuration(tmp_path):
    assert check("rules", "--lint-fatal", str(DEPLOY / "alerts.yml")).returncode == 0
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(DEPLOY / name, tmp_path)
    (tmp_path / "serve.token").write_text("0123456789abcdef")
    done = check("config", "prometheus.yml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

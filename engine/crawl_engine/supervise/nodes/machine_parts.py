"""What every machine of a run has, whether it leads or not: its nodes, helpers and doorbells."""

from functools import partial

from msgspec import Struct

from crawl_engine.helpers.helper_pool import HelperPool
from crawl_engine.judge.summary import read_summary
from crawl_engine.processes.spawner import Spawner
from crawl_engine.supervise.nodes.appender_process import AppenderProcess
from crawl_engine.supervise.nodes.doorbell_repair import QueueMaintainer
from crawl_engine.supervise.nodes.elastic_nodes import ElasticNodes
from crawl_engine.supervise.nodes.node_pool import NodePool
from crawl_engine.supervise.run_context import RunContext


class MachineParts(Struct, frozen=True):
    """They keep running when the machine takes the lead or gives it up."""

    run: RunContext
    node_pool: NodePool
    helpers: HelperPool
    elastic_nodes: ElasticNodes
    queue_maintainer: QueueMaintainer


def build_parts(run: RunContext, spawner: Spawner) -> MachineParts:
    """The parts of a machine; no process is started yet."""
    queue_maintainer = QueueMaintainer(run)
    node_pool = NodePool(run, queue_maintainer.ring, AppenderProcess(run, spawner), spawner)
    helpers = HelperPool(
        run.db, run.folder, run=run.seq, settings=run.settings, spawner=spawner,
        describe_run=partial(read_summary, run.db, run.seq, exit_code=None),
    )  # fmt: skip
    return MachineParts(run, node_pool, helpers, ElasticNodes(run, node_pool), queue_maintainer)

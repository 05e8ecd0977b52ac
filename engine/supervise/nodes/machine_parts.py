"""What every machine of a run has, whether it leads or not: its nodes, helpers and doorbells."""

from functools import partial
from pathlib import Path

from msgspec import Struct

from engine.helpers.helper_pool import HelperPool
from engine.processes.spawner import Spawner
from engine.settings import Settings
from engine.store.db.connector import Database
from engine.store.read.snapshot import read_summary
from engine.supervise.nodes.appender_process import AppenderProcess
from engine.supervise.nodes.doorbell_repair import QueueMaintainer
from engine.supervise.nodes.elastic_nodes import ElasticNodes
from engine.supervise.nodes.node_pool import NodePool


class MachineParts(Struct, frozen=True):
    """They keep running when the machine takes the lead or gives it up."""

    db: Database
    settings: Settings
    node_pool: NodePool
    helpers: HelperPool
    elastic_nodes: ElasticNodes
    queue_maintainer: QueueMaintainer


def build_parts(
    db: Database, folder: Path, *, run: int, epoch: int, settings: Settings, spawner: Spawner
) -> MachineParts:  # fmt: skip
    """The parts of a machine (its epoch); no process is started yet."""
    queue_maintainer = QueueMaintainer(db, folder, run)
    appender = AppenderProcess(db, folder, run=run, supervisor=epoch, settings=settings, spawner=spawner)
    node_pool = NodePool(
        db, folder, run=run, supervisor=epoch, settings=settings, ring=queue_maintainer.ring, appender=appender,
        spawner=spawner,
    )  # fmt: skip
    helpers = HelperPool(
        db, folder, run=run, settings=settings, spawner=spawner,
        describe_run=partial(read_summary, db, run, exit_code=None),
    )  # fmt: skip
    return MachineParts(
        db, settings, node_pool, helpers, ElasticNodes(db, run, node_pool, settings), queue_maintainer
    )  # fmt: skip

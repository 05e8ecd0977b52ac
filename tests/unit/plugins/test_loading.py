"""Loading plugin classes: what it changes in the process that runs them."""

import gc

from crawl_engine.plugins.loading import PluginLoader


def test_a_process_that_runs_plugin_code_collects_cycles() -> None:
    gc.disable()
    try:
        PluginLoader(()).close()
        assert gc.isenabled()
    finally:
        gc.enable()

"""Starts one half of the ceiling with the process settings of a node.

The same as in `engine.node`: the same imports without garbage collection, imported objects frozen, the collector's
thresholds, batch scheduling. `loop` sets the allocator's environment variables, and `loop_part` pins the process.
"""

import gc
import sys

if __name__ == "__main__":
    gc.disable()
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    from engine.http.aiohttp_import import import_aiohttp

    import_aiohttp()
    from engine.node.tuning import tune_garbage_collection, use_batch_scheduling
    from tests.bench.loop_part import main

    use_batch_scheduling()
    tune_garbage_collection()
    sys.exit(main())

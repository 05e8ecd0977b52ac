"""Entry point of a node process: `python -m engine.node`, started by the supervisor."""

import gc
import logging
import os
import sys

if __name__ == "__main__":
    gc.disable()  # imports stay in memory, so collecting garbage during them is wasted time
    # httpx imports its command line with rich and click; nodes do not need it
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    from engine.http.aiohttp_import import import_aiohttp

    import_aiohttp()
    from engine.node.process import main

    code = main(sys.argv[1:])
    logging.shutdown()
    os._exit(code)  # everything is written: tearing down the interpreter would only delay the exit

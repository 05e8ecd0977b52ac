"""Entry point of a node process: `python -m engine.node`, started by the supervisor."""

import gc
import logging
import os
import sys

if __name__ == "__main__":
    gc.disable()  # during the imports, which stay in memory: collecting takes a seventh of the start
    # the command line of httpx, with rich and click: another seventh
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    from engine.http.aiohttp_import import import_aiohttp

    import_aiohttp()
    from engine.node.process import main

    code = main(sys.argv[1:])
    logging.shutdown()
    os._exit(code)  # everything is written: tearing the interpreter down would take longer than the rest of the exit

"""`python -m engine.node`: started by the supervisor."""

import logging
import os
import sys

from engine.node.process import main

if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    os._exit(code)  # all is said and written: to give memory back piece by piece would take longer than the rest

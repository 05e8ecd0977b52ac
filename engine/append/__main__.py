"""`python -m engine.append`: the appender process."""

import logging
import os
import sys

from engine.append.process import main

if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    os._exit(code)  # everything is written and logged

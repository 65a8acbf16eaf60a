"""`python -m prony`: the program of this package."""

import os
import sys

from ._errors import SetupError
from ._program import program

try:
    path = program()
except SetupError as error:
    sys.exit(f"prony: {error}")
os.execv(path, [path, *sys.argv[1:]])

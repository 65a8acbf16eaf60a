#!/usr/bin/env python3
"""Read httperf's report from standard input with the PyPI package httperfpy and print what it found as JSON. The package is
written in Python 2: its only print statement and an import that it does not use are rewritten on the way.

usage: read_httperf.py SOURCE
"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    source = file.read()
for old, new in [("import cStringIO, re", "import re"), ("print param\n", "print(param)\n")]:
    if source.count(old) != 1:
        sys.exit(f"{old!r} is not in {sys.argv[1]} once")
    source = source.replace(old, new)
names = {}
exec(compile(source, sys.argv[1], "exec"), names)
print(json.dumps(names["HttperfParser"].parse(sys.stdin.read())))

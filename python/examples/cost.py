"""The CPU time of a request, from the program and from Python, in turn, on a server of this
machine. Usage: cost.py [REQUESTS [ROUNDS]]"""

import json
import statistics
import subprocess
import sys
from typing import Any

import prony


def cost(report: dict[str, Any]) -> float:
    """CPU time per reply, in microseconds."""
    workers = report["workers"]
    time = sum(worker["cpu_user"] + worker["cpu_system"] for worker in workers)
    return float(time / report["measurement"]["tally"]["replies"] / 1000)


requests = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 6
costs: dict[str, list[float]] = {"program": [], "Python": []}
with prony.serve() as server:
    line = ["load", "-n", str(requests), "-c", "20", "-t", "1", "--driver", "epoll", "--json"]
    line += ["--accept-invalid", "--no-progress", server.url]
    for _ in range(rounds):
        program = [sys.executable, "-m", "prony", *line]
        printed = subprocess.run(program, check=True, capture_output=True).stdout
        costs["program"].append(cost(json.loads(printed)))
        result = prony.load(
            server.url,
            requests=requests,
            connections=20,
            threads=1,
            driver="epoll",
            accept_invalid=True,
        )
        costs["Python"].append(cost(result.to_dict()))
for name, values in costs.items():
    print(f"{name}: median {statistics.median(values):.2f} us, lowest {min(values):.2f} us")

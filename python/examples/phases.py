"""A base load, and a spike beside it: a plan with two phases, in virtual time."""

import prony

PLAN = prony.Plan.from_text("""
url = "http://shop/"
arrivals = "poisson"
thresholds = ["p99 < 80ms"]

[[phases]]
name = "base"
rate = 500
duration = "20s"

[[phases]]
name = "spike"
start = "with"
delay = "5s"
rate = 2000
duration = "5s"
""")

result = prony.simulate(PLAN, seed=7, latency="lognormal:5ms:1")
for phase in result.phases:
    print(phase.name, phase.verdict, phase.rate, phase.response.p99)
print("all phases:", "ok" if result.ok else "not ok")

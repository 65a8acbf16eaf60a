"""The same plan under two service times, in virtual time."""

import prony

PLAN = prony.Plan.from_text("""
url = "http://shop/"
rate = 1000
arrivals = "poisson"
duration = "10s"
""")

for latency in ("fixed:5ms", "lognormal:5ms:1"):
    result = prony.simulate(PLAN, seed=7, latency=latency)
    print(latency, result.response.p50, result.response.p99, result.response.interval("p99"))

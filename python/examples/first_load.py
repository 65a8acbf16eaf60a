"""A load on a target server of this machine, with a threshold and a report."""

import prony

with prony.serve(latency="exp:2ms", workers=4) as server:
    result = prony.load(server.url, rate=200, duration=5, thresholds=["p50 < 50ms"])

print(result.verdict, result.response.p99, result.response.interval("p99"))
for row in result.series():
    print(f"{row.start:.0f} s: {row.rate:.0f}/s")
result.save("run.html")

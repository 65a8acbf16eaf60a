"""Live figures of a load, which stops when too many requests fail."""

import asyncio
import sys

import prony


async def main(url: str) -> prony.Result:
    """Runs a ramp and prints a line each second."""
    run = prony.watch(url, rate="100..500@5s", timeout=2)
    async for tick in run:
        print(f"{tick.elapsed:.0f} s: {tick.rate}/s, p99 {tick.p99} s, {tick.failed} failed")
        if tick.failed > 1000:
            run.stop()
    return await run


print(asyncio.run(main(sys.argv[1])))

"""The tools that compare knows: the command line for a case, and the parser of the output.

A case is a dict: kind (closed, fresh, pipe, open, wsess), url, host, port, path, conns, secs, depth, rate, n (number of
requests, for tools without a duration), tls (None, keep, full or resume). `cmd` returns an argv, or None if the tool
does not support the case. `read` returns the results: rps, requests, errors, p50, p99, p999, max (times in us).
"""
import json
import os
import re
import shutil

from rig import HERE, RUN

TOOLS = {}
PRONY = os.environ.get("PRONY", "prony")
UNIT = {"ns": 1e-3, "us": 1, "µs": 1, "ms": 1e3, "s": 1e6, "m": 60e6, "min": 60e6}


def tool(name, binary=None, counted=False):
    def add(cls):
        t = cls()
        t.name, t.binary, t.counted = name, binary or name, counted
        TOOLS[name] = t
        return cls
    return add


def resumes(c):
    """Only prony can resume TLS sessions; the other tools cannot."""
    return c["tls"] == "resume"


def present(t):
    return shutil.which(t.binary) is not None


def number(pattern, text, default=None):
    m = re.search(pattern, text, re.M)
    return float(m.group(1)) if m else default


def duration(pattern, text):
    m = re.search(pattern + r"\s*([0-9.]+)\s*(ns|us|µs|ms|min|m|s)\b", text, re.M)
    return float(m.group(1)) * UNIT[m.group(2)] if m else None


def scaled(x, factor):
    return None if x is None else x * factor


class WrkBase:
    def read(self, out, err):
        r = {"rps": number(r"Requests/sec:\s*([0-9.]+)", out),
             "requests": number(r"([0-9]+) requests in", out),
             "p50": duration(r"^\s*50(?:\.000)?%", out),
             "p99": duration(r"^\s*99(?:\.000)?%", out),
             "p999": duration(r"^\s*99\.900%", out),
             "errors": number(r"Non-2xx or 3xx responses: (\d+)", out, 0)}
        m = re.search(r"^\s*Latency\s+\S+\s+\S+\s+([0-9.]+)(us|ms|s|m)", out, re.M)
        if m:
            r["max"] = float(m.group(1)) * UNIT[m.group(2)]
        m = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
        if m:
            r["errors"] += sum(map(int, m.groups()))
        return r


@tool("wrk")
class Wrk(WrkBase):
    def cmd(self, c):
        if resumes(c):
            return None
        conns = 1 if c["kind"] == "wsess" and not c["rate"] else c["conns"]  # sessions one after another
        a = ["wrk", "-t1", f"-c{conns}", f"-d{c['secs']}s", "--latency"]
        if c["kind"] == "closed":
            return a + [c["url"]]
        if c["kind"] == "fresh":
            return a + ["-H", "Connection: close", c["url"]]
        if c["kind"] in ("pipe", "wsess"):
            return a + ["-s", HERE + "/conf/pipeline.lua", c["url"], "--", str(c["depth"])]
        return None


@tool("wrk2")
class Wrk2(WrkBase):
    def cmd(self, c):
        if c["kind"] != "open":
            return None
        return ["wrk2", "-t1", f"-c{c['conns']}", f"-d{c['secs']}s", f"-R{c['rate']}", "--latency", c["url"]]


@tool("ab", counted=True)
class Ab:
    def cmd(self, c):
        if resumes(c):
            return None
        if c["kind"] not in ("closed", "fresh"):
            return None
        keep = ["-k"] if c["kind"] == "closed" else []
        return ["ab", "-q", "-n", str(c["n"]), "-c", str(c["conns"])] + keep + [c["url"]]

    def read(self, out, err):
        return {"rps": number(r"Requests per second:\s*([0-9.]+)", out),
                "requests": number(r"Complete requests:\s*(\d+)", out),
                "errors": number(r"Failed requests:\s*(\d+)", out, 0),
                "p50": scaled(number(r"^\s*50%\s+(\d+)", out), 1e3),
                "p99": scaled(number(r"^\s*99%\s+(\d+)", out), 1e3),
                "max": scaled(number(r"^\s*100%\s+(\d+)", out), 1e3)}


@tool("htstress", counted=True)
class Htstress:
    def cmd(self, c):
        if c["tls"]:
            return None
        if c["kind"] != "fresh":
            return None
        return ["htstress", "-n", str(c["n"]), "-c", str(c["conns"]), "-t", "1", c["url"]]

    def read(self, out, err):
        return {"rps": number(r"requests/sec:\s*([0-9.]+)", out),
                "requests": number(r"^requests:\s*(\d+)", out),
                "errors": number(r"bad requests:\s*(\d+)", out, 0)}


@tool("prony htstress", binary=PRONY, counted=True)
class PronyHtstress(Htstress):
    def cmd(self, c):
        words = super().cmd(c)
        return words and [self.binary] + words


@tool("httperf", counted=True)
class Httperf:
    def cmd(self, c):
        if resumes(c):
            return None
        a = ["httperf", "--hog", "--server", c["host"], "--port", str(c["port"]), "--uri", c["path"]] + (
            ["--ssl"] if c["tls"] else [])
        if c["kind"] == "closed":
            return a + [f"--wsess={c['conns']},{max(1, c['n'] // c['conns'])},0", "--rate", "1000000"]
        if c["kind"] in ("pipe", "wsess"):  # httperf fails an assertion unless a session is a whole number of bursts
            calls = max(1, c["n"] // c["conns"] // c["depth"]) * c["depth"]
            return a + [f"--wsess={c['conns']},{calls},0", "--burst-length", str(c["depth"])] + (
                ["--rate", "1000000"] if c["kind"] == "pipe" or c["rate"] else [])
        # It has no closed loop of fresh connections: use a rate above its capacity.
        rate, n = (15000, c["n"]) if c["kind"] == "fresh" else (c["rate"], c["rate"] * c["secs"])
        return a + ["--num-conns", str(n), "--num-calls", "1", "--rate", str(rate), "--timeout", "5"]

    def read(self, out, err):
        replies = number(r"replies (\d+)", out, 0)
        return {"rps": replies / (number(r"test-duration ([0-9.]+)", out) or 1e9), "requests": replies,
                "errors": number(r"Errors: total (\d+)", out, 0)}


@tool("prony httperf", binary=PRONY, counted=True)
class PronyHttperf(Httperf):
    def cmd(self, c):
        words = super().cmd(c)
        return [self.binary] + words + ["--threads", "1"] if c["kind"] in ("wsess", "pipe") else None


@tool("h2load")
class H2load:
    def cmd(self, c):
        if resumes(c):
            return None
        a = ["h2load", "--h1", "-t1", f"-c{c['conns']}", f"-D{c['secs']}"]
        if c["kind"] == "closed":
            return a + [c["url"]]
        return a + [f"-m{c['depth']}", c["url"]] if c["kind"] == "pipe" else None

    def read(self, out, err):
        return {"rps": number(r"finished in .*?, ([0-9.]+) req/s", out),
                "requests": number(r"requests: .* (\d+) succeeded", out),
                "errors": number(r"(\d+) failed", out, 0) + number(r"(\d+) errored", out, 0)}


@tool("oha")
class Oha:
    def cmd(self, c):
        if resumes(c):
            return None
        a = ["oha", "--insecure", "--no-tui", "--output-format", "json", "-z", f"{c['secs']}s", "-c", str(c["conns"])]
        more = {"closed": [], "fresh": ["--disable-keepalive"], "open": ["-q", str(c.get("rate"))]}
        return a + more[c["kind"]] + [c["url"]] if c["kind"] in more else None

    def read(self, out, err):
        j = json.loads(out[out.index("{"):])
        p, ok = j["latencyPercentiles"], j.get("statusCodeDistribution", {})
        failed = sum(v for k, v in j.get("errorDistribution", {}).items() if "deadline" not in k)
        return {"rps": j["summary"]["requestsPerSec"], "requests": sum(ok.values()),
                "errors": failed + sum(v for k, v in ok.items() if not k.startswith("2")),
                "p50": scaled(p["p50"], 1e6), "p99": scaled(p["p99"], 1e6),
                "p999": scaled(p.get("p99.9"), 1e6), "max": scaled(j["summary"]["slowest"], 1e6)}


@tool("vegeta")
class Vegeta:
    def cmd(self, c):
        if resumes(c):
            return None
        a = ["vegeta", "attack", "-insecure", "-output", RUN + "/vegeta.bin", "-duration", f"{c['secs']}s", "-http2=false",
             "-connections", str(c["conns"]), "-targets", RUN + "/vegeta.txt"]
        if c["kind"] == "open":
            a += ["-rate", str(c["rate"])]
        elif c["kind"] in ("closed", "fresh"):
            a += ["-rate", "0", "-workers", str(c["conns"]), "-max-workers", str(c["conns"])]
            a += ["-keepalive=false"] if c["kind"] == "fresh" else []
        else:
            return None
        with open(RUN + "/vegeta.txt", "w") as f:
            f.write(f"GET {c['url']}\n")
        return a

    report = ["vegeta", "report", "-type=json", RUN + "/vegeta.bin"]  # not counted as CPU of the client

    def read(self, out, err):
        j = json.loads(out)
        p = j["latencies"]
        ok = sum(v for k, v in j["status_codes"].items() if k[0] in "23")
        return {"rps": j["throughput"], "requests": j["requests"], "errors": j["requests"] - ok,
                "p50": p["50th"] / 1e3, "p99": p["99th"] / 1e3, "max": p["max"] / 1e3}


class Floor:
    more = []

    def cmd(self, c):
        if c["kind"] not in ("closed", "pipe", "fresh") or c["tls"]:
            return None
        a = [self.binary, "-p", str(c["port"]), "-u", c["path"], "-c", str(c["conns"]), "-s", str(c["secs"])]
        if c["kind"] == "pipe":
            a += ["-d", str(c["depth"])]
        if c["kind"] == "fresh":
            if self.binary != "floor_epoll":
                return None
            a += ["-n"]
        return a + self.more

    def read(self, out, err):
        j = json.loads(out)
        return {"rps": j["rps"], "requests": j["requests"], "errors": 0,
                "p50": j.get("p50_us"), "p99": j.get("p99_us"), "p999": j.get("p999_us")}


@tool("floor_epoll")
class FloorEpoll(Floor):
    pass


@tool("floor_epoll -l", binary="floor_epoll")
class FloorEpollStamped(Floor):
    more = ["-l"]


@tool("floor_uring")
class FloorUring(Floor):
    pass


@tool("floor_uring -l", binary="floor_uring")
class FloorUringStamped(Floor):
    more = ["-l"]


@tool("floor_open")
class FloorOpen:
    """Sends each request of an open loop at its time, and does nothing else."""

    def cmd(self, c):
        if c["kind"] != "open":
            return None
        return ["floor_open", "-p", str(c["port"]), "-u", c["path"], "-c", str(c["conns"]),
                "-s", str(c["secs"]), "-r", str(c["rate"])]

    def read(self, out, err):
        j = json.loads(out)
        return {"rps": j["rps"], "requests": j["requests"], "errors": 0,
                "lag_p50": j["p50_us"], "lag_p99": j["p99_us"]}


class Prony:
    more = ""

    def cmd(self, c):
        kind = {"closed": f"-d {c['secs']}s", "fresh": f"-d {c['secs']}s --no-reuse",
                "pipe": f"-d {c['secs']}s -p {c['depth']}", "open": f"--rate {c.get('rate')}@{c['secs']}s"}
        if c["kind"] not in kind:
            return None
        resume = {"resume": "on"}.get(c["tls"], "off")
        tls = f"-k --tls-resume {resume}" if c["tls"] else ""
        words = (f"load -t 1 -c {c['conns']} --quiet --no-progress --no-tui --accept-invalid --json "
                 f"{self.more} {tls} {kind[c['kind']]} {c['url']}")
        return [self.binary] + words.split()

    def read(self, out, err):
        j = json.loads(out)
        lag = j["measurement"]["times"]["send_lag"]
        said = {k: j.get(k) for k in ("rps", "requests", "errors", "p50", "p99", "p999", "max")}
        return dict(said, lag_p50=scaled(lag.get("p50_ns"), 1e-3), lag_p99=scaled(lag.get("p99_ns"), 1e-3))


@tool("prony epoll", binary=PRONY)
class PronyEpoll(Prony):
    more = "--driver epoll"


@tool("prony uring", binary=PRONY)
class PronyUring(Prony):
    more = "--driver uring"


@tool("prony --precision 1ms", binary=PRONY)
class PronyGrain(Prony):
    """Checks its schedule as often as wrk2."""
    more = "--precision 1ms"

    def cmd(self, c):
        return super().cmd(c) if c["kind"] == "open" else None

"""Shared by compare and idle: the servers of the rig, their counters, and the resource usage of a run."""
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
DIR = os.environ.get("RIG_DIR", os.path.join(tempfile.gettempdir(), "prony-rig"))
RUN = os.path.join(DIR, "run")
CLIENT_CPU = os.environ.get("CLIENT_CPU", "0")
os.environ["PATH"] = os.path.join(DIR, "bin") + ":" + os.environ["PATH"] + ":/usr/sbin"

# name: port, path, server with the counters
SERVERS = {
    "nginx": (19080, "/128", "nginx"),
    "nginxtls": (19443, "/128", "nginx"),
    "haproxy": (19090, "/", "haproxy"),
    "redirect": (19091, "/", "haproxy"),
    "fast": (19100, "/", "fast"),
    "fastclose": (19101, "/", "fast"),
}


def machine_cpu():
    """CPU time since boot of all processes, and CPU time stolen by the hypervisor, in seconds."""
    with open("/proc/stat") as f:
        v = [int(x) / 100 for x in f.readline().split()[1:]]
    return v[0] + v[1] + v[2] + v[5] + v[6], v[7]


def server_pid(server):
    name = "nginx-worker" if server == "nginx" else server
    try:
        with open(f"{RUN}/{name}.pid") as f:
            pid = int(f.read())
        os.kill(pid, 0)
        return pid
    except (OSError, ValueError):
        sys.exit(f"{server} is not up: `cargo xtask bench rig up`, and `rig status`")


def server_cpu(pid):
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e9


class Counter:
    """Number of requests that a server reports as answered."""

    asked = 0  # nginx also counts the requests for its counters

    def read(self, server):
        if server == "nginx":
            Counter.asked += 1
            with urllib.request.urlopen("http://127.0.0.1:19079/") as reply:
                line = reply.read().decode().split("\n")[2]
            return int(line.split()[2]) - Counter.asked
        if server == "haproxy":
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(RUN + "/haproxy.sock")
                s.send(b"show info\n")
                text = b""
                while piece := s.recv(65536):
                    text += piece
            lines = text.decode().split("\n")
            return int(next(x for x in lines if x.startswith("CumReq:")).split()[1])
        with open(f"{RUN}/{server}.count", "rb") as f:
            return struct.unpack("<Q", f.read(8))[0]


COUNTER = Counter()


def wait_until_quiet(seconds):
    end = time.time() + seconds
    while time.time() < end:
        before, t = machine_cpu()[0], time.time()
        time.sleep(0.3)
        if (machine_cpu()[0] - before) / (time.time() - t) < 0.12:
            return


def measure(argv, server, timeout):
    """Run a client on its CPU. Returns its resource usage, its output, and the load of the machine."""
    pid = server_pid(server)
    n0, s0 = COUNTER.read(server), server_cpu(pid)
    (b0, st0), w0 = machine_cpu(), time.time()
    out, err = open(RUN + "/out", "w+b"), open(RUN + "/err", "w+b")
    p = subprocess.Popen(["meas", RUN + "/meas.out", CLIENT_CPU] + argv, stdout=out, stderr=err,
                         stdin=subprocess.DEVNULL, cwd=RUN, start_new_session=True)
    try:
        p.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, 9)
        p.wait()
        raise
    wall = time.time() - w0
    s1, (b1, st1), n1 = server_cpu(pid), machine_cpu(), COUNTER.read(server)
    with open(RUN + "/meas.out") as f:
        _, user, system, rss, _, _, rc = map(float, f.read().split())
    said = []
    for f in (out, err):
        f.seek(0)
        said.append(f.read().decode(errors="replace"))
        f.close()
    n, cpu, srv = n1 - n0, user + system, s1 - s0
    return said[0], said[1], {
        "n_server": n, "wall": wall, "cpu": cpu, "user": user, "sys": system, "rc": int(rc),
        "rss_mib": rss / 1024, "srv_cpu": srv, "argv": " ".join(argv),
        "cpu_us": 1e6 * cpu / n if n else None, "srv_us": 1e6 * srv / n if n else None,
        "other": max(0.0, 100 * (b1 - b0 - cpu - srv) / wall), "steal": 100 * (st1 - st0) / wall,
    }

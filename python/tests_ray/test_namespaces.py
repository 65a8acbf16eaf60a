"""Network namespaces as hosts: each has an address and a link of its own, which can be cut. Needs
root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import prony
import pytest
from conftest import at_work, gone, kill, processes

NET = "10.77.0"
BRIDGE = "pronybr"
HOSTS = 3

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="network namespaces need root and ip"
)


def ip(words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words.split()], check=check, capture_output=not check)


def cut(host: int) -> None:
    """Cuts the link of a host."""
    ip(f"link set pronyv{host} down")


class Network:
    """Hosts on a bridge, which is the first address of the network."""

    def __enter__(self) -> Network:
        self.remove()
        ip(f"link add {BRIDGE} type bridge")
        ip(f"addr add {NET}.1/24 dev {BRIDGE}")
        ip(f"link set {BRIDGE} up")
        for host in range(HOSTS):
            ip(f"netns add prony{host}")
            ip(f"link add pronyv{host} type veth peer name eth0 netns prony{host}")
            ip(f"link set pronyv{host} master {BRIDGE} up")
            ip(f"-n prony{host} addr add {NET}.{host + 2}/24 dev eth0")
            ip(f"-n prony{host} link set eth0 up")
            ip(f"-n prony{host} link set lo up")
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        for host in range(HOSTS):
            # A namespace takes its end of the link along, but not at once.
            ip(f"link del pronyv{host}", check=False)
            ip(f"netns del prony{host}", check=False)
        ip(f"link del {BRIDGE}", check=False)


class Ray:
    """A cluster of a head without a CPU on the bridge, and a node in each namespace."""

    port = 6399

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Ray:
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self) -> None:
        self._start(
            "--head", f"--port={self.port}", f"--node-ip-address={NET}.1", "--num-cpus=0",
            "--include-dashboard=false", f"--temp-dir={self._folder}",
        )
        self._wait(1)
        for host in range(HOSTS):
            self._start(
                f"--address={NET}.1:{self.port}", f"--node-ip-address={NET}.{host + 2}",
                "--num-cpus=1", "--object-store-memory=100000000", host=host,
            )
            # One after another: they share a folder for their sockets.
            self._wait(2 + host)

    def _start(self, *words: str, host: int | None = None) -> None:
        line = [str(Path(sys.executable).with_name("ray")), "start", "--block", *words]
        if host is not None:
            line = ["ip", "netns", "exec", f"prony{host}", *line]
        output = open(self._folder / f"node{len(self._nodes)}.log", "wb")
        self._nodes.append(subprocess.Popen(line, stdout=output, stderr=subprocess.STDOUT))

    def _wait(self, nodes: int) -> None:
        """Waits until this number of nodes is alive."""
        look = (
            "import ray, sys; "
            f"ray.init('{NET}.1:{self.port}', log_to_driver=False, logging_level='ERROR'); "
            "print(sum(node['Alive'] for node in ray.nodes()))"
        )
        end = time.monotonic() + 120
        found = ""
        while time.monotonic() < end:
            done = subprocess.run(
                [sys.executable, "-c", look], capture_output=True, text=True, timeout=120
            )
            found = done.stdout.strip()
            if found == str(nodes):
                return
            time.sleep(1)
        logs = [file.read_text() for file in sorted(self._folder.glob("node*.log"))]
        raise AssertionError(f"{found} nodes of {nodes}: {logs}")

    def __exit__(self, *_: object) -> None:
        for node in reversed(self._nodes):
            node.terminate()
        for node in self._nodes:
            try:
                node.wait(timeout=20)
            except subprocess.TimeoutExpired:
                node.kill()
        # Whatever a node has left behind, even one that was cut off.
        for pid, words in processes():
            if f"{self._folder}/" in " ".join(words):
                kill(pid)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the cluster."""
    # Sockets have short names.
    folder = Path(f"/tmp/prony-ray-{os.getpid()}")
    folder.mkdir()
    try:
        with Network(), Ray(folder) as ray:
            yield f"{NET}.1:{ray.port}"
        assert gone(at_work()), "a worker is left"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(cluster: str, url: str, *words: str) -> subprocess.Popen[str]:
    program = str(Path(sys.executable).with_name("prony"))
    line = [program, "load", "--engine", "ray", "--cluster", cluster, "--json", "--no-progress"]
    return subprocess.Popen(
        [*line, *words, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_hosts_have_addresses_of_their_own(cluster: str) -> None:
    with prony.serve(f"{NET}.1:0") as server:
        words = ["-r", "300", "-d", "2s", "--hosts", str(HOSTS), "--accept-invalid"]
        process = run(cluster, server.url, *words)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        report = json.loads(out)
        assert report["measurement"]["tally"]["replies"] == 600 == server.stop()["replies"]
        # Workers on one machine have one name; numbers tell them apart.
        names = [host["name"] for host in report["run"]["hosts"]["hosts"]]
        assert len(set(names)) == HOSTS, names


def test_a_host_whose_link_is_cut_is_lost(cluster: str) -> None:
    with prony.serve(f"{NET}.1:0") as server:
        process = run(cluster, server.url, "-r", "300", "-d", "12s", "--hosts", str(HOSTS))
        end = time.monotonic() + 60
        while len(at_work()) < HOSTS:
            assert time.monotonic() < end, "the workers have not started"
            time.sleep(0.2)
        workers = at_work()
        time.sleep(6)
        cut(1)
        began = time.monotonic()
        out, err = process.communicate(timeout=120)
        waited = time.monotonic() - began
    assert process.returncode == 98, err
    report = json.loads(out)
    hosts = report["run"]["hosts"]["hosts"]
    lost = [host for host in hosts if "lost" in host]
    assert len(lost) == 1 and 0.05 < lost[0]["lost"]["offered"] < 0.95, hosts
    # By its silence, long before Ray gives the host up.
    assert "it was silent for " in err and waited < 30, (waited, err)
    assert [host["replies"] for host in hosts if "lost" not in host] == [1200, 1200], hosts
    # On a busy machine, there can be others.
    assert "partial" in [reason["kind"] for reason in report["verdict"]["reasons"]]
    # Nobody can reach the one that is cut off: it ends with its actor (see the fixture).
    left = set(workers) & set(at_work())
    assert len(left) <= 1, "a worker is left"

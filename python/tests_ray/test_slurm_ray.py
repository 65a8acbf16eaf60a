"""The job with Ray of docs/many-hosts.md, on Slurm with three nodes: network namespaces with host
names of their own. Needs root, and Slurm from Debian's packages."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import prony
import pytest
from conftest import at_work, gone, kill, processes
from test_namespaces import HOSTS, NET, Network, ip
from test_slurm import PAGE, PROGRAMS, Daemons

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, [*PROGRAMS, "ip", "nsenter", "unshare"])),
    reason="needs root, ip, and the packages slurmctld, slurmd, slurm-client and munge",
)

NODES = f"""
SlurmdSpoolDir={{folder}}/spool.%n
SlurmdPidFile={{folder}}/slurmd.%n.pid
SlurmdLogFile={{folder}}/slurmd.%n.log
NodeName=prony[0-{HOSTS - 1}] NodeAddr={NET}.[2-{HOSTS + 1}] CPUs=1
PartitionName=all Nodes=prony[0-{HOSTS - 1}] Default=YES State=UP
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """The environment of a Slurm whose nodes are namespaces with a name for each other."""
    folder = Path(f"/tmp/prony-slurm-ray-{os.getpid()}")
    names = "".join(f"{NET}.{host + 2} prony{host}\n" for host in range(HOSTS))
    try:
        with Network(), Daemons(folder, NODES, f"{NET}.1") as daemons:
            (folder / "ray").mkdir()
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
            for host in range(HOSTS):
                # Ray looks for the address of the route to the outside.
                ip(f"-n prony{host} route add default via {NET}.1")
                for part in (f"spool.prony{host}", f"ray{host}"):
                    (folder / part).mkdir()
                # `ip netns exec` would hide the control groups.
                into = ["nsenter", f"--net=/run/netns/prony{host}", "unshare", "--uts", "--mount"]
                start = (
                    f"mount --bind {folder}/hosts /etc/hosts && hostname prony{host} && "
                    # A folder of its own, as on a host of its own.
                    f"mount --bind {folder}/ray{host} {folder}/ray && "
                    f"exec slurmd -D -f {folder}/slurm.conf"
                )
                daemons.start(f"slurmd{host}", [*into, "sh", "-c", start])
            daemons.wait(f"idle*{HOSTS}")
            yield daemons.environment
        assert gone(at_work()), "a worker is left"
    finally:
        # Whatever Ray has left behind.
        for pid, words in processes():
            if f"{folder}/ray" in " ".join(words):
                kill(pid)
        shutil.rmtree(folder, ignore_errors=True)


def job() -> str:
    """The script of the page, with fewer nodes."""
    section = PAGE.read_text().split("With Ray, head and workers")[1]
    script = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)[0]
    hosts = str(HOSTS - 1)
    for old, new in [
        ("--nodes=9", f"--nodes={HOSTS}"),
        ("--nodes=8 --ntasks=8", f"--nodes={hosts} --ntasks={hosts}"),
        ("--hosts 8", f"--hosts {hosts} --accept-invalid"),
        ("-o run.html", "-o run.html -o run.json"),
    ]:
        assert old in script, script
        script = script.replace(old, new)
    return script


def test_the_job_of_the_page_runs_on_the_nodes(slurm: dict[str, str], tmp_path: Path) -> None:
    with prony.serve(f"{NET}.1:0") as server:
        plan = f'url = "{server.url}"\nrate = 400\nduration = "3s"\n'
        (tmp_path / "shop.toml").write_text(plan)
        (tmp_path / "token").write_text(secrets.token_hex(32))
        (tmp_path / "job.sh").write_text(job())
        folder = str(Path(sys.executable).parent)
        environment = {
            **{k: v for k, v in slurm.items() if not k.startswith("RAY_AUTH")},
            "PATH": f"{folder}:{slurm['PATH']}",
            "RAY_TMPDIR": f"{Path(slurm['SLURM_CONF']).parent}/ray",
        }
        subprocess.run(
            ["sbatch", "--wait", "--output=job.out", "job.sh"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
        )
        output = (tmp_path / "job.out").read_text() if (tmp_path / "job.out").exists() else ""
        # The job cancels itself in the end, so its exit code says nothing.
        assert (tmp_path / "run.json").exists(), output[-6000:]
        report = json.loads((tmp_path / "run.json").read_text())
        hosts = report["run"]["hosts"]["hosts"]
        assert [host["replies"] for host in hosts] == [600] * (HOSTS - 1), hosts
        # Each on a node of its own, and none on that of the head.
        names = sorted(host["name"] for host in hosts)
        assert names == [f"prony{host}" for host in range(1, HOSTS)], hosts
        assert report["measurement"]["tally"]["replies"] == 1200 == server.stop()["replies"]

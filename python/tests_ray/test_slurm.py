"""The job of docs/many-hosts.md on Slurm from Debian's packages (slurmctld, slurmd, slurm-client,
munge): one node with four tasks. Needs root."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import prony
import pytest

TASKS = 4
PROGRAMS = ["slurmctld", "slurmd", "munged", "sbatch", "srun", "sinfo"]
PAGE = Path(__file__).parents[2] / "docs" / "many-hosts.md"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)),
    reason="Slurm needs root and the packages slurmctld, slurmd, slurm-client and munge",
)

CONFIG = """
ClusterName=prony
SlurmctldHost={host}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
ReturnToService=2
"""

NODE = """
SlurmdSpoolDir={folder}/spool
SlurmdPidFile={folder}/slurmd.pid
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus}
PartitionName=all Nodes={host} Default=YES OverSubscribe=FORCE State=UP
"""


class Daemons:
    """munge and the daemons of a Slurm, with their files in a folder."""

    def __init__(self, folder: Path, nodes: str, address: str) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        for part in (folder, folder / "state", folder / "spool"):
            part.mkdir(mode=0o755)
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        host = os.uname().nodename.split(".")[0]
        file = folder / "slurm.conf"
        config = (CONFIG + nodes).format(
            host=host, folder=folder, cpus=os.cpu_count(), address=address
        )
        file.write_text(config)
        self.environment = {**os.environ, "SLURM_CONF": str(file)}

    def __enter__(self) -> Daemons:
        munged = ["munged", "--foreground", "--force", f"--socket={self._folder}/munge.socket"]
        for part in ("key", "log", "pid", "seed"):
            munged.append(f"--{part}-file={self._folder}/munge.{part}")
        self.start("munged", munged)
        self.start("slurmctld", ["slurmctld", "-D", "-f", f"{self._folder}/slurm.conf"])
        return self

    def start(self, name: str, line: list[str]) -> None:
        """Starts a daemon."""
        output = open(self._folder / f"{name}.out", "wb")
        self._running.append(
            subprocess.Popen(
                line, env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )
        )
        time.sleep(1)

    def wait(self, status: str) -> None:
        """Waits until the nodes have this status, such as `idle*3`."""
        line = ["sinfo", "--noheader", "--format=%t*%D"]
        end = time.monotonic() + 60
        while True:
            done = subprocess.run(line, env=self.environment, capture_output=True, text=True)
            if done.stdout.split() == [status]:
                return
            logs = [log.read_text()[-2000:] for log in self._folder.glob("*.[lo][ou][gt]")]
            assert time.monotonic() < end, (done.stdout, logs)
            time.sleep(0.5)

    def __exit__(self, *_: object) -> None:
        for one in reversed(self._running):
            one.terminate()
            one.wait(timeout=30)


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """The environment of a Slurm with one node."""
    folder = Path(f"/tmp/prony-slurm-{os.getpid()}")
    try:
        with Daemons(folder, NODE, "127.0.0.1") as daemons:
            daemons.start("slurmd", ["slurmd", "-D", "-f", f"{folder}/slurm.conf"])
            daemons.wait("idle*1")
            yield daemons.environment
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def job() -> str:
    """The script of the page, on one node with fewer tasks that start earlier."""
    section = PAGE.read_text().split("## Slurm")[1]
    script = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)[0]
    for old, new in [
        ("--ntasks=8 --ntasks-per-node=1", f"--ntasks={TASKS} --overcommit"),
        ("+30 seconds", "+8 seconds"),
        ("srun ", "srun --overcommit "),
    ]:
        assert old in script, script
        script = script.replace(old, new)
    return script


def test_the_job_of_the_page_merges_the_tasks(slurm: dict[str, str], tmp_path: Path) -> None:
    with prony.serve() as server:
        plan = f'url = "{server.url}"\nrate = 400\nduration = "3s"\n'
        (tmp_path / "shop.toml").write_text(plan)
        script = job().replace("-o run.html", "-o run.html -o run.json")
        (tmp_path / "job.sh").write_text(script)
        folder = str(Path(sys.executable).parent)
        environment = {**slurm, "PATH": f"{folder}:{slurm['PATH']}"}
        done = subprocess.run(
            ["sbatch", "--wait", "--output=job.out", "job.sh"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
        )
        output = (tmp_path / "job.out").read_text() if (tmp_path / "job.out").exists() else ""
        # 98: on a busy machine, the run may not be valid.
        assert done.returncode in (0, 98), (done, output)
        report = json.loads((tmp_path / "run.json").read_text())
        hosts = report["run"]["hosts"]["hosts"]
        assert [host["replies"] for host in hosts] == [300] * TASKS, hosts
        assert report["measurement"]["tally"]["replies"] == 1200 == server.stop()["replies"]
        assert "<html" in (tmp_path / "run.html").read_text()

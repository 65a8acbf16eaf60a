"""The manifest of `prony ray-job`, against KubeRay's own schema with unknown fields forbidden."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

# Ray has both of them with it.
import jsonschema
import pytest
import yaml

PLAN = 'url = "http://shop/"\nrate = 100\nduration = "2s"\n\n# A comment: with "quotes"\n'


def manifest(tmp_path: Path, *words: str) -> str:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    program = str(Path(sys.executable).with_name("prony"))
    line = [program, "ray-job", str(plan), "--hosts", "3", "--image", "example/prony:1", *words]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def schema() -> dict[str, Any]:
    """The schema of a RayJob. `cargo xtask ci` and `cargo xtask hosts` get it from the Go module of
    KubeRay, and report or fail where they cannot."""
    path = os.environ.get("PRONY_TEST_KUBERAY")
    if path is None:
        pytest.skip("PRONY_TEST_KUBERAY does not name KubeRay's schema (ray.io_rayjobs.yaml)")
    crd = yaml.safe_load(Path(path).read_text())
    versions = {version["name"]: version for version in crd["spec"]["versions"]}
    return strict(versions["v1"]["schema"]["openAPIV3Schema"])


def strict(schema: Any) -> Any:
    """The schema without fields that it does not name."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    known = isinstance(made.get("properties"), dict) and made.get("type") == "object"
    if known and not made.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


def test_the_job_fits_the_schema(tmp_path: Path) -> None:
    validator = jsonschema.Draft7Validator(schema())
    plan, job = yaml.safe_load_all(manifest(tmp_path, "--name", "shop-load", "--cpus", "4"))
    # Kubernetes gives the metadata of an object its own schema.
    validator.schema["properties"]["metadata"] = {"type": "object"}
    assert [error.message for error in validator.iter_errors(job)] == []
    broken = json.loads(json.dumps(job))
    broken["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicates"] = 3
    assert any("replicates" in error.message for error in validator.iter_errors(broken))
    assert plan["kind"] == "ConfigMap" and plan["data"]["plan.toml"] == PLAN
    cluster = job["spec"]["rayClusterSpec"]
    group = cluster["workerGroupSpecs"][0]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (3, 3, 3)
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert cluster["authOptions"] == {"mode": "token", "secretName": "shop-load"}
    assert "--hosts 3" in job["spec"]["entrypoint"]

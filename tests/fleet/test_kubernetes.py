"""Kubernetes as the engine, with a stand-in API server that checks every request by Kubernetes' OpenAPI document."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from envcheck.fleet.collector import MARK
from envcheck.fleet.kubernetes import make_manifest
from envcheck.fleet.results import FleetRequest
from envcheck.model import encode
from tests.fakes.kubernetes_openapi import check_request, path_of
from tests.fleet.command import ROOT, fleet
from tests.hosts.test_hosts import snapshot_of

if TYPE_CHECKING:
    from tests.fakes.kubernetes_api import Cluster

ASKED = ("--engine", "kubernetes", "--namespace", "gpu", "--image", "example/py:3.12", "-o", "out")


def answer() -> str:
    snapshot = encode(snapshot_of("docker-with-gpu"))
    return f"a banner\n{MARK}{json.dumps(snapshot)}\n"


def cluster_of(**ends: str) -> Cluster:
    from tests.fakes.kubernetes_api import Cluster, Node

    logs = {"exits": "envcheck: no Python 3.8 or newer on this host\n", "oom": "half\n"}
    return Cluster({name: Node(end, logs.get(end, answer())) for name, end in ends.items()})


def run(
    cluster: Cluster, folder: Path, *more: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, tuple[str, str]]]:
    """Run the engine; return the program's end and the kind and reason of each node."""
    from tests.fakes.kubernetes_api import serve

    limits = ("--timeout", "5", "--connect-timeout", "1")
    with serve(cluster, folder) as config:
        done = fleet("run", *ASKED, *limits, *more, cwd=folder, env={"KUBECONFIG": str(config)})
    files = (folder / "out").glob("*.json")
    documents = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}
    return done, {
        name: (found.get("kind", "read"), found.get("reason", ""))
        for name, found in documents.items()
    }


@pytest.mark.needs("kubernetes")
def test_fifty_nodes_answer_or_say_why_not(tmp_path: Path) -> None:
    ends = {
        "exits": ("too-old", "no Python 3.8 or newer on this host Error, exit code 3"),
        "oom": ("broken", "OOMKilled, exit code 137"),
        "evicted": ("unreachable", "Evicted: The node was low on resource: memory."),
        "deleted": ("unreachable", "its pod was deleted before it answered"),
        "pending": ("unreachable", "its pod gets no place: Insufficient nvidia.com/gpu"),
        "image": ("broken", "its pod does not start: ImagePullBackOff: Back-off pulling image"),
        "hangs": ("hung", "its pod gave no answer in 5 s"),
        "quota": ("denied", "Kubernetes refuses its Job: exceeded quota: gpu"),
        "not-ready": ("unreachable", "it is not ready: Kubelet stopped posting node status."),
    }
    names = [*ends, "slow", *["read"] * 40]
    cluster = cluster_of(**{f"node{number:02}": end for number, end in enumerate(names)})
    done, found = run(cluster, tmp_path, "--forks", "30")
    assert len(found) == 50
    for number, end in enumerate(names):
        kind, words = ends.get(end, ("read", ""))
        assert found[f"node{number:02}"][0] == kind, (end, found[f"node{number:02}"])
        assert words in found[f"node{number:02}"][1]
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "41 hosts read, 9 without an answer."
    assert (cluster.jobs, cluster.config_maps) == ({}, {}), "a run deletes what it made"
    (collector,) = [item for item in cluster.made if item["kind"] == "ConfigMap"]
    sent = base64.b64decode(collector["binaryData"]["collector"])
    assert sent.startswith(b"#!/bin/sh")
    assert not [name for name in zipfile.ZipFile(io.BytesIO(sent)).namelist() if name.endswith("c")]
    assert len(sent) < 1 << 19, "half of what a ConfigMap may hold"
    role = {
        (resource, verb)
        for item in make_manifest(FleetRequest(namespace="gpu", image="i"))["items"]
        for rule in item.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert role == cluster.used, "the printed rights are those that a run uses"


def test_the_printed_manifest_is_valid_and_asks_for_no_privilege() -> None:
    done = fleet(
        "run", *ASKED, "--print-manifest", "--gpus", "2", "--runtime-class", "nvidia", cwd=ROOT
    )
    printed = json.loads(done.stdout)
    kinds = [item["kind"] for item in printed["items"]]
    assert kinds == [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "Job",
    ]
    for item in printed["items"]:
        check_request("post", path_of(item), {}, item)
    job = printed["items"][-1]
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    assert job["spec"]["suspend"] is True, "applied as it is printed, it runs nothing"
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert pod["runtimeClassName"] == "nvidia"
    text = json.dumps(printed)
    assert not [
        word
        for word in ("privileged", "hostPID", "hostNetwork", "hostPath", "secrets", "*")
        if f'"{word}"' in text
    ]
    assert pod["automountServiceAccountToken"] is False


JOBS = "/apis/batch/v1/namespaces/gpu/jobs"
TEMPLATE = {"spec": {"containers": [{"name": "x", "image": "x"}]}}


@pytest.mark.parametrize(
    ("query", "body", "words"),
    [
        ({}, {"metadata": {"nmae": "x"}}, "nmae"),
        ({}, {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}, "name"),
        ({}, {"spec": {"template": TEMPLATE, "backoffLimit": "0"}}, "backoffLimit"),
        ({}, {"spec": {}}, "template"),
        ({"labelSelector": ["a=b"]}, {"spec": {"template": TEMPLATE}}, "labelSelector"),
        ({}, None, "needs a body"),
    ],
)
def test_the_stand_in_refuses_what_the_document_does_not_allow(
    query: dict[str, list[str]], body: Any, words: str
) -> None:
    check_request("post", JOBS, {}, {"spec": {"template": TEMPLATE, "backoffLimit": 0}})
    with pytest.raises(ValueError, match=words):
        check_request("post", JOBS, query, body)


def test_the_stand_in_has_the_operations_of_the_document_alone() -> None:
    check_request("get", "/api/v1/namespaces/gpu/pods/a/log", {"limitBytes": ["9"]}, None)
    with pytest.raises(ValueError, match="limitBytes"):
        check_request("get", "/api/v1/namespaces/gpu/pods/a/log", {"limitBytes": ["many"]}, None)
    for method, path in (("put", JOBS), ("get", "/api/v1/secrets"), ("get", "/api/v1/nodes/a/b")):
        with pytest.raises(LookupError):
            check_request(method, path, {}, None)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("kubernetes", "--namespace", "gpu"), "name where the Jobs run, and their image"),
        (("kubernetes", "--image", "i"), "name where the Jobs run, and their image"),
        (("slurm", "--print-manifest"), "--print-manifest is of --engine kubernetes"),
    ],
)
def test_namespace_and_image_are_asked_for(
    more: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = fleet("run", "--engine", *more, cwd=tmp_path)
    assert (done.returncode, done.stdout, message in done.stderr) == (2, "", True)


@pytest.mark.needs("kubernetes")
@pytest.mark.parametrize("right", ["nodes list", "configmaps create", "pods list", "pods/log get"])
def test_a_missing_right_is_a_sentence(right: str, tmp_path: Path) -> None:
    cluster = cluster_of(a="read")
    cluster.refused = right
    done, found = run(cluster, tmp_path)
    if right == "pods/log get":
        assert found["a"] == (
            "broken",
            'its log cannot be read: pods/log is forbidden: User "ops" cannot get resource',
        )
    else:
        assert done.returncode == 2
        assert "Kubernetes refuses: " in done.stderr
        assert "--print-manifest" in done.stderr
    assert (cluster.jobs, cluster.config_maps) == ({}, {})


@pytest.mark.needs("kubernetes")
def test_what_cannot_be_deleted_is_named(tmp_path: Path) -> None:
    cluster = cluster_of(a="read")
    cluster.refused = "jobs deletecollection"
    done, found = run(cluster, tmp_path)
    assert (done.returncode, found["a"][0], cluster.config_maps) == (0, "read", {})
    assert "kubectl -n gpu delete job,configmap -l envcheck/run=" in done.stderr


@pytest.mark.needs("kubernetes")
def test_no_cluster_is_a_sentence(tmp_path: Path) -> None:
    nothing = {"KUBECONFIG": str(tmp_path / "nowhere"), "HOME": str(tmp_path)}
    done = fleet("run", *ASKED, cwd=tmp_path, env=nothing)
    assert done.returncode == 2
    assert "no cluster is configured (KUBECONFIG)" in done.stderr
    done, _ = run(cluster_of(a="read"), tmp_path, "--limit", "gpu=no")
    assert "Kubernetes lists no node gpu=no" in done.stderr


@pytest.mark.needs("kubernetes", "posix")
def test_an_interrupt_deletes_what_the_run_made(tmp_path: Path) -> None:
    from tests.fakes.kubernetes_api import serve

    cluster = cluster_of(a="read", b="hangs")
    with serve(cluster, tmp_path) as config:
        argv = [sys.executable, "-m", "tests.fleet.command", "run", *ASKED]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "KUBECONFIG": str(config)}
        process = subprocess.Popen(
            argv, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
        )
        limit = time.monotonic() + 120
        while not (tmp_path / "out" / "a.json").exists() and time.monotonic() < limit:
            time.sleep(0.1)
        assert cluster.jobs, "it still waits for b"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert (cluster.jobs, cluster.config_maps) == ({}, {})
    assert (tmp_path / "out" / "a.json").exists()

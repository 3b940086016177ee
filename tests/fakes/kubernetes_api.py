"""A stand-in for Kubernetes' API server on loopback: what a fleet run asks of it, and nothing else.

Each request is held against Kubernetes' OpenAPI document: its path and method, every parameter of its query, its body; and so is each
answer of the stand-in itself. Unknown keys, wrong types and missing ones are refused with 422. No scheduler and no kubelet are behind it:
a pod goes at once to the end that its node was given.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.kubernetes_openapi import check_answer, check_request


@dataclass
class Node:
    """A node, and how a pod ends there."""

    end: str = "read"  # read, exits, oom, evicted, deleted, pending, image, hangs, quota, slow; or not-ready
    log: str = ""


@dataclass
class Cluster:
    """What the stand-in knows and has seen."""

    nodes: dict[str, Node]
    refused: str = ""  # a verb and resource that the caller has no right to
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    config_maps: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: list[dict[str, Any]] = field(default_factory=list)
    used: set[tuple[str, str]] = field(default_factory=set)  # resource, verb
    most: int = 0  # Jobs without an end at one time
    lists: dict[str, int] = field(default_factory=dict)


def _status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "apiVersion": "v1", "code": code, "message": message}


def _pod(cluster: Cluster, job: dict[str, Any]) -> dict[str, Any] | None:
    name = _node_of(job)
    cluster.lists[name] = cluster.lists.get(name, 0) + 1
    end = cluster.nodes[name].end
    container: dict[str, Any] = {
        "name": "collector",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
    }
    status: dict[str, Any] = {"phase": "Pending", "containerStatuses": [container]}
    if end == "deleted" and cluster.lists[name] > 1:
        return None
    if end in {"hangs", "deleted"} or (end == "slow" and cluster.lists[name] == 1):
        status["phase"], container["state"] = "Running", {"running": {}}
    elif end == "pending":
        lack = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {
            "phase": "Pending",
            "conditions": [{**lack, "message": "Insufficient nvidia.com/gpu"}],
        }
    elif end == "image":
        container["state"] = {
            "waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
        }
    elif end == "evicted":
        status |= {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
        }
    elif end in {"exits", "oom"}:
        why = (
            {"exitCode": 137, "reason": "OOMKilled"}
            if end == "oom"
            else {"exitCode": 3, "reason": "Error"}
        )
        status["phase"], container["state"] = "Failed", {"terminated": why}
    else:
        status["phase"], container["state"] = "Succeeded", {"terminated": {"exitCode": 0}}
    template = job["spec"]["template"]
    about = {"name": job["metadata"]["name"] + "-x7k2p", "labels": template["metadata"]["labels"]}
    return {"metadata": about, "spec": template["spec"], "status": status}


def _node_of(job: dict[str, Any]) -> str:
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (wanted,) = term["matchFields"]
    assert (wanted["key"], wanted["operator"], len(wanted["values"])) == ("metadata.name", "In", 1)
    name: str = wanted["values"][0]
    return name


def _selects(query: dict[str, list[str]], labels: dict[str, str]) -> bool:
    key, _, value = query["labelSelector"][0].partition("=")
    return labels.get(key) == value


class _Server(ThreadingHTTPServer):
    cluster: Cluster


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, verb: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        parts = url.path.strip("/").split("/")
        sent = json.loads(body) if body else None
        try:
            operation = check_request(self.command.lower(), url.path, query, sent)
            code, answer = self._route(verb, parts, query, sent)
            check_answer(operation, code, answer)
        except LookupError as error:
            code, answer = _status(404, str(error))
        except ValueError as error:
            code, answer = _status(422, str(error))
        data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(code)
        self.send_header(
            "Content-Type", "text/plain" if isinstance(answer, str) else "application/json"
        )
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self._answer("get")

    def do_POST(self) -> None:
        self._answer("create")

    def do_DELETE(self) -> None:
        self._answer("delete")

    def _route(
        self, verb: str, parts: list[str], query: dict[str, list[str]], body: Any
    ) -> tuple[int, Any]:
        cluster = self.server.cluster
        known = {
            ("get", "api/v1/nodes"): ("nodes", "list"),
            ("create", "api/v1/namespaces/gpu/configmaps"): ("configmaps", "create"),
            ("create", "apis/batch/v1/namespaces/gpu/jobs"): ("jobs", "create"),
            ("delete", "apis/batch/v1/namespaces/gpu/jobs"): ("jobs", "deletecollection"),
            ("get", "api/v1/namespaces/gpu/pods"): ("pods", "list"),
        }
        path = "/".join(parts)
        asked = known.get((verb, path))
        if (
            path.startswith("api/v1/namespaces/gpu/pods/")
            and path.endswith("/log")
            and verb == "get"
        ):
            asked = ("pods/log", "get")
        if path.startswith("api/v1/namespaces/gpu/configmaps/") and verb == "delete":
            asked = ("configmaps", "delete")
        if asked is None:
            return _status(404, f"the stand-in has no {verb} {path}")
        cluster.used.add(asked)
        if cluster.refused == " ".join(asked):
            return _status(403, f'{asked[0]} is forbidden: User "ops" cannot {asked[1]} resource')
        return getattr(self, "_" + "_".join(asked).replace("/", "_"))(cluster, parts, query, body)  # type: ignore[no-any-return]

    def _nodes_list(
        self, cluster: Cluster, _: Any, query: dict[str, list[str]], __: Any
    ) -> tuple[int, Any]:
        items = [
            {
                "metadata": {"name": name},
                "status": {"conditions": [self._ready(node)]},
            }
            for name, node in cluster.nodes.items()
            if not query.get("labelSelector") or query["labelSelector"] == ["gpu=yes"]
        ]
        return 200, {"kind": "NodeList", "apiVersion": "v1", "items": items}

    @staticmethod
    def _ready(node: Node) -> dict[str, str]:
        if node.end == "not-ready":
            return {
                "type": "Ready",
                "status": "Unknown",
                "message": "Kubelet stopped posting node status.",
            }
        return {"type": "Ready", "status": "True", "message": "kubelet is posting ready status"}

    def _configmaps_create(self, cluster: Cluster, _: Any, __: Any, body: Any) -> tuple[int, Any]:
        cluster.config_maps[body["metadata"]["name"]] = body
        cluster.made.append(body)
        return 201, body

    def _configmaps_delete(self, cluster: Cluster, parts: list[str], *_: Any) -> tuple[int, Any]:
        found = cluster.config_maps.pop(parts[-1], None)
        return _status(200, "deleted") if found else _status(404, "not found")

    def _jobs_create(self, cluster: Cluster, _: Any, __: Any, body: Any) -> tuple[int, Any]:
        node = _node_of(body)
        if cluster.nodes[node].end == "quota":
            return _status(403, "exceeded quota: gpu")
        cluster.jobs[body["metadata"]["name"]] = body
        cluster.made.append(body)
        return 201, body

    def _jobs_deletecollection(
        self, cluster: Cluster, _: Any, query: dict[str, list[str]], __: Any
    ) -> tuple[int, Any]:
        assert query["propagationPolicy"] == ["Background"], "pods would stay"
        for name, job in list(cluster.jobs.items()):
            if _selects(query, job["metadata"]["labels"]):
                del cluster.jobs[name]
        return _status(200, "deleted")

    def _pods_list(
        self, cluster: Cluster, _: Any, query: dict[str, list[str]], __: Any
    ) -> tuple[int, Any]:
        jobs = [
            job
            for job in cluster.jobs.values()
            if _selects(query, job["spec"]["template"]["metadata"]["labels"])
        ]
        pods = [pod for job in jobs if (pod := _pod(cluster, job))]
        return 200, {"kind": "PodList", "apiVersion": "v1", "items": pods}

    def _pods_log_get(
        self, cluster: Cluster, parts: list[str], query: dict[str, list[str]], _: Any
    ) -> tuple[int, Any]:
        assert int(query["limitBytes"][0]) > 0
        job = cluster.jobs[parts[-2].removesuffix("-x7k2p")]
        return 200, cluster.nodes[_node_of(job)].log


@contextlib.contextmanager
def serve(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """Serve a cluster; yield the file for KUBECONFIG."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.cluster = cluster
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(config), encoding="utf-8")
    try:
        yield file
    finally:
        server.shutdown()
        server.server_close()

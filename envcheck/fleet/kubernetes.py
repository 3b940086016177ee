"""Run the collector on the nodes of a Kubernetes cluster: a Job for each, read from its pod's log.

A Job holds no privilege and no token. Everything that a run makes bears its label and is deleted at
its end; the cluster deletes the Jobs of a run that was killed.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from envcheck.actions.extras import needs_extra
from envcheck.fleet.collector import MARK, build_collector
from envcheck.fleet.results import (
    BROKEN,
    DENIED,
    HUNG,
    LIMIT,
    UNREACHABLE,
    EngineError,
    Failure,
    FleetListener,
    FleetRequest,
    HostResult,
    find_answer,
    get_saved_name,
)
from envcheck.host.data_files import read_packaged
from envcheck.host.documents import parse_object
from envcheck.model import Snapshot

_NAME = "envcheck"
_RUN, _PLACE = "envcheck/run", "envcheck/place"  # labels: the run, and the node's place in it
_PAUSE = 1.0  # seconds between lists of the pods
_START_SECONDS = 300  # for a pod to start: its image may have to be pulled
_CALL_SECONDS = 30  # for one answer of the API server
_GONE = 404
# https://kubernetes.io/docs/concepts/configuration/configmap/#motivation
_MAX_CONFIG_MAP = 1 << 20
# Why a container waits that will never start; ErrImagePull may pass.
_FINAL = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
)


def make_manifest(request: FleetRequest) -> dict[str, Any]:
    """Make what an administrator reads and applies: the rights of a run, and a Job that is held.

    The Job of a run is not suspended, names a node, and mounts the collector's ConfigMap.
    """
    return _fill_manifest(request, "run", "0", "NODE")


def _fill_manifest(request: FleetRequest, run: str, place: str, node: str) -> dict[str, Any]:
    """Fill in manifest.json; its Job waits for one node, and runs there despite any taint."""
    values = {
        "NAMESPACE": request.namespace,
        "IMAGE": request.image,
        "COMMAND": ["/bin/sh", "/envcheck/collector", *request.collector_arguments],
        "SECONDS": _START_SECONDS + request.host_seconds,
        "JOB": f"{_NAME}-{run}-{place}",
        "COLLECTOR": f"{_NAME}-{run}",
        "RUN": run,
        "PLACE": place,
        "NODE": node,
    }
    text = read_packaged("fleet", "manifest.json").decode("utf-8")
    filled = re.sub(r'"\$([A-Z]+)"', lambda name: json.dumps(values[name[1]]), text)
    manifest: dict[str, Any] = json.loads(filled)
    pod = manifest["items"][-1]["spec"]["template"]["spec"]
    if request.runtime_class:
        pod["runtimeClassName"] = request.runtime_class
    if request.gpus:
        pod["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": str(request.gpus)}
    elif request.runtime_class:  # without a GPU of its own it may look at all of the node
        pod["containers"][0]["env"] = [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        ]
    return manifest


def run_kubernetes(request: FleetRequest, listener: FleetListener) -> None:
    """Run the collector on every node; raises EngineError where the cluster refuses."""
    with needs_extra("kubernetes", "--engine kubernetes"):
        from kubernetes import client, config
        from kubernetes.client import rest
    if not request.gpus and not request.runtime_class:
        listener.on_warning(
            "The pods ask for no GPU (--gpus, --runtime-class):"
            " they see one only where NVIDIA's runtime is the default."
        )
    try:
        config.load_config()
        refusals = (client.ApiException, rest.urllib3.exceptions.HTTPError)
        run = _Run(request, client.CoreV1Api(), client.BatchV1Api(), refusals)
        run.query_nodes(listener)
    except config.ConfigException as error:
        raise EngineError(f"no cluster is configured (KUBECONFIG): {error}") from None
    except client.ApiException as error:
        raise EngineError(
            f"Kubernetes refuses: {_describe(error)} `--print-manifest` prints the rights that it"
            " takes."
        ) from None
    except rest.urllib3.exceptions.HTTPError as error:
        raise EngineError(f"the API server does not answer: {error}") from None


class _Run:
    """One run: what it made in the cluster, and which nodes have not answered."""

    def __init__(self, request: FleetRequest, core: Any, batch: Any, errors: Any) -> None:
        self._request, self._core, self._batch = request, core, batch
        self._refusal, self._errors = errors[0], errors
        self._run = secrets.token_hex(4)
        self._asked: dict[str, tuple[str, float]] = {}  # by place: the node, and when it was asked
        self._running: dict[str, float] = {}  # since when its pod has been seen to run
        self._here = {"namespace": request.namespace, "_request_timeout": _CALL_SECONDS}
        self._mine = f"{_RUN}={self._run}"

    def query_nodes(self, listener: FleetListener) -> None:
        """Query `request.forks` nodes at a time, and report each answer when it arrives."""
        nodes = {
            name: failure
            for name, failure in self._list_nodes()
            if get_saved_name(name) not in self._request.skip
        }
        listener.on_hosts(list(nodes))
        left = deque(enumerate(nodes))
        try:
            if any(failure is None for failure in nodes.values()):
                self._send_collector()
            while left or self._asked:
                while left and len(self._asked) < self._request.forks:
                    place, name = left.popleft()
                    if failure := nodes[name] or self._ask(str(place), name):
                        listener.on_result(HostResult(name, failure))
                for name, answer in self._list_answers() if self._asked else ():
                    listener.on_result(HostResult(name, answer))
                time.sleep(_PAUSE if self._asked else 0)
        finally:
            self._clean(listener)

    def _list_nodes(self) -> Iterator[tuple[str, Failure | None]]:
        selector = "" if self._request.pattern == "all" else self._request.pattern
        found = self._core.list_node(label_selector=selector, _request_timeout=_CALL_SECONDS).items
        if not found:
            raise EngineError(f"Kubernetes lists no node {selector}".strip())
        for node in found:
            ready = [item for item in node.status.conditions or () if item.type == "Ready"]
            words = ready[0].message if ready else "its kubelet has not reported"
            failure = Failure(UNREACHABLE, f"Kubernetes reports that it is not ready: {words}")
            is_ready = ready and ready[0].status == "True"
            yield node.metadata.name, None if is_ready else failure

    def _send_collector(self) -> None:
        content = build_collector(compiled=False)  # a pod's Python is seldom this one
        if len(content) > _MAX_CONFIG_MAP:
            raise EngineError("the collector is larger than a ConfigMap may be (1 MiB)")
        about = {"name": f"{_NAME}-{self._run}", "labels": {_RUN: self._run}}
        data = {"collector": base64.b64encode(content).decode()}
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": about,
            "binaryData": data,
        }
        self._core.create_namespaced_config_map(body=config_map, **self._here)

    def _ask(self, place: str, node: str) -> Failure | None:
        try:
            job = _fill_manifest(self._request, self._run, place, node)["items"][-1]
            del job["spec"]["suspend"]
            self._batch.create_namespaced_job(body=job, **self._here)
        except self._refusal as error:  # a quota, a policy
            return Failure(DENIED, f"Kubernetes refuses its Job: {_describe(error)}")
        self._asked[place] = node, time.monotonic()
        return None

    def _list_answers(self) -> Iterator[tuple[str, Snapshot | Failure]]:
        found = self._core.list_namespaced_pod(label_selector=self._mine, **self._here).items
        pods = {pod.metadata.labels[_PLACE]: pod for pod in found}
        for place, (node, asked_at) in list(self._asked.items()):
            pod = pods.get(place)
            waited = time.monotonic() - asked_at
            answer = self._read_pod(place, pod, waited) if pod else self._miss_pod(place, waited)
            if answer:
                del self._asked[place]
                yield node, answer

    def _miss_pod(self, place: str, waited: float) -> Failure | None:
        if place in self._running:
            return Failure(UNREACHABLE, "its pod was deleted before it answered")
        if waited > _START_SECONDS:
            return Failure(UNREACHABLE, f"its Job has made no pod within {_START_SECONDS} s")
        return None

    def _read_pod(self, place: str, pod: Any, waited: float) -> Snapshot | Failure | None:
        """Return the answer of a pod; None while it may still come."""
        status = pod.status
        if status.reason in {"Evicted", "Preempting", "NodeLost"}:
            return Failure(UNREACHABLE, f"its pod ended: {status.reason}: {status.message}")
        if status.phase in {"Succeeded", "Failed"}:
            return self._read_log(pod)
        if status.phase == "Running":
            since = self._running.setdefault(place, waited)
            if waited - since <= self._request.host_seconds:
                return None
            return Failure(HUNG, f"its pod gave no answer in {self._request.host_seconds} s")
        return self._judge_start(status, waited)

    def _judge_start(self, status: Any, waited: float) -> Failure | None:
        """Say why a pod does not start, once it is sure not to."""
        for item in status.container_statuses or ():
            if item.state.waiting and item.state.waiting.reason in _FINAL:
                words = f"{item.state.waiting.reason}: {item.state.waiting.message}"
                return Failure(BROKEN, f"its pod does not start: {words}")
        if waited > self._request.connect_seconds:
            for item in status.conditions or ():
                if item.type == "PodScheduled" and item.status == "False":
                    return Failure(UNREACHABLE, f"its pod gets no place: {item.message}")
        if waited > _START_SECONDS:
            return Failure(UNREACHABLE, f"its pod has not started within {_START_SECONDS} s")
        return None

    def _read_log(self, pod: Any) -> Snapshot | Failure:
        ended = [item.state.terminated for item in pod.status.container_statuses or ()]
        words = [pod.status.reason, pod.status.message]
        if ended and ended[0]:
            words += [f"{ended[0].reason}, exit code {ended[0].exit_code}", ended[0].message]
        try:
            response = self._core.read_namespaced_pod_log(
                pod.metadata.name, limit_bytes=LIMIT, _preload_content=False, **self._here
            )
        except self._refusal as error:
            return Failure(BROKEN, f"its log cannot be read: {_describe(error)}")
        text = response.data.decode("utf-8", "replace")
        said = text[-1000:] if MARK not in text else ""
        return find_answer(text, " ".join(filter(None, (said, *words))))

    def _clean(self, listener: FleetListener) -> None:
        """Delete what the run made, whatever of it is there."""
        jobs = {"label_selector": self._mine, "propagation_policy": "Background"}
        self._delete(listener, self._batch.delete_collection_namespaced_job, jobs)
        config_map = {"name": f"{_NAME}-{self._run}"}
        self._delete(listener, self._core.delete_namespaced_config_map, config_map)

    def _delete(self, listener: FleetListener, delete: Any, what: dict[str, str]) -> None:
        try:
            delete(**what, **self._here)
        except self._errors as error:  # what ended the run is raised, not this
            if getattr(error, "status", 0) != _GONE:
                left = f"kubectl -n {self._request.namespace} delete job,configmap"
                listener.on_warning(f"not all is deleted ({error}): {left} -l {self._mine}")


def _describe(error: Any) -> str:
    """Return what the API server says about a refusal."""
    return str(parse_object(error.body or "").get("message") or f"{error.status} {error.reason}")

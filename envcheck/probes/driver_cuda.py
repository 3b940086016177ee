"""Ask the libcuda that the loader finds for its CUDA version and whether CUDA starts, each in a child."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Mapping, NamedTuple

from envcheck.host.protocol import Host
from envcheck.host.threads import start_thread
from envcheck.model.facts import Fact, Known, Source, Unknown
from envcheck.probes.driver_trust import why_not_loaded
from envcheck.probes.nvml import cuda_version_text

_STUB = 34


class CudaReading(NamedTuple):
    """What libcuda told."""

    driver_version: Fact[str]
    init_result: Fact[int]


def read_cuda(host: Host, library: Fact[str]) -> CudaReading:
    """Ask cuDriverGetVersion and cuInit in two children, side by side; without a library none is started.

    The version needs neither a GPU nor the kernel module, so it must not depend on how cuInit ends.
    """
    if not isinstance(library, Known):
        return CudaReading(library, library)
    path = library.value
    reason = why_not_loaded(host, path)
    if reason:
        refused = Unknown("denied", reason, (path,))
        return CudaReading(refused, refused)
    answers = _side_by_side(
        version=lambda: host.ask("libcuda_version", path),
        init=lambda: host.ask("libcuda_version", path, "init"),
    )
    return CudaReading(parse_version_answer(answers["version"], path), parse_init_answer(answers["init"], path))


def _side_by_side(**calls: Callable[[], Fact[Mapping[str, Any]]]) -> Dict[str, Fact[Mapping[str, Any]]]:
    results: Dict[str, Fact[Mapping[str, Any]]] = {}
    errors: Dict[str, BaseException] = {}

    def call(name: str) -> None:
        try:
            results[name] = calls[name]()
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            errors[name] = error

    for thread in filter(None, [start_thread(partial(call, name)) for name in calls]):
        thread.join()
    for error in errors.values():
        raise error
    return results


def parse_version_answer(answer: Fact[Mapping[str, Any]], path: str) -> Fact[str]:
    """Turn the child's answer into a version: {"version": 12040} -> "12.4"; {"error": 34} is a stub library."""
    if not isinstance(answer, Known):
        return answer
    number = answer.value.get("version")
    version = cuda_version_text(number)
    if version is not None:
        return Known(version, Source("library", path, f"cuDriverGetVersion: {number}"))
    if answer.value.get("error") == _STUB:
        return Unknown("failed", f"{path} is a stub library, no driver: cuDriverGetVersion returned 34", (path,))
    if "error" in answer.value:
        return Unknown("failed", f"{path}: cuDriverGetVersion returned {answer.value['error']}", (path,))
    return _unreadable(answer.value, path)


def parse_init_answer(answer: Fact[Mapping[str, Any]], path: str) -> Fact[int]:
    """Turn the child's answer into cuInit's result: {"init": 100} -> 100 (no device)."""
    if not isinstance(answer, Known):
        return answer
    code = answer.value.get("init")
    if isinstance(code, int):
        return Known(code, Source("library", path, f"cuInit(0): {code}"))
    return _unreadable(answer.value, path)


def _unreadable(answer: Mapping[str, Any], path: str) -> Unknown:
    if "load_error" in answer:
        return Unknown("failed", f"{path} cannot be loaded: {answer['load_error']}", (path,))
    return Unknown("unparsable", f"{path}: the answer was {str(dict(answer))[:80]}", (path,))

"""Copies between GPUs, directly where they reach each other: the bytes that arrive must be those that left."""

import array
import ctypes
import time
from typing import TYPE_CHECKING, List

if TYPE_CHECKING:
    from envcheck.smoke.children.driver_api import checked
    from envcheck.smoke.children.driver_gpu import Gpu
    from envcheck.smoke.children.start import Report
else:
    from driver_api import checked

WORDS = 4 << 20  # of four bytes: 16 MiB
PATIENCE = 60.0  # seconds for all pairs: sixteen GPUs are 240 of them


def copy_between(report: "Report", gpus: "List[Gpu]") -> None:
    """Copy from each GPU to each other one."""
    begun = time.time()
    pairs = [(source, target) for source in gpus for target in gpus if source is not target]
    for source, target in pairs:
        with checked(report, "peer-copy", "%s to %s" % (source.label, target.label)) as step:
            if time.time() - begun > PATIENCE:
                step.skipped("the pairs before took %d s" % PATIENCE)
                continue
            direct = open_way(source, target)
            right = arrives(source, target)
            if direct:
                source.cuda.call("cuCtxDisablePeerAccess", target.context)  # a GPU may have eight such ways at a time
            if right:
                step.passed("16 MiB arrived %s" % ("directly" if direct else "through the host's memory"))
            else:
                how = "a direct copy" if direct else "a copy through the host's memory"
                step.failed("%s arrived with other bytes" % how, "multi-gpu-p2p-nccl")


def open_way(source: "Gpu", target: "Gpu") -> bool:
    """Let the source reach the target's memory directly where the hardware can; say whether it does."""
    source.select()
    if not source.cuda.number("cuDeviceCanAccessPeer", source.device, target.device):
        return False
    source.cuda.call("cuCtxEnablePeerAccess", target.context, 0)
    return True


def arrives(source: "Gpu", target: "Gpu") -> bool:
    """Copy random words from one GPU to another and compare them."""
    sent = array.array("I", [(7919 * word) & 0xFFFFFFFF for word in range(8191)]) * (WORDS // 8191 + 1)
    size = ctypes.c_size_t(4 * len(sent))
    source.select()
    with source.filled(sent) as origin:
        target.select()
        with target.filled(array.array("I", [0]) * len(sent)) as goal:
            target.cuda.call("cuMemcpyPeer", goal, target.context, origin, source.context, size)
            target.wait()
            arrived = bool(target.fetch(goal, array.array("I", [0]) * len(sent)) == sent)
        source.select()
        return arrived

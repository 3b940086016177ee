"""Is a kernel driver there, is it the right one, and may this user reach its devices?"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import ERROR, INCOMPATIBLE, Absent, Evidence, Finding, Known, Problem, numbers
from envcheck.model.releases import Architecture
from envcheck.rules.context import Context
from envcheck.rules.driver_container import is_plain_linux
from envcheck.rules.gpu_facts import cuda_starts, gpu_name, judged_gpus
from envcheck.rules.registry import rule

_FOREIGN = ("nouveau", "vfio-pci")


@rule("driver-nouveau", needs=("gpus",))
def driver_nouveau(context: Context) -> Iterator[Finding]:
    """Report GPUs that nouveau or vfio-pci owns while the NVIDIA driver does not run."""
    if not is_plain_linux(context) or not _driver_absent(context):
        return
    for gpu in context.gpus:
        owner = gpu.kernel_driver
        if isinstance(owner, Known) and owner.value in _FOREIGN:
            what = (
                "the open-source display driver nouveau, which has no CUDA"
                if owner.value == "nouveau"
                else "vfio-pci, which keeps it for a virtual machine"
            )
            yield Finding(
                "driver-nouveau",
                INCOMPATIBLE,
                ERROR,
                f"{gpu_name(gpu)} is owned by {what}.",
                (context.seen("gpus.kernel_driver", owner),),
                problem=Problem((owner.value,)),
            )
            return
    loaded = context.facts.driver.nouveau_loaded
    if (
        context.gpus
        and isinstance(loaded, Known)
        and loaded.value
        and all(not isinstance(gpu.kernel_driver, Known) for gpu in context.gpus)
    ):
        yield Finding(
            "driver-nouveau",
            INCOMPATIBLE,
            ERROR,
            "The open-source display driver nouveau is loaded, which has no CUDA, and NVIDIA's driver is not.",
            (context.seen("driver.nouveau_loaded"),),
            problem=Problem(("nouveau",)),
        )


def _driver_absent(context: Context) -> bool:
    driver = context.facts.driver
    return (
        not cuda_starts(context)
        and isinstance(driver.kernel_module_version, Absent)
        and not isinstance(driver.release, Known)
    )


def _is_foreign(context: Context) -> bool:
    loaded = context.facts.driver.nouveau_loaded
    owners = [gpu.kernel_driver.value for gpu in context.gpus if isinstance(gpu.kernel_driver, Known)]
    return any(owner in _FOREIGN for owner in owners) or (not owners and isinstance(loaded, Known) and loaded.value)


@rule("driver-secure-boot", needs=("gpus",))
def driver_secure_boot(context: Context) -> Iterator[Finding]:
    """Report a module that is built, not signed, and kept out by Secure Boot."""
    if _is_unsigned(context):
        yield Finding(
            "driver-secure-boot",
            INCOMPATIBLE,
            ERROR,
            "The driver's kernel module is built but not signed, and Secure Boot is on: the kernel refuses to load it.",
            (
                context.seen("host.secure_boot"),
                context.seen("driver.module_file"),
                context.seen("driver.module_file_signed"),
            ),
            problem=Problem(),
        )


def _is_unsigned(context: Context) -> bool:
    driver, secure = context.facts.driver, context.facts.host.secure_boot
    signed = driver.module_file_signed
    return (
        bool(context.gpus)
        and is_plain_linux(context)
        and _driver_absent(context)
        and isinstance(secure, Known)
        and secure.value
        and isinstance(driver.module_file, Known)
        and isinstance(signed, Known)
        and not signed.value
    )


@rule("driver-missing", needs=("gpus",))
def driver_missing(context: Context) -> Iterator[Finding]:
    """Report GPUs without a working NVIDIA kernel driver, and name what is left of one."""
    if not context.gpus or cuda_starts(context) or isinstance(context.facts.driver.release, Known):
        return
    if context.os == "windows":
        context.need(context.facts.driver.release, "driver.release")
        yield _missing(context, "No NVIDIA driver runs on this machine.", Problem(), "driver.release")
        return
    if not is_plain_linux(context) or _is_foreign(context) or _is_unsigned(context):
        return
    context.need(context.facts.driver.kernel_module_version, "driver.kernel_module_version")
    yield _by_remains(context)


def _by_remains(context: Context) -> Finding:
    driver = context.facts.driver
    kernel = context.facts.host.kernel_release
    running = kernel.value if isinstance(kernel, Known) else ""
    modules = driver.dkms.value if isinstance(driver.dkms, Known) else ()
    failed = [item for item in modules if item.state in ("failed", "broken") and item.kernel_release in (running, "")]
    if isinstance(driver.module_file, Known):
        return _missing(
            context,
            "The NVIDIA driver is installed for this kernel, but its module is not loaded.",
            Problem(("not-loaded",)),
            "driver.module_file",
        )
    if failed:
        what = (
            f"Building the NVIDIA driver {failed[0].version} for the running kernel {running} failed (make.log "
            "under /var/lib/dkms tells why)."
        )
        return _missing(context, what, Problem(("not-built",)), "driver.dkms")
    if modules:
        built = ", ".join(item.kernel_release or "no kernel" for item in modules)
        what = f"The NVIDIA driver {modules[0].version} is built for {built}, not for the running kernel {running}."
        return _missing(context, what, Problem(("not-built",)), "driver.dkms")
    name = gpu_name(context.gpus[0])
    message = f"{name} is there, but no NVIDIA driver is loaded."
    return _missing(context, message, Problem(), "driver.kernel_module_version")


def _missing(context: Context, message: str, problem: Problem, seen: str) -> Finding:
    evidence = (context.seen(seen), context.seen("gpus", shown=", ".join(gpu_name(gpu) for gpu in context.gpus)))
    return Finding("driver-missing", INCOMPATIBLE, ERROR, message, evidence, problem=problem)


def _is_driven(context: Context, row: Architecture) -> bool:
    """Say whether the running branch drives an architecture at all; where it does not, that is the cause."""
    release = context.facts.driver.release
    branch = numbers(release.value)[0] if isinstance(release, Known) else 0
    first, last = row.first_driver_branch, row.last_driver_branch
    return not (first and branch < int(first)) and not (last and branch > int(last))


@rule("driver-missing")
def driver_kind(context: Context) -> Iterator[Finding]:
    """Report a loaded module of the kind (open or proprietary) that cannot drive this GPU."""
    kind = context.facts.driver.kernel_module_kind
    if not isinstance(kind, Known) or not context.gpus or cuda_starts(context) or not is_plain_linux(context):
        return
    for item in judged_gpus(context):
        row = item.architecture
        if row is None or row.tegra or row.kernel_module in ("either", kind.value) or not _is_driven(context, row):
            continue
        message = (
            f"The loaded NVIDIA kernel module is the {kind.value} one; {gpu_name(item.gpu)} ({row.name}) works with "
            f"the {row.kernel_module} one only."
        )
        evidence = (
            context.seen("driver.kernel_module_kind"),
            Evidence(
                f"architectures {item.capability}", f"{row.kernel_module} kernel module", citation=row.citations[0]
            ),
        )
        problem = Problem(("other-module",), values=(("module_kind", row.kernel_module),))
        yield Finding("driver-missing", INCOMPATIBLE, ERROR, message, evidence, problem=problem)

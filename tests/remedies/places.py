"""The machines and logs for which every fix is written; all of them are composed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.model import (
    CompilerFacts,
    Distribution,
    Facts,
    FrameworkBuild,
    Gpu,
    PythonFacts,
    ToolkitFacts,
)
from envcheck.remedies.situation import Situation
from envcheck.rules import Context
from envcheck.rules.described_machine import Description, planned_facts
from tests.rules.factory_machine import (
    HOST,
    NO_DRIVER,
    NONE,
    UNREAD,
    driver,
    fact,
    gpu,
    known,
    matrix,
)
from tests.rules.factory_toolkit import SITE, cudnn, tensorflow, toolkit, torch

_REQUIRED = {
    "torchvision": ("torch==2.5.1",),
    "scipy": ("numpy>=1.23.5,<2.3",),
    "pandas": ("numpy>=2",),
}
_LIBRARY_PATH = "/opt/old/lib:/usr/local/cuda-12.6/lib64"


def _machine(
    *builds: FrameworkBuild,
    python: Mapping[str, Any],
    host: Mapping[str, Any],
    gpus: tuple[Gpu, ...] = (),
    release: str = "550.163.01",
    installer: str = "pip",
    installed: str = "",
    **facts: Any,
) -> Situation:
    """Compose a machine; `installed` holds further distributions, each as name==version."""
    pairs = [pin.split("==") for pin in installed.split()]
    owned = [(each.distribution, each.version) for each in builds]
    distributions = (
        Distribution(name, version, SITE, installer=installer, requires=_REQUIRED.get(name, ()))
        for name, version in (*owned, *pairs)
    )
    named = {"kind": "venv", "prefix": "/env", "version": "3.11.7", "pip_version": "24.0", **python}
    stated: dict[str, Any] = {name: fact(value) for name, value in named.items()}
    parts: dict[str, Any] = {
        "host": replace(HOST, **{name: fact(value) for name, value in host.items()}),
        "driver": driver(release, "12.4") if release else driver(**NO_DRIVER),
        "gpus": known(gpus) if gpus else NONE,
        "python": PythonFacts(
            distributions=known(tuple(distributions)),
            frameworks=known(builds) if builds else NONE,
            **stated,
        ),
        **facts,
    }
    return Situation(Context(Facts(**parts), matrix()))


def _linux(name: str, version: str, like: str = "", **more: Any) -> dict[str, Any]:
    return {
        "distribution_id": name,
        "distribution_version": version,
        "distribution_like": like,
        **more,
    }


def _log(
    floor: str = "", toolkits: ToolkitFacts | None = None, installer: str = "", **described: Any
) -> Situation:
    facts = planned_facts(None, Description(**described), matrix(), expects_gpu=False)
    if toolkits:
        facts = replace(facts, toolkits=toolkits)
    options = ("--python", "3.11", "--driver", "525.60.13", "--gpu", "8.6") if floor else ()
    return Situation(
        Context(facts, matrix()), options, from_log=True, floor=floor, installer=installer
    )


def places() -> dict[str, Situation]:
    """Map a name to the machine, or the log of one, that a fix is written for."""
    a100, rtx5090 = gpu(), gpu("NVIDIA GeForce RTX 5090", "12.0")
    v100, k80 = gpu("Tesla V100-SXM2-16GB", "7.0"), gpu("Tesla K80", "3.7")
    compilers = CompilerFacts(
        gcc_path=known("/usr/bin/gcc"), gcc_version=known("13.2.0"), others=known({"/usr/bin/gcc-12": "12.3.0", "/opt/g cc/bin/gcc": "11.4.0"})
    )  # fmt: skip
    toolkits = ToolkitFacts(
        installs=known(
            (toolkit("12.4"), toolkit("12.6", nvcc_path="/usr/local/cuda-12.6/bin/nvcc"))
        )
    )
    variables = {
        "LD_LIBRARY_PATH": _LIBRARY_PATH,
        "PYTHONPATH": "/home/me/src",
        "CUDA_VISIBLE_DEVICES": "3",
    }
    uv_made = {"pip_version": NONE, "prefix": "/home/me/project/.venv", "version": "3.12.3"}
    return {
        "ubuntu venv": _machine(
            torch("2.7.1+cu126"), python={}, host=_linux("ubuntu", "22.04", "debian", environment=variables, libc_version="2.35", memory_bytes=32 * 10**9), gpus=(a100, gpu(index=1)),
            compilers=compilers, toolkits=toolkits, cudnn=known((cudnn("9.1.0"),)), installed="torchvision==0.20.0 numpy==1.26.4 scipy==1.11.4 flash-attn==2.8.2 xformers==0.0.29.post3",
        ),
        "ubuntu uv": _machine(
            torch("2.15.0"), python=uv_made, compilers=CompilerFacts(gcc_version=NONE, gcc_path=NONE), host=_linux("ubuntu", "24.04", "debian", libc_version="2.39", memory_bytes=16 * 10**9, pip_configuration={"index-url": "https://mirror.example/simple"}), gpus=(rtx5090,),
            installer="uv", installed="xformers==0.0.29 numpy==2.2.0 pandas==2.2.3",
        ),
        "ubuntu build": _machine(
            torch("2.15.0"), python={}, gpus=(gpu("NVIDIA L4", "8.9"), gpu("NVIDIA H100 80GB HBM3", "9.0", 1)),
            host=_linux("ubuntu", "24.04", "debian", memory_bytes=64 * 10**9, pip_configuration={"index-url": "https://mirror.example/simple"}),
            compilers=CompilerFacts(gcc_path=known("/usr/bin/gcc"), gcc_version=known("16.1.0"), others=known({"/usr/bin/gcc-13": "13.2.0"})),
            toolkits=ToolkitFacts(installs=known((toolkit("13.2", nvcc_path="/usr/local/cuda-13.2/bin/nvcc"),))), release="595.44",
            installed="torch-scatter==2.1.1 torchvision==0.20.0 torchaudio==2.5.1",
        ),
        "debian root": _machine(
            python={"kind": "system", "prefix": "/usr", "externally_managed": True}, host=_linux("debian", "12", is_root=True), release="",
        ),
        "rocky conda": _machine(
            tensorflow("2.15.0"), python={"kind": "conda", "prefix": "/opt/conda/envs/ml", "version": "3.10.4"},
            host=_linux("rocky", "9.4", "rhel centos fedora", secure_boot=True, kernel_release="5.14.0-427.el9.x86_64"), gpus=(v100,), release="525.60.13",
            installer="conda", installed="keras==3.0.0 numpy==1.26.4",
        ),
        "fedora": _machine(
            FrameworkBuild("jax", "jax", "0.4.35"), python={"version": "3.13.1"}, host=_linux("fedora", "41", kernel_release="6.11.4-301.fc41.x86_64"),
            gpus=(k80,), release="", installed="jaxlib==0.4.35",
        ),
        "suse": _machine(torch("2.5.1+cpu"), python={}, host=_linux("opensuse-leap", "15.6", "suse"), gpus=(a100,), release="580.65.06"),
        "arch": _machine(python={}, host=_linux("arch", ""), release=""),
        "windows": _machine(
            torch("2.7.1+cpu"), python={"prefix": "C:\\env"}, host={"os": "windows", "distribution_id": NONE, "environment": {"PYTHONPATH": "C:\\src;C:\\more"}},
            gpus=(rtx5090,), release="581.29",
        ),
        "macos": _machine(tensorflow("2.16.1"), python={}, host={"os": "darwin", "distribution_id": NONE, "architecture": "arm64"}, release=""),
        "wsl": _machine(torch("2.7.1+cu126"), python={}, host=_linux("ubuntu", "22.04", "debian", wsl_version=2), gpus=(a100,)),
        "docker": _machine(torch("2.7.1+cu126"), python={"kind": "system"}, host=_linux("ubuntu", "22.04", "debian", container="docker", is_root=True), release=""),
        "pod": _machine(
            torch("2.7.1+cu126"), python={}, release="",
            host=_linux("ubuntu", "22.04", "debian", container="kubernetes", environment={"NVIDIA_VISIBLE_DEVICES": "GPU-1"}),
        ),
        "jetson": _machine(torch("2.7.1"), python={}, host=_linux("ubuntu", "22.04", "debian", architecture="aarch64", jetson_release="R36.3.0")),
        "log": _log(platform="linux_x86_64"),
        "log stated": _log("570.86", platform="linux_x86_64", python="3.11", driver="525.60.13", gpus=("8.6",), distribution="rocky 9"),
        "log toolkit": _log(
            platform="linux_x86_64", python="3.11", toolkits=ToolkitFacts(installs=known((toolkit("12.4"),)))
        ),
        "log poetry": _log(platform="linux_x86_64", installer="poetry"),
        "log windows": _log(platform="win_amd64"),
        "log unread": Situation(Context(Facts(host=replace(HOST, os=UNREAD, distribution_id=UNREAD)), matrix()), from_log=True),
    }  # fmt: skip

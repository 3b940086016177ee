"""Fixes of the environment: which Python, which distribution, which C library, which release of a companion."""

from __future__ import annotations

import re

from envcheck.explain.fix_context import context_of, plan_command, python_says, release_row
from envcheck.explain.told import Told, plain
from envcheck.model import Command, Fix, Way
from envcheck.rules.fixes_python import install_steps, is_requirement, new_environment, pip_install, uninstall_steps

_CLAUSES = r"[<>=!~\d.,* ]{3,40}"
_MINORS = range(5, 16)  # of Python 3, that a package may ask for
_USUAL = "3.12"  # what most systems bring
_KERAS_2 = {"keras-3-words", "keras-2-or-3", "keras-config"}  # code or a file of Keras 2 meets Keras 3
_LDD = Command(("ldd", "--version"), "environment", "the glibc that is here")


def missing_framework(told: Told) -> Fix | None:
    """Name the Python that runs, and what to install into it."""
    named = told.captured("module").partition(".")[0]
    framework = named if told.log.matrix.framework_of(named) else told.framework
    planned = plan_command(told, framework)
    what = f"Install {framework} into the Python that runs the program: python -m pip always belongs to it."
    runs = python_says(told, "import sys; print(sys.executable)", "the Python that runs")
    return Fix(what, (runs, *planned)) if planned else None


def replacement(told: Told) -> Fix | None:
    """Name what took the place of a withdrawn distribution, of the same release where there is one."""
    from envcheck.explain.reasons_python import requirement_parts

    name, specifier = requirement_parts(told.captured("requirement") or "tensorflow-gpu") or ("", "")
    version = re.sub(r"^={2,3}|\+.*", "", specifier) if specifier.startswith("==") else ""
    if name.startswith("jax"):
        wanted = _jax(told, specifier, version)
        return Fix(
            f"Install {wanted}: JAX brings CUDA through its extras now.", install_steps(context_of(told), wanted)
        )
    row = told.log.matrix.removed_distribution(name)
    if row is None:
        return None
    line = re.match(r"\d+\.\d+", version)
    same = told.log.matrix.release(row.framework, f"{line.group()}.0", "linux_x86_64", row.framework) if line else None
    extra = f"[{same.gpu_extra}]" if same and same.gpu_extra else ""
    wanted = f"{row.framework}{extra}=={same.version}" if same else row.replacement
    other = Way("Take what the planner chooses for that machine.", plan_command(told, row.framework))
    return Fix(f"Install {wanted} in its place.", install_steps(context_of(told), wanted), (other,))


def _jax(told: Told, specifier: str, version: str) -> str:
    extra = plain(specifier.partition("+")[2].partition(".")[0], r"cuda\d\d") or "cuda12"
    row = told.log.matrix.release("jax", version, "linux_x86_64", "jax") if version else None
    return f"jax[{extra}]=={version}" if row and extra in row.extras else f"jax[{extra}]"


def other_python(told: Told) -> Fix | None:
    """Name the Pythons that a release has wheels for, and make an environment with the newest of them."""
    from envcheck.explain.reasons_python import requirement_parts

    text = told.value("requirement")
    asked = _asked_for(told)
    minors = _of_wheel(told) or _with_wheels(told, text) or asked
    if not minors:
        return None
    context = context_of(told)
    chosen = _USUAL if _USUAL in minors else minors[-1]
    folder = f".venv-{chosen}"
    inside = f"{folder}\\Scripts\\python.exe" if context.os == "windows" else f"{folder}/bin/python"
    new = new_environment(context, chosen)
    named = requirement_parts(text)
    ours = named is not None and told.log.matrix.framework_of(named[0])
    known = text if ours and is_requirement(text.replace("===", "==")) else ""
    install = (Command((inside, "-m", "pip", "install", known)),) if known and folder in new[0].argv else ()
    shown = minors[0] if len(minors) == 1 else f"{minors[0]} to {minors[-1]}"
    if minors is asked and minors[-1] == f"3.{_MINORS[-1]}":
        shown = f"{minors[0]} or newer"
    fits = (
        f"The package asks for Python {shown}"
        if minors is asked
        else f"{known or 'The release'} has wheels for Python {shown}"
    )
    return Fix(
        f"{fits}, of 64 bits: make an environment with one.",
        (*(() if told.log.python else (_bits(told),)), *new, *install),
    )


def _bits(told: Told) -> Command:
    asked = "import struct, sys; print(sys.version, 8 * struct.calcsize('P'))"
    return python_says(told, asked, "which Python this is; the last number must be 64")


def _of_wheel(told: Told) -> tuple[str, ...]:
    """Read the Python of a wheel's name: -cp36- is 3.6."""
    names = " ".join(event.captured.get("wheel", "") for event in told.claim.events)
    found = re.search(r"-cp(\d)(\d{1,2})-", names)
    return (f"{found.group(1)}.{found.group(2)}",) if found else ()


def _with_wheels(told: Told, text: str) -> tuple[str, ...]:
    """List the Pythons of the newest release that a requirement admits, oldest first."""
    from envcheck.explain.reasons_python import admitted_rows, requirement_parts

    name, specifier = requirement_parts(text) or ("", "")
    framework = told.log.matrix.framework_of(name)
    rows = admitted_rows(told.log, framework, name, specifier) if framework else []
    published = [row for row in rows if row.pythons]
    here = [row for row in published if row.platform == context_of(told).platform]
    return tuple((here or published)[0].pythons) if published else ()


def _asked_for(told: Told) -> tuple[str, ...]:
    """List the minors that satisfy what a package says of Python: >=3.9,<3.13."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    captures = (pair for event in told.claim.events for pair in event.captures)
    wanted = next((value for name, value in captures if re.fullmatch(r"wanted\d?", name)), "")
    try:
        admits = SpecifierSet(plain(wanted.strip(" '\","), _CLAUSES) or "<0")
    except InvalidSpecifier:
        return ()
    return tuple(f"3.{minor}" for minor in _MINORS if admits.contains(f"3.{minor}.9"))


def other_glibc(told: Told) -> Fix | None:
    """Name the systems that have the C library, and plan for the one that is there."""
    from envcheck.explain.remedies import document

    wanted = told.captured("glibc_wanted")
    number = _two(wanted)
    known = document()["systems_of_glibc"].items()
    having = next((names for line, names in known if number and _two(line) >= number), "")
    if not having:
        return None
    what = (
        f"Use a system or image with glibc {wanted} or newer (the oldest: {having}), or a release made for an older one"
    )
    first = () if told.log.first("glibc") else (_LDD,)
    return Fix(f"{what}; never replace the system's own.", (*first, *plan_command(told)))


def _two(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if re.fullmatch(r"\d+\.\d+", version) else ()


def named_protobuf(told: Told) -> Fix | None:
    """Install the protobuf that the release of the log names."""
    return _named_by_release(told, "protobuf")


def named_numpy(told: Told) -> Fix | None:
    """Install the NumPy that the release of the log names."""
    return _named_by_release(told, "numpy")


def named_tensorrt(told: Told) -> Fix | None:
    """Install the TensorRT that the release of the log was built with."""
    row = release_row(told)
    if row is None or not row.tensorrt or row.tensorrt == "none":
        return None
    wanted = f"tensorrt=={row.tensorrt}.*" if row.tensorrt.count(".") < 3 else f"tensorrt=={row.tensorrt}"
    what = f"Install TensorRT {row.tensorrt}, which {row.distribution} {row.version} was built with."
    old = int(row.tensorrt.partition(".")[0]) < 8
    return Fix(
        f"{what} NVIDIA's archive: https://developer.nvidia.com/tensorrt." if old else what,
        () if old else install_steps(context_of(told), wanted),
    )


def _named_by_release(told: Told, name: str) -> Fix | None:
    row = release_row(told)
    specifier = row.requires.get(name, "").replace(" ", "").replace("dev", ".dev0") if row else ""
    wanted = f"{name}{specifier}"
    if row is None or "<" not in specifier or not is_requirement(wanted):  # without an upper bound it rules nothing out
        return None
    return Fix(
        f"Install the {name} that {row.distribution} {row.version} names.", install_steps(context_of(told), wanted)
    )


def legacy_keras(told: Told) -> Fix | None:
    """Name the tf-keras of the TensorFlow that is there, which brings Keras 2 back."""
    row = release_row(told)
    if row is None or told.framework != "tensorflow" or not _KERAS_2 & set(told.signatures):
        return None
    rows = told.log.matrix.companions_of(row.version, context_of(told).platform)
    found = next((item for item in rows if item.distribution == "tf-keras"), None)
    if found is None:
        return None
    wanted = f"tf-keras=={found.version}"
    switch = Command(("export", "TF_USE_LEGACY_KERAS=1"), "user", "in the shell that starts the program")
    what = f"Code for Keras 2 needs {wanted} beside TensorFlow {row.version}."
    return Fix(what, (*install_steps(context_of(told), wanted), switch))


def one_cuda_major(told: Told) -> Fix | None:
    """Keep the wheels of one CUDA major where the log lists one of them for two."""
    majors: dict[str, dict[str, str]] = {}
    for name, version in told.log.packages.items():
        found = re.fullmatch(r"(nvidia-[a-z-]+)-cu(\d\d)", name)
        if found and plain(version, r"[\d.]+"):
            majors.setdefault(found.group(1), {})[found.group(2)] = version
    twice = {name: found for name, found in majors.items() if len(found) > 1}
    if not twice:
        return None
    label = told.value("torch_label")[2:4]
    kept = label if all(label in found for found in twice.values()) else max(max(found) for found in twice.values())
    gone = [f"{name}-cu{major}" for name, found in twice.items() for major in found if major != kept]
    anew = [f"{name}-cu{kept}=={found[kept]}" for name, found in twice.items() if kept in found]
    context = context_of(told)
    what = (
        f"Keep the wheels of CUDA {kept}, and install them again: those of the other major wrote into the same folders."
    )
    return Fix(what, (*uninstall_steps(context, *gone), pip_install(context, *anew, force=True)))

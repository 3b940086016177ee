"""Values for a fix that are worked out of what a log captured."""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.explain.log import digits
from envcheck.explain.told import PATH, SHAPES, Told, plain
from envcheck.frameworks import framework


def _pids(told: Told) -> str:
    rows = (event.captured for event in told.claim.events if "pid" in event.captured)
    found = [plain(row["pid"], SHAPES["pid"]) for row in rows if row.get("kind", "C") == "C"]
    found += _largest(told)
    return " ".join([pid for pid in dict.fromkeys(found) if pid and int(pid) > 1][:16])


def _largest(told: Told) -> list[str]:
    """Find the process that PyTorch says holds most: in a container the program itself may be in its list, too."""
    said = " ".join(event.text for event in told.claim.events)
    rows = re.findall(r"\bProcess (\d{2,8}) has (\d+(?:\.\d+)?) GiB", said)
    return [max(rows, key=lambda row: float(row[1]))[0]] if rows else []


def _users_file(told: Told) -> str:
    """Name the user's own file that stands in the way; "" for one of an installed package."""
    from envcheck.explain.reasons_python import is_users_file

    paths = (event.captured.get("path", "") for event in told.claim.events)
    found = (plain(path, PATH) for path in paths if path and is_users_file(path))
    return next((path for path in found if path.endswith(".py") and not path.endswith("__init__.py")), "")


def _requirement(told: Told) -> str:
    """Return what was asked of pip, or the release that uv names."""
    said = " ".join(event.text for event in told.claim.events)
    named = re.search(r"\b([a-z][\w-]*)==([\d.]*\d) has no wheels|`([a-z][\w-]*)` \(v([\d.]*\d)\) only has", said)
    of_uv = f"{named[1] or named[3]}=={named[2] or named[4]}" if named else ""
    return told.captured("requirement") or of_uv


def _of_module(name: str) -> str:
    """Return the distribution that is known to bring a module: a name out of a log alone is not installed."""
    from envcheck.explain.remedies import document

    return str(document()["distributions"].get(name, ""))


def _cudnn_wanted(told: Told) -> str:
    from envcheck.explain.reasons_cuda import cudnn_number

    built = told.captured("cudnn_built")
    return ".".join(map(str, cudnn_number(built)[:3])) if built else ""


def _gencode(told: Told) -> str:
    """Read the release of protobuf's generated code: "gencode 5.28.3 runtime 4.25.4"."""
    found = (re.search(r"\bgencode (\d+\.\d+\.\d+) runtime", event.text) for event in told.claim.events)
    return next((match.group(1) for match in found if match), "")


def _tensorrt_major(told: Told) -> str:
    """Read the major of the library that is asked for; TensorRT 8 is the first with wheels that pip finds."""
    found = re.match(r"libnv(?:infer|onnxparser)\w*\.so\.(\d+)", told.captured("library"))
    return found.group(1) if found and int(found.group(1)) >= 8 else ""


def _renamed(told: Told) -> str:
    folder, _, name = _users_file(told).replace("\\", "/").rpartition("/")
    return f"{folder}{'/' if folder else ''}my_{name}" if name else ""


def _gcc_of_node(told: Told) -> str:
    from envcheck.explain.remedies import document

    return str(document()["gcc_of_symbols"].get(told.captured("node"), ""))


def _torch_label(told: Told) -> str:
    version = told.release if told.framework == "torch" else ""
    label = plain(version.partition("+")[2], r"cu\d{2,3}|cpu")
    cuda = told.captured("torch_cuda")
    return label or ("cu" + cuda.replace(".", "") if re.fullmatch(r"\d+\.\d", cuda) else "")


def _cc(told: Told) -> str:
    rows = (event.captured for event in told.claim.events)
    named = [digits(value) for row in rows for value in (row.get("cc"), row.get("sm")) if value]
    known = (item for item in named or told.log.capabilities if told.log.matrix.architecture(item))
    return next(known, "")


def _extension_package(told: Told) -> str:
    """Name the package whose compiled part complains, by its folder below site-packages."""
    for event in told.claim.events:
        found = re.search(r"(?:site|dist)-packages[/\\]([A-Za-z][A-Za-z0-9_]+)[/\\]", event.text)
        if found and told.log.matrix.framework_of(found.group(1)) is None:
            return found.group(1)
    return ""


def _nvcc_wheel(told: Told) -> str:
    from envcheck.explain.fix_context import release_row

    row = release_row(told)
    return next((item for item in (row.cuda_wheels if row else ()) if item.startswith("nvidia-cuda-nvcc")), "")


def _plain_requirement(told: Told) -> str:
    from envcheck.explain.remedies import document
    from envcheck.rules.fixes_python import is_requirement

    found = _requirement(told).lower().rstrip(",")
    known = re.split(r"[<>=!~\[]", found)[0] in document()["distributions"].values()
    return found if known and is_requirement(found) else ""


DERIVED: dict[str, Callable[[Told], str]] = {
    "cc": _cc,
    "cc_digits": lambda told: _cc(told).replace(".", ""),
    "branch": lambda told: plain(told.log.first("branch")[:3], r"\d{3}"),
    "cudnn_wanted": _cudnn_wanted,
    "requirement": _requirement,
    "tensorrt_major": _tensorrt_major,
    "extension_known": lambda told: _of_module(_extension_package(told)),
    "missing_distribution": lambda told: _of_module(told.captured("missing_module")),
    "missing_top": lambda told: told.captured("missing_module").partition(".")[0],
    "extension_package": _extension_package,
    "framework": lambda told: told.framework,
    "framework_module": lambda told: told.framework,
    "framework_extra": lambda told: framework(told.framework).gpu_requirement if told.framework else "",
    "gcc_of_node": _gcc_of_node,
    "library_path_full": lambda told: plain(told.captured("library"), r"/[\w./+-]+"),
    "line": lambda told: " ".join(event.text for event in told.claim.events),
    "message": lambda told: told.claim.message,
    "gencode": _gencode,
    "nvcc_wheel": _nvcc_wheel,
    "pids": _pids,
    "pids_comma": lambda told: _pids(told).replace(" ", ","),
    "release_line": lambda told: ".".join(told.release.split(".")[:2]) if told.release.count(".") else "",
    "requirement_plain": _plain_requirement,
    "torch_label": _torch_label,
    "users_file": _users_file,
    "users_file_renamed": _renamed,
    "torch_public": lambda told: told.release.partition("+")[0] if told.framework == "torch" else "",
}

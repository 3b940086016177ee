"""The packages on top of a framework: read from their wheels by a row of data alone, paired by release and CUDA."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
from packaging import tags

from envcheck.host.data_files import load_data
from envcheck.matrix import Matrix, companions, load_matrix
from envcheck.matrix.companions import (
    Companion,
    Companions,
    companion_row,
    load_companions,
    shares_cuda,
)
from envcheck.matrix.refresh import deep
from envcheck.matrix.refresh.index import Wheel, group_wheels, parse_wheel
from envcheck.matrix.refresh.refresh import Curated, build_row, list_framework, refresh
from envcheck.matrix.refresh.rows import draft_release, sentences
from envcheck.matrix.refresh.verify import verify
from envcheck.matrix.refresh.wheel_contents import Contents, _list_cubins
from envcheck.model import replace
from tests.matrix.documents import changed_copy, document
from tests.matrix.index.renewal import reader
from tests.matrix.index.server import LocalIndex, archive, serve

MATRIX = load_matrix()
METADATA = """Metadata-Version: 2.4
Name: fused-norm
Version: 1.2.0
Requires-Python: >=3.10,<3.13
Requires-Dist: torch<2.15,>=2.14
Requires-Dist: einops

"""
HEAD = b"\x7fELF\0" + b"\0".join(
    [b"libcudart.so.13", b"libc10_cuda.so", b"libtorch.so", b"cudaLaunchKernel", b""]
)
NAMES = {"fused-norm": "fused_norm"}
NEW = Companion(NAMES, ("torch",), releases="fused-norm", first="1.0", binaries=r"fused_norm/_C.*")


@pytest.fixture
def index() -> Iterator[LocalIndex]:
    with serve() as served:
        members = {
            "fused_norm-1.2.0.dist-info/METADATA": METADATA.encode(),
            "fused_norm/_C.abi3.so": HEAD,
        }
        name = "fused_norm-1.2.0-cp310-abi3-manylinux_2_28_x86_64.whl"
        served.archives[name] = archive(members, folder="fused_norm-1.2.0")
        digest = hashlib.sha256(served.archives[name]).hexdigest()
        served.wheels[name] = {"entries": 3, "members": {}, "sha256": digest}
        yield served


def test_one_more_package_is_a_row_of_data(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row in data/packages/index.json is all that a renewal needs; the second reading agrees with the first."""
    known, before = load_data("packages/index", Companions), changed_copy()
    monkeypatch.setattr(
        companions, "load_companions", lambda: replace(known, rows=(*known.rows, NEW))
    )
    companion_row.cache_clear()
    opened = reader(index)
    try:
        listings = [list_framework(opened, "fused-norm")]
        found = refresh(before, listings, opened, "2026-11-23", lambda *_: None).document
        agreed = verify(found, listings, opened, 0, lambda *_: None)
    finally:
        opened.close()
        companion_row.cache_clear()
    (row,) = found["releases"]["fused-norm"]["1.2.0"]
    assert (row["pythons"], row["glibc"], row["requires"]) == (
        ["3.10", "3.11", "3.12"],
        "2.28",
        {"torch": ">=2.14,<2.15"},
    )
    assert (row["cuda_build"], row["cuda"]) == (True, "13")
    assert [
        item.version
        for item in Matrix(found).companions_of("torch", "2.14.0", row["platform"], "fused-norm")
    ] == ["1.2.0"]
    assert found["companions"]["fused-norm"] == {
        "distributions": [{"module": "fused_norm", "name": "fused-norm"}]
    }
    assert (agreed.rows, agreed.disagreements, agreed.unread) == (1, [], [])


def draft(
    members: dict[str, str],
    metadata: str = METADATA,
    *,
    tag: str = "cp310-abi3-win_amd64",
    yanked: str = "",
    name: str = "xformers",
) -> dict[str, Any]:
    """Draft the row of the wheels of a release: what their binaries name, and what their METADATA says."""
    wheels = []
    for each in tag.split():
        parsed = parse_wheel(f"{name}-1.2.0-{each}.whl")
        assert parsed is not None
        wheels.append(
            Wheel(f"{name}-1.2.0-{each}.whl", "", "0" * 64, "", None, bool(yanked), parsed, yanked)
        )
    groups = group_wheels(wheels)
    made, odd = draft_release(name, groups, {"0" * 64: Contents(metadata, 9, members)}, {})
    assert not odd
    return build_row(made[0], Curated())


@pytest.mark.parametrize(
    ("names", "is_for_cuda", "cuda", "is_stated"),
    [
        ("c10_cuda.dll cudart64_12.dll torch_cuda.dll", True, "12", True),
        ("cublas64_11.dll cudart64_110.dll", True, "11", True),
        ("c10.dll c10_cuda.dll nvcudart_hybrid64.dll", True, None, True),
        ("c10.dll torch_cpu.dll", False, None, True),
        ("c10.dll torch_cpu.dll ...", False, None, False),  # its end was not read
        # it opens the driver's library: who knows for which CUDA
        ("libcuda.so.1", False, None, False),
    ],
)
def test_the_libraries_of_a_binary_tell_its_cuda(
    names: str, *, is_for_cuda: bool, cuda: str, is_stated: bool
) -> None:
    row = draft({"xformers/_C.pyd": names.replace(" ", "\n")})
    assert (row["cuda_build"], row.get("cuda")) == (is_for_cuda, cuda)
    assert ("cuda_build" not in row["proof"]) == is_stated


FREE = "Metadata-Version: 2.4\nName: xformers\nVersion: 1.2.0\n"  # without Requires-Python


def test_classifiers_are_no_limit() -> None:
    """Pip installs a wheel on each Python that its tag and Requires-Python admit; classifiers are documentation."""
    classified = (
        f"{FREE}Requires-Python: >=3.9,<3.14\nClassifier: Programming Language :: Python :: 3.10\n"
    )
    row = draft({}, classified, tag="py3-none-win_amd64")
    assert row["pythons"] == ["3.9", "3.10", "3.11", "3.12", "3.13"]
    assert "Its name states no Python; those that its metadata admits are listed." in sentences(
        row["note"]
    )
    row = draft({}, classified)
    assert row["pythons"] == ["3.10", "3.11", "3.12", "3.13"]
    assert (
        "Its name states only the oldest Python; those that its metadata admits are listed."
        in sentences(row["note"])
    )


def test_the_pythons_are_those_of_all_wheels() -> None:
    """Triton 3.9 has a wheel for Python 3.11 beside the one for 3.12 and newer."""
    required = f"{FREE}Requires-Python: >=3.10,<3.15\n"
    row = draft(
        {}, required, tag="cp311-cp311-win_amd64 cp312-abi3-win_amd64 cp314-cp314t-win_amd64"
    )
    assert (row["pythons"], row["free_threaded"]) == (["3.11", "3.12", "3.13", "3.14"], ["3.14"])
    assert "states only the oldest Python" in row["note"]


@pytest.mark.parametrize(
    "tag",
    [
        "py3-none-win_amd64",
        "py2.py3-none-any",
        "py39-none-win_amd64",
        "cp39-abi3-win_amd64",
        "cp311-cp311-win_amd64",
        "cp310-none-win_amd64",
        "cp313-cp313t-win_amd64",
        "pp310-pypy310_pp73-win_amd64",
    ],
)
def test_pip_takes_a_wheel_on_the_pythons_that_are_drawn(tag: str) -> None:
    named = tags.parse_tag(tag)
    versions = [
        (python, tuple(map(int, python.split(".")))) for python in load_companions().pythons
    ]
    taken = [python for python, version in versions if named & set(_supported_tags(version))]
    made = draft({}, FREE, tag=tag)["pythons"] if taken else []
    assert made == taken


def _supported_tags(version: tuple[int, ...]) -> Iterator[tags.Tag]:
    interpreter = "cp" + "".join(map(str, version))
    yield from tags.cpython_tags(version, [interpreter], ["win_amd64"])
    yield from tags.compatible_tags(version, interpreter, ["win_amd64"])


def test_files_with_gpu_code_name_their_gpus() -> None:
    named = _list_cubins(
        ["a/fmha_sm100f.cubin", "a/FmhaSm103aKernel.cubin", "a/kernel.00.cubin", "a/sm_90.py"]
    )
    row = draft(named)
    assert row["compute_capabilities"] == ["sm_100f", "sm_103a"]
    assert "state the GPUs, but for some" in row["note"]


def test_a_wheel_is_read_again_where_a_row_names_other_binaries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = parse_wheel("xformers-1.2.0-cp310-abi3-win_amd64.whl")
    assert name is not None
    wheel = Wheel("", "", "0" * 64, "", None, False, name)
    before = deep.name_cached("xformers", wheel)
    monkeypatch.setattr(deep, "binary_names", lambda _: r"xformers/other\.so")
    assert deep.name_cached("xformers", wheel) != before


def test_a_yanked_release_gives_its_reason() -> None:
    row = draft({}, yanked="Broken on 3.12. Use 1.2.1.\n")
    assert row["yanked"]
    assert "Yanked wheels: 1 of 1 (Broken on 3.12; Use 1.2.1)." in sentences(row["note"])


@pytest.mark.parametrize(
    ("framework", "version", "name", "newest"),
    [
        ("torch", "2.14.0", "vllm", "0.33.0"),
        ("torch", "2.8.0", "torchvision", "0.23.0"),
        ("torch", "2.13.0", "torchaudio", "2.11.1"),
        # the wheel for macOS leaves torch open, the others pin it
        ("torch", "1.9.0", "torchvision", "0.10.0"),
        ("tensorflow", "2.20.0", "tensorflow-text", "2.20.1"),
        ("torch", "2.10.0", "torchcodec", "0.10.0"),  # a table of its README
        ("torch", "2.15.0", "torchcodec", "0.17.0"),
        ("torch", "2.10.0", "fbgemm-gpu", "1.5.0"),  # a table in its Python code
        ("torch", "2.4.1", "xformers", "0.0.28.post1"),
    ],
)
def test_releases_that_go_together(framework: str, version: str, name: str, newest: str) -> None:
    platform = "macosx_arm64" if version == "1.9.0" else "linux_x86_64"
    assert [row.version for row in MATRIX.companions_of(framework, version, platform, name)][
        :1
    ] == [newest]


def test_a_wheel_for_another_cuda_than_the_frameworks_is_told_apart() -> None:
    torch = MATRIX.release("torch", "2.14.0", "linux_x86_64")
    xformers, vllm = (MATRIX.companion_releases(name)[0] for name in ("xformers", "vllm"))
    assert torch is not None
    assert (xformers.cuda, vllm.cuda, torch.cuda) == ("12", "13", "13.0")
    assert not shares_cuda(xformers, torch)
    assert shares_cuda(vllm, torch)


def test_every_section_of_releases_is_named_by_a_row() -> None:
    named = {
        (row.releases, name)
        for row in load_companions().rows
        if row.releases
        for name in row.distributions
    }
    held = {
        (name, item["name"])
        for name, body in document()["companions"].items()
        for item in body["distributions"]
    }
    assert named == held


def test_the_extra_that_people_install_states_what_goes_with_it() -> None:
    """SGLang before 0.5.3 requires torch by its extra srt, which requires more of its own extras."""
    lines = (
        'torch==2.6.0; extra == "srt"',
        'sglang[runtime_common]; extra == "srt"',
        'torch; extra == "srt-hip"',
    )
    nested = 'torchao==0.9.0; extra == "runtime-common"'
    stated = "".join(f"Requires-Dist: {line}\n" for line in (*lines, nested))
    row = draft({}, FREE + stated, tag="py3-none-any", name="sglang")
    assert (row["usual_extra"], row["requires"]) == (
        "srt",
        {"torch": "==2.6.0", "torchao": "==0.9.0"},
    )
    assert "What it requires is what its extra srt asks for." in sentences(row["note"])
    row = draft(
        {}, FREE + "Requires-Dist: torch==2.8.0\n" + stated, tag="py3-none-any", name="sglang"
    )
    assert row["requires"] == {"torch": "==2.8.0"}
    assert "usual_extra" not in row


def test_sglang_goes_with_the_torch_of_its_extra() -> None:
    pins = MATRIX.companion_pins("torch", "sglang")
    assert (pins["0.4.6"], pins["0.5.2"], pins["0.5.3"]) == ("==2.6.0", "==2.8.0", "==2.8.0")
    assert {row.version for row in MATRIX.companion_releases("sglang")} == {*pins}

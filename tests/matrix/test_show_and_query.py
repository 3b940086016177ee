"""`envcheck matrix show` and `query`: text, JSON and exit codes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from envcheck.api import plan
from envcheck.cli.group import run
from envcheck.matrix import load_matrix
from envcheck.matrix.gpus import find_capabilities
from envcheck.model import RequestError, UserError
from tests.matrix.documents import changed_copy

SCHEMA = Path(__file__).parents[2] / "envcheck" / "schemas" / "matrix-rows.schema.json"


def rows(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert run(["matrix", *arguments, "--format", "json"]) == code
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    document = json.loads(printed)
    fastjsonschema.compile(json.loads(SCHEMA.read_text(encoding="utf-8")))(document)
    return document


def named(document: Any) -> set[str]:
    return {f"{row['distribution']}=={row['version']}" for row in document["rows"]}


def test_show_names_the_release_and_its_artifact(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix", "show", "tensorflow==2.15.0", "--sources"]) == 0
    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if "linux_x86_64" in line)
    assert line.split()[:7] == [
        "tensorflow==2.15.0",
        "linux_x86_64",
        "3.9-3.11",
        "12.2",
        "525.60.13",
        "8.9",
        "5.0",
    ]
    assert "8.0+PTX" in line
    assert "stub for tensorflow-intel" in printed
    assert "tensorflow-2.15.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl" in printed
    assert "sha256 dee8ec2b" in printed
    assert "Fix: tensorflow[and-cuda]==2.15.1" in printed
    assert "\x1b" not in printed


def test_show_verbose_prints_how_cells_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    run(["matrix", "show", "tensorflow==2.15.0", "-v"])
    printed = capsys.readouterr().out
    proof = next(
        line
        for line in printed.splitlines()
        if line.startswith("tensorflow==2.15.0 on linux_x86_64 proof")
    )
    assert "pythons tier1" in proof
    assert "finds_cuda_wheels tier2" in proof
    assert "[and-cuda] installs: nvidia-cublas-cu12==" in printed
    assert "requires: " in printed
    assert "note: An empty wheel that requires tensorflow-intel." in printed


def test_show_draws_a_table_in_colour(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    run(["matrix", "show", "torch==2.8.0", "--color", "always"])
    printed = capsys.readouterr().out
    assert printed.startswith("\x1b[1mrelease ")


def test_show_on_a_narrow_terminal_writes_rows_below_each_other(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    run(["matrix", "show", "torch==2.8.0", "--color", "always", "-q"])
    rows = capsys.readouterr().out.partition("* documented")[0]
    assert "torch==2.8.0\x1b[0m\n  platform linux_x86_64\n" in rows
    assert "  cuDNN    9.10.2.21\n" in rows
    assert max(map(len, rows.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines())) <= 60


def test_show_quiet_leaves_out_remarks_and_keeps_sources(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["matrix", "show", "tensorflow==2.15.0", "-q"])
    assert "[1]" not in capsys.readouterr().out
    run(["matrix", "show", "tensorflow==2.15.0", "-q", "--sources"])
    printed = capsys.readouterr().out
    assert "Fix:" not in printed
    assert not printed.endswith("rows.\n")
    assert "[1] tensorflow-2.15.0-cp311-cp311-manylinux_2_17_aarch64" in printed


def test_show_one_release_of_torch_with_index_variants_pins_and_architectures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["matrix", "show", "torch==2.6", "--sources"])
    printed = capsys.readouterr().out
    assert "9.0*" in printed  # architectures are documented: no artifact was read for them
    assert "* documented, not read from an artifact." in printed
    assert "torch==2.6.0 on linux_x86_64 installs: nvidia-cuda-nvrtc-cu12==12.4.127 " in printed
    line = next(
        line for line in printed.splitlines() if "linux_x86_64: PyTorch's own index has it" in line
    )
    for cuda in ("12.6", "12.4", "11.8"):
        assert (
            f"{cuda} (https://download.pytorch.org/whl/cu{cuda.replace('.', '')} with code for "
            in line
        )
    number = re.search(r"; documented (\[\d+\])$", line)
    assert number
    cited = rf"\n{re.escape(number[1])} https://github.com/pytorch/test-infra/\S+, release channel as of 2025-01-28"
    assert re.search(cited, printed)
    found = {row["platform"]: row for row in rows(capsys, "show", "torch==2.6")["rows"]}
    assert [item["cuda"] for item in found["win_amd64"]["variants"]] == ["12.6", "12.4", "11.8"]
    assert {item["proof"] for item in found["win_amd64"]["variants"]} == {"documented"}
    assert found["macosx_arm64"]["variants"] == found["linux_aarch64"]["variants"] == []
    newest = {row["platform"]: row for row in rows(capsys, "show", "torch==2.15.0")["rows"]}
    assert "sm_80" in newest["linux_x86_64"]["variants"][0]["compute_capabilities"]
    assert found["linux_x86_64"]["proof"]["cuda_wheels"] == "tier1"


def test_show_a_build_of_pytorchs_own_index(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "show", "torch==2.6.0+cu118")["rows"]
    assert {row["platform"] for row in found} == {"linux_x86_64", "win_amd64"}
    assert all("11.8" in {item["cuda"] for item in row["variants"]} for row in found)
    for unknown in ("torch==2.6.0+cu999", "torch==2.6.0+mine", "torch==2.99.0+cu118"):
        assert rows(capsys, "show", unknown, code=3)["rows"] == []


def test_show_several_releases_without_their_pins(capsys: pytest.CaptureFixture[str]) -> None:
    run(["matrix", "show", "torch>=2.5,<2.7"])
    assert "brings:" not in capsys.readouterr().out


def test_show_json(capsys: pytest.CaptureFixture[str]) -> None:
    document = rows(capsys, "show", "tensorflow[and-cuda]~=2.15.0")
    assert named(document) == {
        "tensorflow==2.15.0",
        "tensorflow==2.15.0.post1",
        "tensorflow==2.15.1",
    }
    assert all(row["citations"] for row in document["rows"])
    assert any(row["problems"] for row in document["rows"])


def test_show_unknown_release_is_undetermined(capsys: pytest.CaptureFixture[str]) -> None:
    document = rows(capsys, "show", "tensorflow==99.1", code=3)
    assert document["verdict"] == "undetermined"
    assert "envcheck matrix refresh" in document["message"]


def test_show_names_the_distribution_that_pins_one_without_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = rows(capsys, "show", "jax-cuda13-pjrt==0.12.0", code=3)["message"]
    assert message.startswith(
        "The matrix has no row for jax-cuda13-pjrt==0.12.0; jax-cuda13-plugin pins it."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "tensorflow=2.15",
            "'tensorflow=2.15' is not a requirement. Did you mean tensorflow==2.15?",
        ),
        ("tensorflow==2.15 2.16", "is not a requirement such as tensorflow==2.15.* "),
    ],
)
def test_show_rejects_what_is_not_a_requirement(text: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        run(["matrix", "show", text])
    assert said in str(raised.value)


def test_show_removed_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    document = rows(capsys, "show", "tensorflow-gpu==2.12.0", code=1)
    assert "tensorflow[and-cuda]" in document["message"]


def test_show_marks_yanked_releases(capsys: pytest.CaptureFixture[str]) -> None:
    run(["matrix", "show", "jax==0.12.0"])
    yanked = "yanked from the index" in capsys.readouterr().out
    document = changed_copy()
    assert yanked == any(row.get("yanked") for row in document["releases"]["jax"]["0.12.0"])


@pytest.mark.parametrize(
    ("requirement", "near"),
    [
        ("torch==2.6.9", "Nearest releases: 2.6.0 and 2.7.0."),
        ("torch==0.9", "Nearest releases: 1.0.0."),
        ("torch==2.6.9.*", "Nearest releases: 2.6.0 and 2.7.0."),
    ],
)
def test_show_names_the_nearest_releases(
    capsys: pytest.CaptureFixture[str], requirement: str, near: str
) -> None:
    message = rows(capsys, "show", requirement, code=3)["message"]
    assert near in message
    assert "Newest release of torch in the matrix: " in message


@pytest.mark.parametrize("requirement", ["torch==99", "torch>=99", "torch===weird"])
def test_show_names_no_neighbour_of_what_is_newer_or_no_release(
    capsys: pytest.CaptureFixture[str], requirement: str
) -> None:
    message = rows(capsys, "show", requirement, code=3)["message"]
    assert "Nearest" not in message
    assert message.endswith("Update it: envcheck matrix refresh")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["show", "tensorflw==2.15"], "Did you mean tensorflow?"),
        (["show", "pytorch"], "Did you mean torch?"),
        (["show", "jax-cuda12-plugi"], "Did you mean jax-cuda12-plugin?"),
        (["query", "--framework", "Tensorflow"], "Did you mean tensorflow?"),
        (["refresh", "--framework", "tensorflo"], "Did you mean tensorflow?"),
        (["verify", "--framework", "torhc"], "Did you mean torch?"),
        (["shwo", "torch"], "'show'"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(arguments: list[str], hint: str) -> None:
    with pytest.raises(UserError) as caught:
        run(["matrix", *arguments])
    assert hint in str(caught.value)


def test_the_group_alone_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix"]) == 0
    assert "refresh  Add new releases from the published wheels." in capsys.readouterr().out


def test_an_unknown_compute_capability_is_refused_with_those_known() -> None:
    with pytest.raises(UserError, match=r"--gpu 9.9: .* The matrix has 2.0, .*8.9, 9.0"):
        run(["matrix", "query", "--gpu", "9.9"])


@pytest.mark.parametrize("requirement", ["numpy", "tensorflow @ https://example.org/x.whl", "==2"])
def test_show_refuses_what_it_cannot_judge(requirement: str) -> None:
    with pytest.raises(UserError):
        run(["matrix", "show", requirement])


def test_query_leaves_out_what_the_driver_cannot_run(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--framework", "tensorflow", "--platform", "linux_x86_64")
    old = named(rows(capsys, "query", "--driver", "450.80.02", *asked))
    new = named(rows(capsys, "query", "--driver", "535.104", *asked))
    assert "tensorflow==2.10.0" in old
    assert "tensorflow==2.15.0" not in old
    assert old < new


def test_query_counts_on_the_full_driver_where_ptx_is_compiled(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = (
        "query",
        "--gpu",
        "H100",
        "--framework",
        "tensorflow",
        "--platform",
        "linux_x86_64",
        "--driver",
    )
    old = named(rows(capsys, *asked, "525.105.17"))
    assert "tensorflow==2.12.0" in old
    # has no code for 9.0, and its CUDA 12.2 came with 535.54.03
    assert "tensorflow==2.15.0" not in old
    assert "tensorflow==2.15.0" in named(rows(capsys, *asked, "535.104.05"))


def test_query_knows_what_a_driver_branch_no_longer_drives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert rows(capsys, "query", "--gpu", "3.0", "--driver", "535.104", code=1)["rows"] == []
    assert rows(capsys, "query", "--gpu", "3.0", "--driver", "470.10")["rows"]


def test_query_knows_the_branch_of_a_windows_driver(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("query", "--gpu", "3.5", "--platform", "win_amd64", "--driver")
    assert rows(capsys, *asked, "474.44")["rows"]  # of R470, the last branch that drives it
    assert rows(capsys, *asked, "497.09", code=1)["rows"] == []


def test_query_lists_builds_of_pytorchs_own_index(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (
        "query",
        "--driver",
        "470.57.02",
        "--gpu",
        "7.0",
        "--python",
        "3.11",
        "--platform",
        "linux_x86_64",
    )
    found = [
        row
        for row in rows(capsys, *asked, "--framework", "torch")["rows"]
        if row["version"] == "2.6.0"
    ]
    assert [(row["local"], row["cuda"]) for row in found] == [("cu118", "11.8")]
    assert found[0]["index"].endswith("/whl/cu118")


def test_query_judges_most_kernels_as_the_doctor_does(capsys: pytest.CaptureFixture[str]) -> None:
    asked = (
        "query",
        "--gpu",
        "H100",
        "--framework",
        "tensorflow",
        "--platform",
        "linux_x86_64",
        "--driver",
    )
    assert "tensorflow==2.21.0" not in named(rows(capsys, *asked, "550.54.14"))
    assert "tensorflow==2.21.0" in named(rows(capsys, *asked, "570.86.10"))


def test_query_by_python_and_platform(capsys: pytest.CaptureFixture[str]) -> None:
    document = rows(
        capsys, "query", "--python", "3.11", "--platform", "win_amd64", "--framework", "tensorflow"
    )
    assert {row["platform"] for row in document["rows"]} == {"win_amd64"}
    assert all("3.11" in row["pythons"] and not row["stub_for"] for row in document["rows"])
    assert rows(capsys, "query", "--python", "3.14t", "--framework", "torch")["rows"]


def test_query_says_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "query",
        "--gpu",
        "3.0",
        "--framework",
        "tensorflow",
        "--platform",
        "macosx_x86_64",
        "--python",
        "2.7",
    ]
    document = rows(capsys, *asked, code=3)
    assert all("which GPUs it has code for" in row["why"][0] for row in document["rows"])
    # as the doctor and the plan judge it, although its CUDA knows the GPU
    assert {row["fit"] for row in document["rows"]} == {"undetermined"}


def test_query_marks_what_is_undetermined(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "query",
        "--driver",
        "525.60",
        "--framework",
        "jax",
        "--platform",
        "linux_x86_64",
        "--python",
        "3.11",
    ]
    document = rows(capsys, *asked, code=3)
    assert {row["fit"] for row in document["rows"]} == {"undetermined"}
    assert run(["matrix", *asked]) == 3
    assert (
        "jax  none  0.10.2 may work: the driver is only known as 525.60\n"
        in capsys.readouterr().out
    )
    assert run(["matrix", *asked, "--all"]) == 3
    printed = capsys.readouterr().out
    assert " ?" in printed
    assert "the driver is only known as 525.60; jax-cuda12-plugin" in printed
    assert printed.endswith("The matrix does not show whether they meet all conditions.\n")


def test_query_with_half_a_driver_release_is_undetermined(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = rows(
        capsys,
        "query",
        "--driver",
        "535",
        "--framework",
        "tensorflow",
        "--platform",
        "linux_x86_64",
    )
    fits = {row["version"]: row["fit"] for row in document["rows"]}
    assert fits["2.14.0"] == "compatible"
    assert rows(
        capsys,
        "query",
        "--driver",
        "450",
        "--framework",
        "tensorflow",
        "--platform",
        "linux_x86_64",
    )


def test_an_index_build_whose_code_was_not_read_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["matrix", "show", "torch==2.8.0", "-v"]) == 0
    assert (
        "CUDA 12.9 (https://download.pytorch.org/whl/cu129, GPU code not known)"
        in capsys.readouterr().out
    )


def test_query_says_first_what_works_one_line_a_framework(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["query", "--driver", "535.104", "--gpu", "RTX 4090", "--framework"]
    document = rows(capsys, *asked, "torch")
    (newest,) = document["newest"]
    assert run(["matrix", *asked, "torch"]) == 0
    first, line, empty, command, *_, more = capsys.readouterr().out.splitlines()
    assert first == "Works with driver 535.104 and GPU RTX 4090 on linux_x86_64:"
    assert (
        line
        == f"  {newest['requirement']}  since {newest['oldest']}  {newest['refused']} {newest['why']}"
    )
    assert re.fullmatch(
        r"  torch==2\.\d+\.\d\+cu1\d\d  since \S+  2\.\d+\.0 needs driver 580\.65\.06", line
    )
    assert empty == ""
    assert shlex.split(command) == ["$", *newest["command"]]
    assert shlex.split(more) == ["$", "envcheck", "matrix", *asked, "torch", "--all"]
    works = [row["version"] for row in document["rows"] if row["platform"] == "linux_x86_64"]
    assert (newest["newest"], newest["oldest"]) == (works[0], works[-1])


def test_query_names_what_lies_between_and_does_not_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["query", "--driver", "535.104", "--framework", "tensorflow"]
    (newest,) = rows(capsys, *asked)["newest"]
    assert newest["exceptions"] == ["2.16.1", "2.15.0"]  # known problems of their extra
    assert run(["matrix", *asked]) == 0
    assert f"since {newest['oldest']}, but 2 not  " in capsys.readouterr().out


def test_query_where_nothing_works_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["matrix", "query", "--driver", "470.57.02", "--gpu", "RTX 5090", "--framework", "jax"])
        == 1
    )
    assert re.fullmatch(
        r"Nothing works .*:\n  jax  none  \S+ needs driver 570\n.*\n", capsys.readouterr().out
    )


def test_query_fits_80_columns_but_for_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run(["matrix", "query", "--driver", "535.104", "--gpu", "RTX 4090", "--color", "always"])
    printed = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert max(len(line) for line in printed.splitlines() if not line.startswith("  $ ")) <= 80


def test_all_rows_that_agree_stand_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["query", "--driver", "535.104", "--framework", "torch", "--platform", "linux_x86_64"]
    assert run(["matrix", *asked, "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(re.match(r"torch==\S+ to \S+  +linux_x86_64 ", line) for line in lines)
    assert not any("[1]" in line for line in lines)
    count = len(rows(capsys, *asked)["rows"])
    assert lines[-1] == f"{count} rows."
    assert len(lines) < count / 2 + 1  # a blank line stands above the count
    assert run(["matrix", *asked, "--sources"]) == 0
    assert "\n[1] " in capsys.readouterr().out


def test_a_release_that_does_not_fit_parts_those_around_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = [
        "query",
        "--driver",
        "535.104",
        "--gpu",
        "9.0",
        "--framework",
        "tensorflow",
        "--platform",
        "linux_x86_64",
    ]
    document = rows(capsys, *asked)
    held = {row["version"] for row in document["rows"]}
    assert run(["matrix", *asked, "--all"]) == 0
    spans = re.findall(r"^tensorflow==(\S+) to (\S+) ", capsys.readouterr().out, re.MULTILINE)
    matrix = load_matrix()
    order = [
        row.version
        for row in matrix.releases("tensorflow", "linux_x86_64")
        if row.distribution == "tensorflow"
    ]
    assert spans
    for oldest, newest in spans:
        assert set(order[order.index(newest) : order.index(oldest) + 1]) <= held


def test_show_gives_each_extra_of_jax_a_line_as_it_is_planned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["matrix", "show", "jax==0.7.2"]) == 0
    lines = {
        tuple(line.split()[:2]): line.split()
        for line in capsys.readouterr().out.splitlines()
        if line
    }
    for extra, cuda, driver in (("cuda13", "13", "580.65.06"), ("cuda12", "12", "525.60.13")):
        assert {cuda, driver, "9.0"} <= set(lines[f"jax[{extra}]==0.7.2", "linux_x86_64"])
        planned = plan(
            f"jax[{extra}]==0.7.2", driver=driver, gpu="9.0", platform="linux_x86_64", python="3.12"
        )
        assert planned.plan.releases[0].cuda == cuda
    (row,) = rows(capsys, "show", "jax==0.7.2")["rows"]
    builds = [
        item["requirement"] for item in row["extra_builds"] if item["platform"] == "linux_x86_64"
    ]
    assert builds == ["jax[cuda13]==0.7.2", "jax[cuda12]==0.7.2"]


@pytest.mark.parametrize("name", ["onnxruntime", "onnxruntime-gpu"])
def test_a_framework_is_named_by_position_too(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by_option = rows(capsys, "query", "--python", "3.12", "--framework", "onnxruntime")
    assert rows(capsys, "query", name, "--python", "3.12") == by_option


def test_two_frameworks_exclude_each_other() -> None:
    with pytest.raises(UserError, match="torch and --framework jax exclude each other"):
        run(["matrix", "query", "torch", "--framework", "jax"])


@pytest.mark.parametrize("command", [["matrix", "query"], ["plan", "tensorflow", "--no-verify"]])
def test_query_asks_which_gpu_is_meant_as_a_plan_does(command: list[str]) -> None:
    meant = "stands for compute capability 3.0 (Kepler) or 5.0 (Maxwell): give one of them."
    with pytest.raises(RequestError, match=re.escape(meant)):
        run([*command, "--driver", "550", "--gpu", "GTX 750 Ti"])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--python", "three"],
        ["--driver", "new"],
        ["--framework", "keras"],
        ["--gpu", "Voodoo 2"],
        ["--matrix", "/nowhere.json", "--python", "3.11"],
    ],
)
def test_query_refuses_what_makes_no_sense(arguments: list[str]) -> None:
    with pytest.raises(UserError):
        run(["matrix", "query", *arguments])


def test_query_asks_the_matrix_it_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = changed_copy()
    document["releases"]["tensorflow"] = {"2.21.0": document["releases"]["tensorflow"]["2.21.0"]}
    file = tmp_path / "own.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    asked = rows(
        capsys, "query", "--framework", "tensorflow", "--python", "3.11", "--matrix", str(file)
    )
    assert {row["version"] for row in asked["rows"]} == {"2.21.0"}


@pytest.mark.parametrize(
    ("words", "capabilities"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", ("8.0",)),
        ("DGX Spark", ("12.1",)),
        ("Jetson Thor", ("11.0",)),
        ("RTX 4090", ("8.9",)),
        ("H100", ("9.0",)),
        ("A100", ("8.0",)),
        ("GeForce GT 730", ("2.1", "3.0", "3.5")),
        ("Voodoo", ()),
    ],
)
def test_gpus_by_the_words_that_users_type(words: str, capabilities: tuple[str, ...]) -> None:
    assert find_capabilities(words) == capabilities


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "MI300X",
            "a GPU by AMD; envcheck judges and plans for NVIDIA GPUs and CPUs (--gpu none) only",
        ),
        ("Radeon RX 7900 XTX", "a GPU by AMD;"),
        ("Arc B580", "a GPU by Intel;"),
        ("Voodoo 2", "no such GPU is known; give its compute capability"),
    ],
)
def test_a_gpu_that_is_not_nvidias_is_called_that(name: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        run(["matrix", "query", "--gpu", name, "--python", "3.12"])

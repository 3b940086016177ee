"""What uv is asked, and what becomes of their answers; a stand-in for uv answers here."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from envcheck.cli.group import run
from envcheck.model import Environment, Plan, RequirementSet
from envcheck.plan import verify as verify_module
from envcheck.plan.resolver import with_exact_companions
from envcheck.plan.verify import (
    UnreachableError,
    UnresolvableError,
    compile_options,
    find_uv,
    platform_name,
    resolve,
    verify_plan,
)

MADE = Environment(".venv", "pip", "3.7", "linux_x86_64", glibc="2.12")
WANTED = RequirementSet(("tensorflow==2.0.4", "protobuf<3.21"))
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in for uv is a shell script")


def stand_in(folder: Path, body: str) -> dict[str, str]:
    """Put a stand-in for uv on PATH; it notes what it was asked."""
    uv = folder / "uv"
    uv.write_text(
        f'#!/bin/sh\necho "$@" > {folder}/asked\nenv > {folder}/env\n{body}\n', encoding="utf-8"
    )
    uv.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "PIP_CONFIG_FILE": os.devnull}


def test_pins_come_out_with_their_hashes(tmp_path: Path) -> None:
    answer = "printf 'numpy==1.18.5 \\\\\\n    --hash=sha256:aa \\\\\\n    --hash=sha256:bb\\nsix==1.16.0\\n'"
    pins = resolve(MADE, WANTED, stand_in(tmp_path, answer))
    assert pins == ("numpy==1.18.5 --hash=sha256:aa --hash=sha256:bb", "six==1.16.0")
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert "--python-version 3.7 --only-binary :all:" in asked
    assert "--no-binary" not in asked
    assert "--no-python-downloads" in asked
    assert "universal" not in asked


def test_a_file_that_is_named_by_its_address_is_a_pin_too(tmp_path: Path) -> None:
    address = (
        "https://example.org/v2.8.3/flash_attn-2.8.3+cu12torch2.8-cp311-cp311-linux_x86_64.whl"
    )
    answer = f"printf 'flash-attn @ {address} \\\\\\n    --hash=sha256:aa\\nsix==1.16.0\\n'"
    wanted = RequirementSet((f"flash-attn @ {address}", "six"))
    pins = resolve(MADE, wanted, stand_in(tmp_path, answer))
    assert pins == (f"flash-attn @ {address} --hash=sha256:aa", "six==1.16.0")
    plan = Plan("gpu", (), (), environments=(replace(MADE, sets=(wanted,)),))
    environ = stand_in(tmp_path, answer)
    verified = verify_plan(plan, environ, 60, until=time.monotonic() + 60, channels=False)
    assert verified.verified == "resolved: 2 packages from wheels"
    assert with_exact_companions(verified) == verified


def test_pips_index_and_certificates_are_handed_on(tmp_path: Path) -> None:
    environment = stand_in(tmp_path, ":")
    environment.update(
        PIP_INDEX_URL="https://mirror.example/simple",
        PIP_CERT="/etc/own.pem",
        PIP_CLIENT_CERT="/etc/client.pem",
        PIP_TRUSTED_HOST="mirror.example",
        PIP_PROXY="http://proxy.example:3128",
        HTTPS_PROXY="http://other.example:3128",
        PIP_EXTRA_INDEX_URL="https://elsewhere.example/simple",
    )
    resolve(MADE, WANTED, environment)
    seen = (tmp_path / "env").read_text(encoding="utf-8")
    for setting in (
        "UV_DEFAULT_INDEX=https://mirror.example/simple",
        "UV_INSECURE_HOST=mirror.example",
        "UV_EXTRA_INDEX_URL=https://elsewhere.example/simple",  # pip asks it, too
        "SSL_CERT_FILE=/etc/own.pem",
        "SSL_CLIENT_CERT=/etc/client.pem",
        "ALL_PROXY=http://proxy.example:3128",
        # whatever the environment says: uv asks this one first
        "HTTPS_PROXY=http://proxy.example:3128",
    ):
        assert setting in seen


@pytest.mark.parametrize(
    ("configured", "told"),
    [
        ("[global\n", "cannot be read"),
        ("[global]\nno-index = true\n", "no index"),
        ("[global]\nindex-url = ftp://mirror.example/simple\n", "scheme 'ftp'"),
        ("[global]\ntimeout = soon\n", "timeout = 'soon'"),
    ],
)
def test_a_configuration_of_pip_that_cannot_be_used_proves_nothing(
    tmp_path: Path, configured: str, told: str
) -> None:
    (tmp_path / "pip.conf").write_text(configured, encoding="utf-8")
    environment = {**stand_in(tmp_path, ":"), "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    with pytest.raises(UnreachableError, match=f"no index was queried: .*{told}"):
        resolve(MADE, WANTED, environment)


def test_a_folder_may_be_the_index(tmp_path: Path) -> None:
    resolve(MADE, WANTED, {**stand_in(tmp_path, ":"), "PIP_INDEX_URL": "file:///srv/simple"})
    assert "UV_DEFAULT_INDEX=file:///srv/simple" in (tmp_path / "env").read_text(encoding="utf-8")


def test_folders_are_read_where_pip_is_to_ask_no_index(tmp_path: Path) -> None:
    resolve(
        MADE,
        WANTED,
        {**stand_in(tmp_path, ":"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/srv/wheels"},
    )
    seen = (tmp_path / "env").read_text(encoding="utf-8")
    assert {"UV_OFFLINE=1", "UV_FIND_LINKS=/srv/wheels"} <= {*seen.splitlines()}


def test_settings_of_uv_go_before_those_of_pip(tmp_path: Path) -> None:
    own = {
        "UV_DEFAULT_INDEX": "https://own.example/simple",
        "UV_OFFLINE": "1",
        "UV_TORCH_BACKEND": "auto",
    }
    resolve(
        MADE,
        WANTED,
        {**stand_in(tmp_path, ":"), **own, "PIP_INDEX_URL": "https://mirror.example/simple"},
    )
    seen = (tmp_path / "env").read_text(encoding="utf-8")
    assert "UV_DEFAULT_INDEX=https://own.example/simple" in seen
    assert "UV_OFFLINE=1" in seen
    assert "UV_TORCH_BACKEND" not in seen, "the plan chose the build already"


def test_an_index_of_its_own_is_asked_alone(tmp_path: Path) -> None:
    elsewhere = {"PIP_EXTRA_INDEX_URL": "https://mirror.example/simple"}
    wanted = RequirementSet(("torch==2.7.1+cu118",), "https://own.example/whl/cu118")
    resolve(MADE, wanted, {**stand_in(tmp_path, ":"), **elsewhere})
    asked, seen = ((tmp_path / name).read_text(encoding="utf-8") for name in ("asked", "env"))
    assert "--default-index https://own.example/whl/cu118" in asked
    assert "UV_EXTRA_INDEX_URL" not in seen


def test_the_pages_that_a_set_names_are_asked(tmp_path: Path) -> None:
    options = ("--find-links", "https://data.example/torch.html", "--no-build-isolation")
    resolve(MADE, RequirementSet(("pyg-lib==1.0",), options=options), stand_in(tmp_path, ":"))
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert "--find-links https://data.example/torch.html" in asked
    assert "--no-build-isolation" not in asked


def test_nothing_is_built_to_read_what_it_requires(tmp_path: Path) -> None:
    environment = stand_in(tmp_path, ":")
    with pytest.raises(UnreachableError, match="gast needs a build"):
        resolve(MADE, replace(WANTED, source_only=("gast",)), environment)
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            "echo '  x No solution found: because tensorflow==2.0.4 has no wheels' >&2; exit 1",
            UnresolvableError,
        ),
        ("echo 'error: Failed to fetch: dns error' >&2; exit 2", UnreachableError),
        ("kill -9 $$", UnreachableError),  # ended by somebody: nothing was concluded
        ("echo 'error: unexpected argument --generate-hashes found' >&2; exit 2", UnreachableError),
        (
            "echo 'error: Unsupported `Content-Type` of http://mirror.example/simple/six/' >&2; exit 2",
            UnreachableError,
        ),
        (
            "echo 'error: No solution found ... hint: it returned a 403 Forbidden error' >&2; exit 1",
            UnreachableError,
        ),
        (
            "echo 'error: No solution found ... credentials (401 Unauthorized)' >&2; exit 1",
            UnreachableError,
        ),
        (
            "echo 'error: No solution found ... because the network was disabled' >&2; exit 1",
            UnreachableError,
        ),
        ("echo 'error: Failed to build `gast==0.2.2`' >&2; exit 1", UnresolvableError),
    ],
)
def test_a_failure_is_told_from_no_answer(
    tmp_path: Path, answer: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        resolve(MADE, WANTED, stand_in(tmp_path, answer))


def test_the_reason_is_uvs_in_one_sentence(tmp_path: Path) -> None:
    """As uv 0.13 writes it."""
    said = (
        "error: No solution found when resolving dependencies\n"
        "  cause: Because there is no version of six==99 and you require six==99, we can conclude that your "
        "requirements are unsatisfiable."
    )
    with pytest.raises(UnresolvableError) as error:
        resolve(
            MADE,
            RequirementSet(("six==99",)),
            stand_in(tmp_path, f"printf '%s' '{said}' >&2; exit 1"),
        )
    assert str(error.value).startswith(
        "six==99 does not resolve: Because there is no version of six==99 and you"
    )


def test_nothing_is_left_of_what_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    resolve(MADE, WANTED, stand_in(tmp_path, 'for file; do :; done; cp "$file" $(dirname $0)/seen'))
    assert (tmp_path / "seen").read_text(encoding="utf-8") == "tensorflow==2.0.4\nprotobuf<3.21\n"
    with pytest.raises(UnreachableError):
        resolve(MADE, WANTED, stand_in(tmp_path, "exit 2"))
    monkeypatch.setattr(verify_module, "run_program", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        resolve(MADE, WANTED, stand_in(tmp_path, ":"))
    assert list((tmp_path / "own").iterdir()) == []


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_without_uv_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(UnreachableError, match=r"the extra plan.*uv>="):
        find_uv({"PATH": "relative:/nowhere"})


def test_the_wheel_of_uv_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = ModuleType("uv")
    wheel.find_uv_bin = lambda: "/somewhere/uv"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uv", wheel)
    assert find_uv({}) == "/somewhere/uv"


@pytest.mark.parametrize(
    ("platform", "needed", "there", "name"),
    [
        # what nobody stated is no older than this
        ("linux_x86_64", "2.12", "", "x86_64-manylinux_2_28"),
        ("linux_x86_64", "2.31", "", "x86_64-manylinux_2_31"),
        # dependencies may need more than the framework
        ("linux_x86_64", "2.12", "2.35", "x86_64-manylinux_2_35"),
        ("linux_x86_64", "2.12", "2.12", "x86_64-manylinux_2_17"),
        ("linux_x86_64", "2.27", "2.99", "x86_64-manylinux_2_40"),
        ("linux_x86_64", "2.27", "odd", "x86_64-manylinux_2_17"),
        ("linux_aarch64", "2.28", "2.29", "aarch64-manylinux_2_28"),
        ("win_amd64", "", "", "x86_64-pc-windows-msvc"),
        ("macosx_arm64", "", "", "aarch64-apple-darwin"),
    ],
)
def test_platforms_are_named_as_uv_does(platform: str, needed: str, there: str, name: str) -> None:
    made = Environment(".venv", "pip", "3.14", platform, glibc=needed, machine_glibc=there)
    assert platform_name(made) == name
    assert compile_options(made)[-3] == "3.14"


ASKED = ("plan", "tensorflow==2.20.*", "--platform", "win_amd64", "--python", "3.12")
RESOLVES = "printf 'numpy==2.1.0\\nsix==1.16.0\\n'"
UNSATISFIABLE = "echo error: No solution found when resolving dependencies: six is gone >&2; exit 1"
NO_ANSWER = "echo dns error >&2; exit 2"


@pytest.mark.parametrize(
    "case",
    [
        (("--verify",), RESOLVES, 0, "resolved: 2 packages from wheels"),
        (("--verify",), UNSATISFIABLE, 1, "does not resolve: six is gone"),
        (("--verify",), NO_ANSWER, 3, "not resolved: the index that is configured did not answer"),
        ((), RESOLVES, 0, "resolved: 2 packages from wheels"),
        ((), UNSATISFIABLE, 1, "does not resolve: six is gone"),
        ((), NO_ANSWER, 0, "not resolved: the index that is configured did not answer"),
        (("--verify-timeout", "0.2"), "sleep 3600", 0, "not resolved: no answer in 0.2 s"),
    ],
)
def test_the_headline_says_whether_the_plan_resolves(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: tuple[tuple[str, ...], str, int, str],
) -> None:
    options, body, code, said = case
    monkeypatch.delenv("ENVCHECK_VERIFY")
    monkeypatch.setenv("PATH", stand_in(tmp_path, body)["PATH"])
    assert run([*ASKED, *options]) == code
    out = capsys.readouterr().out
    assert said in out
    assert out.startswith("NO PLAN" if code == 1 else "PLAN")


@pytest.mark.parametrize("setting", ["0", "false", None])
def test_nothing_is_asked_where_the_user_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    setting: str | None,
) -> None:
    monkeypatch.setenv("PATH", stand_in(tmp_path, RESOLVES)["PATH"])
    monkeypatch.delenv("ENVCHECK_VERIFY")
    if setting:
        monkeypatch.setenv("ENVCHECK_VERIFY", setting)
    assert run([*ASKED, *([] if setting else ["--no-verify"])]) == 0
    assert "resolved" not in capsys.readouterr().out
    assert not (tmp_path / "asked").exists()


def test_a_file_that_is_not_verified_is_printed_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", stand_in(tmp_path, NO_ANSWER)["PATH"])
    assert run([*ASKED, "--verify", "--format", "requirements"]) == 3
    assert "not resolved" in capsys.readouterr().err


def test_an_older_release_takes_the_place_of_one_that_does_not_resolve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = "{ echo error: No solution found when resolving dependencies: too new >&2; exit 1; }"
    body = f'for file; do :; done; grep -q 2.20.0 "$file" || {refusal}; echo tensorflow==2.20.0'
    monkeypatch.setenv("PATH", stand_in(tmp_path, body)["PATH"])
    asked = [
        "plan",
        "tensorflow>=2.20,<2.22",
        "--platform",
        "win_amd64",
        "--python",
        "3.12",
        "--verify",
    ]
    assert run(asked) == 0
    out = capsys.readouterr().out
    assert "tensorflow-cpu==2.20.0" in out.splitlines()[0]
    assert "not tensorflow-cpu==2.21.0: does not resolve: too new" in out


def test_what_the_matrix_does_not_hold_is_named_by_the_release_that_was_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", stand_in(tmp_path, "echo torchmetrics==1.9.0")["PATH"])
    asked = [
        "plan",
        "torchmetrics",
        "--platform",
        "linux_x86_64",
        "--python",
        "3.12",
        "--gpu",
        "8.9",
        "--driver",
    ]
    assert run([*asked, "580.95.05", "--verify"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("pip install" in line and line.endswith(" torchmetrics==1.9.0") for line in lines)


def test_a_free_threaded_python_is_not_taken_for_the_usual_one() -> None:
    made = Environment(".venv", "pip", "3.14t", "linux_x86_64")
    with pytest.raises(UnreachableError, match="free-threaded"):
        resolve(made, RequirementSet(("torch==2.15.0",)), {})

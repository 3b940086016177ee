"""What speaks against an installation before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from envcheck.actions import (
    Action,
    AskPerson,
    CreateEnvironment,
    InstallSystemPackages,
    Reboot,
    RemoveSystemPackages,
    RunCommand,
    SetVariables,
    UnsetVariable,
)
from envcheck.host import pip_settings
from envcheck.host.connection import find_connection_error
from envcheck.host.pip_settings import find_default_index, read_uv_bounds, read_uv_variables
from envcheck.install import preflight
from envcheck.install.installation import Surroundings, adapt_plan
from envcheck.install.installers import can_replace_pip, step_variables
from envcheck.install.places import place_of
from envcheck.install.preflight import (
    Preflight,
    disk_space_for,
    measured_sizes,
    objections,
    page_to_reach,
    wheel_space_for,
)
from envcheck.model import (
    SYSTEM,
    Facts,
    Known,
    Plan,
    PythonFacts,
    RequirementSet,
    Source,
    Step,
    UserError,
    replace,
)
from tests.plan.machines import machine, planned
from tests.typed import argv, command_step, undo

pytestmark = pytest.mark.needs("posix")
MANAGED = Facts(
    python=PythonFacts(
        externally_managed=Known(value=True, source=Source("file", "EXTERNALLY-MANAGED"))
    )
)
UNMANAGED = Facts(
    python=PythonFacts(externally_managed=Known(value=False, source=Source("file", "x")))
)
OFFLINE = {"PIP_NO_INDEX": "1", "PATH": os.environ["PATH"]}


def adapted(plan: Plan, here: Surroundings, *, system: bool) -> Plan:
    return adapt_plan(plan, replace(here, may_change_machine=system))


def jax(installer: str = "pip", python: str = "") -> Plan:
    minor = python or f"{sys.version_info[0]}.{sys.version_info[1]}"
    plan = planned("jax", on=machine(minor), expect="cpu", installer=installer, folder="env")
    return adapted(plan, Surroundings(python=(sys.executable,)), system=False)


def said(folder: Path, **changed: object) -> list[str]:
    asked = Preflight(jax(), place_of(folder), OFFLINE, as_root=True)
    return list(objections(replace(asked, **changed)))


def test_nothing_speaks_against_a_new_environment(tmp_path: Path) -> None:
    assert said(tmp_path / "env") == []


def test_root_must_say_so_for_an_environment_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "env"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert said(folder, as_root=False) == []
    folder.mkdir()
    (folder / "pyvenv.cfg").write_text("")
    monkeypatch.setattr(preflight, "_belongs_to_other_user", lambda _: True)
    (why,) = said(folder, as_root=False)
    assert "belongs to another user" in why
    assert "--as-root" in why
    assert said(folder, as_root=True) == []


def test_a_python_of_others_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "usr"
    folder.mkdir()
    assert "it is not a virtual environment" in said(folder, facts=UNMANAGED)[0]
    assert "managed from outside (PEP 668)" in said(folder, facts=MANAGED)[0]
    (folder / "conda-meta").mkdir()
    assert said(folder, facts=UNMANAGED) == []
    (folder / "condabin").mkdir()
    assert "conda's own environment" in said(folder, facts=UNMANAGED)[0]


def test_an_environment_that_was_moved_is_refused_where_its_activation_matters(
    tmp_path: Path,
) -> None:
    (tmp_path / "env/bin").mkdir(parents=True)
    plan = jax()
    made = replace(plan.environments[0], library_folders=("lib/nvidia/*/lib",))
    hooked = replace(plan, environments=(made,))
    for line, moved in (
        ("VIRTUAL_ENV='/before it/env'", True),
        (f'VIRTUAL_ENV="{tmp_path}/env"', False),
    ):
        (tmp_path / "env/bin/activate").write_text(f"{line}\nexport VIRTUAL_ENV\n")
        told = "".join(said(tmp_path / "env", plan=hooked))
        assert ("was moved: its activation still names /before it/env." in told) is moved
        assert "was moved" not in "".join(said(tmp_path / "env", plan=plan))


def test_a_disk_with_too_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        preflight, "get_free_bytes", lambda folder: 100 << (20 if folder == str(tmp_path) else 40)
    )
    (why,) = said(tmp_path / "env")
    assert (
        "has space for 0.1 GiB; this needs about 0.7 GiB (wheels of this kind, packed and unpacked)."
        in why
    )
    (tmp_path / "env" / "conda-meta").mkdir(parents=True)
    (why,) = said(tmp_path / "env", facts=UNMANAGED)
    assert "and a copy of the environment" in why


def test_the_room_is_that_of_the_release_or_the_largest_that_was_measured() -> None:
    rows = measured_sizes().rows
    (measured,) = [row for row in rows if (row.framework, row.release) == ("tensorflow", "2.20.0")]
    plan = planned("tensorflow[and-cuda]==2.20.0", on=machine("3.12", "580.65.06", "8.0"))
    needed = measured.wheels_mib + measured.unpacked_mib * 1.2
    assert disk_space_for(plan) == int(needed) << 20
    other = replace(plan.releases[0], version="2.99.0")
    assert disk_space_for(replace(plan, releases=(other,))) >= disk_space_for(plan)
    unmeasured = replace(
        plan.releases[0], framework="onnxruntime", distribution="onnxruntime", version="1.32.0"
    )
    assert disk_space_for(replace(plan, releases=(unmeasured,))) == 0
    assert wheel_space_for(replace(plan, releases=(unmeasured,))) == 0


@pytest.mark.needs("mount-namespace")
def test_a_read_only_file_system_is_refused_and_the_environment_works_on(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True
    )
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && cd "$2" && exec "$3" -m envcheck install '
    script += '--as-root --expect cpu --yes --installer pip --env "$1/env" jax'
    argv = [
        "unshare",
        "-m",
        "sh",
        "-c",
        script,
        "sh",
        str(tmp_path),
        str(Path(__file__).parents[2]),
        sys.executable,
    ]
    done = subprocess.run(
        argv, env={**os.environ, **OFFLINE}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "envcheck: nothing was changed: " in done.stderr
    assert f"{tmp_path} cannot be written" in done.stderr
    assert subprocess.run([tmp_path / "env/bin/python", "-c", "pass"], check=False).returncode == 0


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            Step("create-environment", CreateEnvironment("env", python="3.99")),
            "Python 3.* is not installed",
        ),
        (
            command_step("hook", "nosuchprogram", purpose="Write the hook."),
            "nosuchprogram is not installed: Write the hook.",
        ),
    ],
)
def test_programs_that_are_not_here(tmp_path: Path, step: Step, why: str) -> None:
    plan = jax()
    (told,) = said(tmp_path / "env", plan=replace(plan, steps=(step,)))
    assert why.partition("*")[0] in told


def test_conda_that_is_not_here(tmp_path: Path) -> None:
    plan = planned("jax", on=machine("3.12"), expect="cpu", installer="conda", folder="env")
    told = said(
        tmp_path / "env",
        plan=adapted(plan, Surroundings(), system=False),
        environment={**OFFLINE, "PATH": "/nowhere"},
    )
    assert told[0].startswith("conda, mamba and micromamba are not installed")


@pytest.mark.parametrize(
    ("found", "fetched", "objects"),
    [(True, False, False), (False, True, False), (False, False, True)],
)
def test_uv_may_bring_the_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: bool, fetched: bool, objects: bool
) -> None:
    monkeypatch.setattr(preflight, "find_program", lambda *_: "/opt/uv")
    monkeypatch.setattr(
        preflight, "has_output", lambda argv, _: found if "find" in argv else fetched
    )
    plan = planned("jax", on=machine("3.12"), expect="cpu", installer="uv", folder="env")
    told = said(tmp_path / "env", plan=adapted(plan, Surroundings(), system=False))
    assert bool(told) is objects
    assert not told or "uv cannot download it" in told[0]


def test_an_interpreter_for_uv_must_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "find_program", lambda *_: "/opt/uv")
    plan = planned("jax", on=machine("3.12"), expect="cpu", installer="uv", folder="env")
    (told,) = said(
        tmp_path / "env",
        plan=adapted(plan, Surroundings(python=("/nowhere/python",)), system=False),
    )
    assert "/nowhere/python does not start" in told


def test_an_index_that_does_not_answer_is_named_without_its_secrets(tmp_path: Path) -> None:
    configured = {"PIP_INDEX_URL": "http://name:secret@127.0.0.1:9/simple", "PATH": OFFLINE["PATH"]}
    (told,) = said(tmp_path / "env", environment={**configured, "PIP_CONFIG_FILE": os.devnull})
    assert "the package index 127.0.0.1 does not answer (" in told
    assert "secret" not in told


def test_the_page_that_is_asked_for() -> None:
    nothing = {"PIP_CONFIG_FILE": os.devnull}
    wanted = RequirementSet(("jax[cuda12]==0.5",))
    asked = page_to_reach(
        wanted, {**nothing, "PIP_INDEX_URL": "https://example.org/simple/", "PIP_CERT": "/ca.pem"}
    )
    assert (asked.url, asked.ca_file) == ("https://example.org/simple/jax/", "/ca.pem")
    own = page_to_reach(RequirementSet(("torch",), "https://example.net/whl/cu118"), nothing)
    assert own.url == "https://example.net/whl/cu118/torch/"
    assert page_to_reach(wanted, nothing).url.endswith("/jax/")
    assert page_to_reach(wanted, {**nothing, "PIP_NO_INDEX": "1"}).url == ""
    assert page_to_reach(wanted, {**nothing, "PIP_INDEX_URL": "file:///srv/simple"}).url == ""


@pytest.mark.parametrize(
    ("status", "why"), [(200, ""), (401, ""), (405, ""), (501, ""), (503, "HTTP status 503")]
)
def test_any_answer_but_the_servers_own_failure_will_do(status: int, why: str) -> None:
    class Answering(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        assert find_connection_error(f"http://{address}/simple/", proxy="") == why
        assert find_connection_error(f"http://name:secret@{address}/simple/") == why
        assert find_connection_error("http://example.invalid/", proxy=f"http://{address}") == why
        server.shutdown()


def test_a_broken_address_or_certificate_file_is_a_reason() -> None:
    assert "/nowhere/ca.pem does not exist" in find_connection_error(
        "https://127.0.0.1:9/", ca_file="/nowhere/ca.pem"
    )
    assert find_connection_error("https://127.0.0.1:9/", trusted=("127.0.0.1",))
    assert find_connection_error("no address")


def with_driver_step(action: Action) -> Plan:
    plan = planned("jax", on=machine("3.12"), expect="cpu", installer="pip", folder="env")
    first = Step("driver", replace(action, purpose="Install the driver."))
    return replace(plan, steps=(first, *plan.steps))


def driver(manager: str = "apt-get", *, sudo: bool = True) -> InstallSystemPackages:
    return InstallSystemPackages(manager, ("driver",), sudo)


def test_steps_of_the_machine_are_run_when_asked_for_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = with_driver_step(driver())
    with pytest.raises(
        UserError, match=r"Install the driver: `sudo apt-get install -y driver`.*or add --system"
    ):
        adapted(plan, Surroundings(), system=False)
    asked = adapted(plan, Surroundings(), system=True)
    assert argv(asked.steps[0])[0] == "sudo"
    in_container = adapted(plan, Surroundings(has_sudo=False), system=True)
    assert argv(in_container.steps[0]) == (
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "-y",
        "driver",
    )
    monkeypatch.setattr(preflight, "has_output", lambda *_: False)
    monkeypatch.setattr(preflight, "find_program", lambda *_: "/usr/bin/x")
    monkeypatch.setattr(preflight, "is_working_python", lambda *_: True)
    (told,) = said(tmp_path / "env", plan=asked)
    assert told.startswith("sudo would ask for a password")


@pytest.mark.parametrize(
    ("action", "asks_nothing"),
    [
        (driver(sudo=False), "env DEBIAN_FRONTEND=noninteractive apt-get install -y driver"),
        (
            RemoveSystemPackages(("driver",)),
            "sudo env DEBIAN_FRONTEND=noninteractive apt-get purge -y driver",
        ),
        (driver("zypper"), "sudo zypper --non-interactive install -y driver"),
        (driver("pacman"), "sudo pacman --noconfirm -S --needed driver"),
        (driver("dnf", sudo=False), "dnf install -y driver"),
    ],
)
def test_steps_of_the_machine_ask_nothing(action: Action, asks_nothing: str) -> None:
    assert (
        " ".join(argv(adapted(with_driver_step(action), Surroundings(), system=True).steps[0]))
        == asks_nothing
    )


def test_nothing_is_planned_beyond_a_restart(tmp_path: Path) -> None:
    plan = with_driver_step(driver())
    restart = Step("driver-2", Reboot(purpose="Restart."))
    cut = adapted(
        replace(plan, steps=(plan.steps[0], restart, *plan.steps[1:])), Surroundings(), system=True
    )
    assert [step.id for step in cut.steps] == ["driver", "restart"]
    assert argv(cut.steps[1]) == ()
    assert "sudo would ask" in "".join(
        said(tmp_path / "env", plan=cut, environment={**OFFLINE, "PATH": "/nowhere"})
    )
    assert (
        cut.steps[1].purpose
        == "Restart the machine (sudo reboot), then type the same command again."
    )


def test_what_only_a_person_can_do_comes_first() -> None:
    with pytest.raises(
        UserError, match=r"needs something first: Install the driver\. Do that as an administrator;"
    ):
        adapted(with_driver_step(AskPerson("", SYSTEM)), Surroundings(), system=True)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (
            UnsetVariable("CUDA_VISIBLE_DEVICES"),
            r"`unset CUDA_VISIBLE_DEVICES`\. Do that; --expect cpu",
        ),
        (
            SetVariables((("PATH", "/my cuda:$PATH"),)),
            r"""`export 'PATH=/my cuda:'"\$PATH"`\. Do that;""",
        ),
        (
            RunCommand(("docker", "run", "IMAGE"), scope=SYSTEM, by_person=True),
            r"`docker run IMAGE`\. Do that as an administrator; --expect cpu",
        ),
    ],
)
def test_what_a_shell_or_a_name_of_yours_is_needed_for_comes_first(
    action: Action, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        adapted(with_driver_step(action), Surroundings(), system=True)


def test_two_environments_are_two_installations() -> None:
    plan = jax()
    with pytest.raises(
        UserError, match=r"`envcheck install 'jax>=0.6'`, each with an --env of its own"
    ):
        adapted(
            replace(plan, environments=plan.environments * 2, requirements=("jax>=0.6",)),
            Surroundings(),
            system=False,
        )


def test_a_conda_environment_that_is_there_is_not_made_again() -> None:
    plan = planned("jax", on=machine("3.12"), expect="cpu", installer="conda", folder="env")
    first = adapted(
        plan, Surroundings(exists=True, programs=(("conda", "micromamba"),)), system=False
    ).steps[0]
    assert argv(first)[:4] == ("micromamba", "install", "-y", "-p")
    assert undo(first) == ()


def test_uv_is_told_what_pip_is_configured_with() -> None:
    configured = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "https://example.org/simple",
        "PIP_CERT": "/ca.pem",
        "PIP_FIND_LINKS": "/one /two",
        "PIP_TRUSTED_HOST": "example.org",
        "PIP_USER": "1",
        "PYTHONPATH": "/elsewhere",
    }
    found = step_variables(configured)
    assert found["UV_DEFAULT_INDEX"] == "https://example.org/simple"
    assert found["SSL_CERT_FILE"] == "/ca.pem"
    assert found["UV_FIND_LINKS"] == "/one,/two"
    assert found["UV_INSECURE_HOST"] == "example.org"
    assert "PIP_USER" not in found
    assert "PYTHONPATH" not in found
    assert "MAMBA_CHANNEL_ALIAS" not in found
    assert (
        step_variables({"CONDA_CHANNEL_ALIAS": "file:///srv"})["MAMBA_CHANNEL_ALIAS"]
        == "file:///srv"
    )
    assert step_variables({**configured, "UV_DEFAULT_INDEX": "mine"})["UV_DEFAULT_INDEX"] == "mine"
    more = {
        "PIP_EXTRA_INDEX_URL": "https://a.example https://b.example",
        "PIP_CONSTRAINT": "/c.txt",
    }
    handed = step_variables({**configured, **more})
    assert (handed["UV_EXTRA_INDEX_URL"], handed["UV_CONSTRAINT"]) == (
        more["PIP_EXTRA_INDEX_URL"],
        "/c.txt",
    )
    without = step_variables({**configured, "PIP_NO_INDEX": "1"})
    assert without["UV_OFFLINE"] == "1"
    assert without["UV_DEFAULT_INDEX"].endswith("/no-index")  # a folder that is not there
    assert (
        step_variables({**configured, "PIP_INDEX_URL": "file:///srv"})["UV_DEFAULT_INDEX"]
        == "file:///srv"
    )


def test_uv_is_told_what_stands_in_a_file_of_pip(tmp_path: Path) -> None:
    path = tmp_path / "pip.conf"
    configured = {"PIP_CONFIG_FILE": str(path), "HOME": str(tmp_path)}
    path.write_text(
        "[global]\nno-index = true\nfind-links =\n  /one\n  /two\nclient-cert = /me.pem\n"
    )
    found = step_variables(configured)
    assert (found["UV_FIND_LINKS"], found["UV_OFFLINE"], found["SSL_CLIENT_CERT"]) == (
        "/one,/two",
        "1",
        "/me.pem",
    )
    assert can_replace_pip(configured)
    assert page_to_reach(RequirementSet(("jax",)), configured).url == ""
    path.write_text("[global]\nindex-url = https://a.example/simple\nclient-cert = /me.pem\n")
    page = page_to_reach(RequirementSet(("jax",)), configured)
    assert "/me.pem" in page.client_certificate
    assert (
        find_connection_error(page.url, certificate="/nowhere/me.pem")
        == "[Errno 2] No such file or directory"
    )


def test_uv_is_told_what_stands_in_its_own_files(tmp_path: Path) -> None:
    project, user = tmp_path / "project", tmp_path / "config" / "uv"
    user.mkdir(parents=True)
    (project / "deep").mkdir(parents=True)
    configured = {"PIP_CONFIG_FILE": os.devnull, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    (project / "pyproject.toml").write_text("""
[[tool.uv.index]]
name = "corp"
url = "https://corp.example/simple"
[[tool.uv.index]]
url = "https://mirror.example/simple"
default = true
[[tool.uv.index]]
url = "https://only-where-named.example/simple"
explicit = true
[tool.uv]
constraint-dependencies = ["numpy<2", "six"]
[tool.uv.pip]
target = "/elsewhere"
extra-index-url = ["https://more.example/simple"]
""")
    (user / "uv.toml").write_text(
        'index-url = "https://users.example"\nextra-index-url = ["https://u.example"]\nnative-tls = true\n'
        'keyring-provider = "subprocess"\nallow-insecure-host = ["a.example", "b.example"]\n'
    )
    found = read_uv_variables(configured, project / "deep")
    assert read_uv_bounds(configured, project / "deep") == {"UV_CONSTRAINT": "numpy<2\nsix\n"}
    mine = read_uv_variables({"UV_CONFIG_FILE": str(user / "uv.toml")}, project / "deep")
    assert read_uv_variables({"UV_NO_CONFIG": "1"}, project) == {}
    assert found == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INDEX": "corp=https://corp.example/simple https://more.example/simple https://u.example",
        "UV_KEYRING_PROVIDER": "subprocess",
        "UV_INSECURE_HOST": "a.example b.example",
        "UV_NATIVE_TLS": "1",
    }
    assert (mine["UV_DEFAULT_INDEX"], mine["UV_INDEX"]) == (
        "https://users.example",
        "https://u.example",
    )


@pytest.mark.parametrize("text", ["[pip", '[[index]]\nname = "corp"\n'])
def test_a_broken_file_of_uv_is_left_to_uv(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uv.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    configured = {"PIP_CONFIG_FILE": os.devnull}
    assert not can_replace_pip(configured)
    assert "UV_NO_CONFIG" not in step_variables(configured)


def test_uv_does_not_stand_in_for_pip_where_nothing_can_be_told_it(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("no section\n")
    configured = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "HOME": str(tmp_path)}
    assert not can_replace_pip(configured)
    assert step_variables(configured)["PIP_CONFIG_FILE"]


def test_room_for_what_pip_fetches_where_that_is_another_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    monkeypatch.setattr(
        preflight, "get_free_bytes", lambda folder: (1 << 20) if folder == str(small) else 1 << 40
    )
    elsewhere = {**OFFLINE, "TMPDIR": str(small)}
    assert said(tmp_path / "env", environment=elsewhere) == []  # one disk: it was counted
    real = Path.stat

    def stat(path: Path, **how: bool) -> os.stat_result:
        found = real(path, **how)
        return (
            os.stat_result((*found[:2], found.st_dev + 1, *found[3:10])) if path == small else found
        )

    monkeypatch.setattr(Path, "stat", stat)
    (why,) = said(tmp_path / "env", environment=elsewhere)
    assert (
        f"into {small}, which has space for 0.0 GiB; the wheels take about 0.1 GiB: set TMPDIR"
        in why
    )
    assert "TMPDIR" not in "".join(said(tmp_path / "env", plan=jax("uv"), environment=elsewhere))


def test_the_usual_index_is_the_one_that_pip_names() -> None:
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    assert find_default_index() == PYPI_SIMPLE_ENDPOINT.rstrip("/")


def test_without_pip_the_wheel_of_ensurepip_names_the_usual_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = find_default_index()
    monkeypatch.setitem(sys.modules, "pip", None)
    assert find_default_index() == usual
    monkeypatch.setattr(pip_settings, "_list_bundled_pips", lambda: iter(()))
    assert find_default_index() == ""

"""Secrets that are planted wherever the program reads come out nowhere: no output names them, nor who works here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.cli.report import FORMATS

pytestmark = pytest.mark.needs("posix")
USER = "zeldaquux"
SECRET = "planted-secret"  # followed by where it was planted
PYTHONS = f"python{sys.version_info[0]}.{sys.version_info[1]}"
URL = f"https://{USER}:{SECRET}-%s@packages.example/simple?key={SECRET}-%s-query"


def url(where: str) -> str:
    return URL.replace("%s", where)


def log(home: Path) -> str:
    missing = "libcudnn.so.8: cannot open shared object file: No such file or directory"
    return f"""
{USER}@annas-laptop:~$ HF_TOKEN={SECRET}-1234 python {home}/train.py --password {SECRET}-argument
Looking in indexes: {url("log")}, https://conda.example/t/{SECRET}-log-channel/nvidia
Authorization: Bearer {SECRET}-bearer
  File "{home}/train.py", line 1, in <module>
ImportError: {home}/lib/torch/_C.so with api_key={SECRET}-0: {missing}
ERROR: Could not find a version that satisfies the requirement torch==9.9 (from {url("log")}) (from versions: none)
"""


DOCKERFILE = f"""FROM nvidia/cuda:12.4.1-base-ubuntu22.04
ENV HF_TOKEN={SECRET}-env
ARG INDEX={url("arg")}
RUN apt-get update && apt-get install -y python3-pip
RUN pip3 install --index-url $INDEX --extra-index-url {url("extra")} 'tensorflow==2.3.0' && echo {SECRET}-echo > /key
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plant secrets in a home folder with a virtual environment and all the configuration that is read."""
    home = tmp_path_factory.mktemp("home") / USER
    venv = home / "project" / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = venv / "lib" / PYTHONS / "site-packages"
    files = {
        ".config/pip/pip.conf": f"[global]\nindex-url = {url('pip.conf')}\nextra-index-url = {url('extra')}\n"
        f"trusted-host = {SECRET}-host\nproxy = {url('proxy')}\n",
        ".config/uv/uv.toml": f'[[index]]\nurl = "{url("uv.toml")}"\n',
        ".condarc": f"channels:\n  - https://conda.example/t/{SECRET}-channel/nvidia\n  - {url('conda')}\n",
        ".netrc": f"machine packages.example login {USER} password {SECRET}-netrc\n",
        ".ssh/id_ed25519": f"{SECRET}-key\n",
        "project/pyproject.toml": f'[project]\nname = "x"\nversion = "1"\n[[tool.uv.index]]\nurl = "{url("project")}"\n'
        '[tool.envcheck]\nrequires = ["torch>=2.6"]\n',
        "project/requirements.txt": f"--index-url {url('requirements')}\ntensorflow==2.3.0\n",
    }
    for name, version in (
        ("torch", "2.6.0+cu124"),
        ("numpy", "2.3.0"),
        ("nvidia-cudnn-cu12", "8.9.7.29"),
    ):
        folder = f"{name.replace('-', '_')}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nAuthor-email: {USER}@mail.example\n"
        archive = {"url": url(f"{name}-url") + f"/{name}.whl", "archive_info": {}}
        inside = f"{site.relative_to(home)}/{folder}"
        files[f"{inside}/METADATA"] = metadata
        files[f"{inside}/direct_url.json"] = json.dumps(archive)
        files[f"{inside}/RECORD"] = f"{name}/__init__.py,,\n{folder}/METADATA,,\n"
    files[f"{site.relative_to(home)}/zelda.pth"] = (
        f"{home}/sources\nimport os; os.environ['KEY'] = '{SECRET}-pth'\n"
    )
    files[f"{site.relative_to(home)}/torch/__init__.py"] = "raise ImportError\n"
    files[f"{site.relative_to(home)}/torch/version.py"] = (
        "__version__ = '2.6.0+cu124'\ncuda = '12.4'\n"
    )
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    (home / "sources").mkdir()
    return home


def variables(home: Path) -> dict[str, str]:
    names = "HF_TOKEN AWS_SECRET_ACCESS_KEY CUDA_API_KEY TF_PASSWORD NVIDIA_TOKEN CONDA_TOKEN XLA_SECRET WANDB_API_KEY"
    return {
        **{name: f"{SECRET}-{name}" for name in names.split()},
        "HOME": str(home),
        "USER": USER,
        "LOGNAME": USER,
        "HOSTNAME": "annas-laptop",
        "SSH_AUTH_SOCK": f"/tmp/{SECRET}-agent",
        "SSH_CONNECTION": "198.51.100.7 50000 198.51.100.8 22",
        "PIP_INDEX_URL": url("PIP_INDEX_URL"),
        "PIP_FIND_LINKS": f"{home}/wheels {url('find-links')}",
        "UV_INDEX_URL": url("UV_INDEX_URL"),
        "HTTPS_PROXY": f"http://{USER}:{SECRET}-proxy@proxy.example:3128",
        "LD_LIBRARY_PATH": f"{home}/lib:/scratch/{USER}/lib",
        "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={home}/cuda",
        "PYTHONPATH": f"{home}/modules",
    }


def leaks(text: str, *names: str) -> Iterator[str]:
    """Yield what stands around each secret, and around `names`."""
    for word in (SECRET, "198.51.100", "annas-laptop", *names):
        yield from re.findall(f".{{0,60}}{re.escape(word)}.{{0,60}}", text)


def test_no_output_names_a_secret(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home / "project")
    for name, value in variables(home).items():
        monkeypatch.setenv(name, value)
    logged, built, page = (tmp_path / name for name in ("log", "Dockerfile", "page.html"))
    logged.write_text(log(home), encoding="utf-8")
    built.write_text(DOCKERFILE, encoding="utf-8")
    (tmp_path / "machines").mkdir()
    machine = str(tmp_path / "machines" / "gpu001.json")
    documents = [
        ("snapshot", "-o", machine),
        *(("doctor", "--snapshot", machine, "--format", form) for form in FORMATS),
        ("doctor", "-v"),
        ("check", "--format", "json"),
        ("check", "--dockerfile", str(built), "-v"),
        ("check", "--dockerfile", str(built), "--format", "sarif"),
        ("check", "--dockerfile", "requirements.txt", "--format", "json"),
        ("explain", str(logged), "--format", "json"),
        ("plan", "torch", "--format", "json"),
        ("diff", machine, machine, "-v"),
        ("fleet", "report", str(tmp_path / "machines"), "--html", str(page)),
        ("gpus", "--format", "json"),
    ]
    # On a terminal, quoted lines and commands may name the home folder of who reads them.
    shown = [("explain", str(logged), "-v", "--here"), ("plan", "torch", "-v")]
    said = {}
    for arguments in (*documents, *shown):
        assert run([*arguments]) in range(5), arguments
        printed = capsys.readouterr()
        said[arguments] = printed.out + printed.err
    said["files",] = Path(machine).read_text(encoding="utf-8") + page.read_text(encoding="utf-8")
    found = [
        (*arguments, *leaks(text, *([] if arguments in shown else [USER])))
        for arguments, text in said.items()
    ]
    assert [item for item, arguments in zip(found, said, strict=True) if item != arguments] == []

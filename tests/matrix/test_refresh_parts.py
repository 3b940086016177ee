"""The parts of a refresh: names, pip's configuration, metadata, Python files, curated facts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pypi_simple import ProjectPage

from envcheck.host.pip_settings import IndexSettings, SettingsError, read_pip_settings
from envcheck.matrix.refresh.index import (
    ArtifactError,
    _make_wheel,
    build_request_options,
    describe_error,
    glibc_of,
    is_version,
    parse_platform,
    parse_wheel,
    reject_downgrade,
)
from envcheck.matrix.refresh.refresh import extract_curated, find_curated
from envcheck.matrix.refresh.rows import sentences
from envcheck.matrix.refresh.wheel_contents import (
    columns,
    holds,
    lower_bound,
    parse_constants,
    parse_requirements,
)
from envcheck.model.text import remove_url_secrets
from tests.matrix.documents import changed_copy, describe_changes, document


@pytest.mark.parametrize(
    "name",
    [
        "tensorflow-2.16.0rc0-cp311-cp311-win_amd64.whl",
        "torch-2.1.0+cu118-cp311-cp311-linux_x86_64.whl",
        "jax-0.4.1.dev20230101-py3-none-any.whl",
        "jax-0.4.1.tar.gz",
        "nonsense.whl",
    ],
)
def test_only_final_public_wheels_count(name: str) -> None:
    assert parse_wheel(name) is None


def listed(filename: str, url: str) -> Any:
    """Return a line of a page as the library reads it."""
    file = {"filename": filename, "url": url, "hashes": {"sha256": "0" * 64}}
    page = {"meta": {"api-version": "1.0"}, "name": "jax", "files": [file]}
    return ProjectPage.from_json_data(page, "https://index.example/simple/jax/").packages[0]


def test_a_page_that_links_to_http_is_refused() -> None:
    wheel = "jax-0.5.0-py3-none-any.whl"
    safe, page = "https://index.example/files/", "https://index.example/simple/jax/"
    found = _make_wheel(listed(wheel, safe + wheel), page, "jax")
    assert found is not None
    assert found.filename == wheel
    with pytest.raises(ArtifactError, match=rf"links to http for {wheel}; refused"):
        _make_wheel(listed(wheel, f"http://index.example/files/{wheel}"), page, "jax")
    for other in ("jaxlib-0.5.0-py3-none-any.whl", "jax-0.5.0.tar.gz"):
        assert _make_wheel(listed(other, safe + other), page, "jax") is None


@pytest.mark.parametrize(
    ("tag", "platform"),
    [
        ("manylinux_2_17_x86_64", "linux_x86_64"),
        ("linux_x86_64", "linux_x86_64"),
        ("manylinux2014_aarch64", "linux_aarch64"),
        ("macosx_12_0_arm64", "macosx_arm64"),
        ("macosx_11_0_universal2", "macosx_arm64"),
        ("macosx_10_9_x86_64", "macosx_x86_64"),
        ("win_amd64", "win_amd64"),
        ("any", "any"),
        ("manylinux2014_ppc64le", ""),
        ("win32", ""),
    ],
)
def test_platforms(tag: str, platform: str) -> None:
    assert parse_platform(tag) == platform


def test_glibc_of_tags() -> None:
    assert glibc_of(["manylinux_2_28_x86_64", "manylinux2014_x86_64"]) == "2.17"
    assert glibc_of(["manylinux1_x86_64"]) is None
    assert glibc_of(["manylinux_2_5_x86_64", "linux_x86_64"]) is None


def test_versions() -> None:
    assert is_version("2.15")
    assert not is_version("newest")


# -- pip's configuration --


def configured(tmp_path: Path, text: str = "", **environment: str) -> IndexSettings:
    file = tmp_path / "pip.conf"
    file.write_text(text, encoding="utf-8")
    home = {
        "HOME": str(tmp_path / "home"),
        "PIP_CONFIG_FILE": str(file),
        "VIRTUAL_ENV": str(tmp_path / "venv"),
    }
    return read_pip_settings({**home, **environment})


def test_the_index_pip_is_configured_for(tmp_path: Path) -> None:
    text = (
        "[global]\nindex-url = https://mirror.example/simple\nextra-index-url = https://other.example/simple\n"
        "cert = /etc/ssl/our.pem\nclient_cert = /etc/ssl/me.pem\nproxy = http://proxy.example:3128\n"
        "trusted-host = mirror.example\n  files.example:8443\n[install]\nindex-url = https://install.example/simple\n"
    )
    assert configured(tmp_path, text) == IndexSettings(
        url="https://install.example/simple",
        ca_file="/etc/ssl/our.pem",
        client_certificate="/etc/ssl/me.pem",
        proxy="http://proxy.example:3128",
        trusted_hosts=("mirror.example", "files.example:8443"),
    )


def test_the_environment_overrides_the_files(tmp_path: Path) -> None:
    text = "[global]\nindex-url = https://mirror.example/simple\n"
    text += "cert = /file.pem\n"
    found = configured(tmp_path, text, PIP_INDEX_URL="https://env.example/simple", PIP_CERT="")
    # empty counts as not set
    assert (found.url, found.ca_file) == ("https://env.example/simple", "/file.pem")


def test_the_users_own_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "home" / ".pip" / "pip.conf"
    file.parent.mkdir(parents=True)
    file.write_text("[global]\ncert = /home.pem\n", encoding="utf-8")
    venv = tmp_path / "venv" / "pip.conf"
    venv.parent.mkdir()
    venv.write_text("[global]\nproxy = http://venv.example\n", encoding="utf-8")
    found = configured(tmp_path)
    assert (found.ca_file, found.proxy) == ("/home.pem", "http://venv.example")


def test_no_configuration_at_all() -> None:
    assert read_pip_settings({"PIP_CONFIG_FILE": os.devnull}) == IndexSettings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("index-url = https://mirror.example\n", "cannot be read"),
        ("[global]\nindex-url = file:///srv/simple\n", "only http and https"),
        ("[global]\nno-index = true\n", "use no index"),
    ],
)
def test_configurations_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        configured(tmp_path, text)


def test_certificates_and_trusted_hosts() -> None:
    settings = IndexSettings(
        ca_file="/our.pem", trusted_hosts=("open.example", "half.example:8443")
    )
    assert build_request_options(settings, "https://mirror.example/x")["verify"] == "/our.pem"
    assert build_request_options(settings, "https://open.example/x")["verify"] is False
    assert build_request_options(settings, "https://half.example:8443/x")["verify"] is False
    assert "verify" not in build_request_options(IndexSettings(), "https://mirror.example/x")


def test_proxy_and_client_certificate_reach_the_session(tmp_path: Path) -> None:
    from envcheck.matrix.refresh.index import open_session

    own = tmp_path / "me.pem"
    own.touch()
    session = open_session(IndexSettings(proxy="http://proxy.example", client_certificate=str(own)))
    assert session.proxies["https"] == "http://proxy.example"
    assert session.cert == str(own)


def test_messages_hold_no_credentials() -> None:
    assert (
        remove_url_secrets("https://me:secret@mirror.example:8443/simple/?token=x")
        == "https://mirror.example:8443/simple/"
    )


def test_a_redirect_from_https_to_http_is_refused() -> None:
    import requests

    first, last = requests.Response(), requests.Response()
    first.url, last.url, last.history = (
        "https://mirror.example/simple/",
        "http://mirror.example/simple/",
        [first],
    )
    with pytest.raises(ArtifactError, match="from https to http"):
        reject_downgrade(last)


def test_every_error_is_described() -> None:
    from requests import exceptions

    assert describe_error(exceptions.SSLError("x")) == "the certificate could not be verified"
    assert describe_error(exceptions.ProxyError("x")) == "the proxy could not be used"
    assert (
        describe_error(exceptions.ConnectionError("HTTPSConnectionPool: Read timed out."))
        == "the request timed out"
    )
    assert (
        describe_error(exceptions.ChunkedEncodingError("x"))
        == "the response is incomplete or malformed"
    )


# -- metadata and Python texts --


def test_requirements_in_old_and_new_spelling() -> None:
    lines = (
        "Requires-Dist: numpy (<2.0,>=1.16.0)\n"
        "Requires-Dist: protobuf>=3.20 ; python_version < '3.10'\n"
        "Requires-Dist: six (>=1.10) ; extra == 'old'\n"
        "Requires-Dist: %%% \n"
    )
    found = parse_requirements(lines)
    assert [item.name for item in found] == ["numpy", "protobuf", "six"]
    assert not holds(found[1], "linux_x86_64", "3.11")
    assert holds(found[2], "linux_x86_64", "3.11", "old")
    assert lower_bound(found[0]) == "1.16.0"
    assert columns(found, "linux_x86_64", ["3.9", "3.11"]) == (
        {"numpy": ">=1.16.0,<2.0", "protobuf": ">=3.20"},
        [],
    )


def test_ranges_that_change_with_the_python_are_noted() -> None:
    lines = "Requires-Dist: numpy>=1.23; python_version<='3.11'\nRequires-Dist: numpy>=1.26; python_version>='3.12'\n"
    found, notes = columns(parse_requirements(lines), "win_amd64", ["3.11", "3.12"])
    assert (found, notes) == ({"numpy": ">=1.23"}, ["numpy>=1.26 from Python 3.12 on."])


def test_python_texts_are_parsed_not_run() -> None:
    text = (
        "import os\nos.abort()\ncuda: Optional[str] = None\nversion = '2.0' + os.sep\nx.y = 3\nflag: bool\n"
        "build_info = collections.OrderedDict([('cuda_version', '12.5.1')])\n"
        "table = dict(a=1, b=[2])\nempty = dict()\n"
    )
    assert parse_constants(text) == {
        "cuda": None,
        "cuda_version": "12.5.1",
        "table": {"a": 1, "b": [2]},
        "empty": {},
    }
    with pytest.raises(ArtifactError):
        parse_constants("(" * 500)


def test_sentences_of_a_note() -> None:
    assert sentences("Needs glibc 2.17. numpy>=1.26 from Python 3.12 on.") == [
        "Needs glibc 2.17.",
        "numpy>=1.26 from Python 3.12 on.",
    ]
    assert sentences("") == []


# -- what people found out --


def test_every_cell_beyond_tier_1_survives_a_renewal() -> None:
    """A row that a user's older file lacks gets from the built-in matrix what no wheel states."""
    for framework, versions in document()["releases"].items():
        for version, rows in versions.items():
            for row in rows:
                part = extract_curated(row, document()["citations"])
                assert (
                    find_curated(framework, row["distribution"], row["platform"], version) == part
                )


def test_changes_are_listed_by_cell() -> None:
    new = changed_copy()
    rows = new["releases"]["torch"]["2.15.0"]
    gone, row = rows.pop(), rows[0]
    row.update(requires={}, glibc=None, tags=[])
    told = describe_changes(document(), new)
    label = f"{row['distribution']} 2.15.0 on {row['platform']}"
    assert f"- {gone['distribution']} 2.15.0 on {gone['platform']}" in told
    assert f"  {label}: requires none" not in told
    assert any(line.startswith(f"  {label}: tags ") and line.endswith("-> none") for line in told)
    row["proof"] = {"*": "tier1"}
    known = document()["releases"]["torch"]["2.15.0"][0]["proof"]
    told = describe_changes(document(), new)
    assert {
        f"  {label}: proof of {cell} {known[cell]} -> none" for cell in known if cell != "*"
    } <= {*told}

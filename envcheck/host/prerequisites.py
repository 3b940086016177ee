"""Find the programs, Pythons and servers that an installation needs."""

from __future__ import annotations

import glob
import http.client
import os
import shutil
import ssl
import sys
import urllib.error
import urllib.request
from typing import Iterator, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit, urlunsplit

from envcheck.host.process import run_program
from envcheck.model import Known


def find_installed_program(name: str) -> Optional[str]:
    """Return the path of a program beside this Python (the scripts of its packages), else of the one on PATH."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), name)
    return beside if os.access(beside, os.X_OK) else shutil.which(name)


_TIMEOUT = 20.0  # seconds; a Python on a slow network drive starts within them
_PRINT_VERSION = "import sys, venv; print('%d.%d' % sys.version_info[:2])"


def find_program(name: str, environment: Mapping[str, str]) -> str:
    """Return the path of a program on PATH, "" without one."""
    return shutil.which(name, path=environment.get("PATH", os.defpath)) or ""


def find_python(minor: str, environment: Mapping[str, str]) -> str:
    """Find a working Python of a minor version on PATH or among pyenv's; "" without one."""
    candidates = _list_candidate_pythons(minor, environment)
    return next((path for path in candidates if is_working_python(path, minor, environment)), "")


def is_working_python(path: str, minor: str, environment: Mapping[str, str]) -> bool:
    """Tell whether an interpreter starts, has a minor version, and can create environments."""
    return _run((path, "-I", "-c", _PRINT_VERSION), environment) == minor


def has_output(argv: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Tell whether a program exits with status 0 and prints something."""
    return bool(_run(argv, environment))


def _run(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the output of a program, "" unless it exits with status 0."""
    answer = run_program(argv, _TIMEOUT, environment)
    return answer.value.stdout.strip() if isinstance(answer, Known) and answer.value.returncode == 0 else ""


def _list_candidate_pythons(minor: str, environment: Mapping[str, str]) -> Iterator[str]:
    yield from filter(None, (find_program(name, environment) for name in (f"python{minor}", "python3", "python")))
    root = environment.get("PYENV_ROOT") or os.path.join(os.path.expanduser("~"), ".pyenv")
    yield from sorted(glob.glob(os.path.join(root, "versions", f"{minor}.*", "bin", "python")), reverse=True)


def find_connection_error(
    url: str,
    ca_file: str = "",
    proxy: str = "",
    trusted: Tuple[str, ...] = (),
    *,
    certificate: str = "",
    timeout: float = 10.0,
) -> str:
    """Return why a server does not answer, "" where it does: a refusal is an answer, its own failure is not."""
    if ca_file and not os.path.isfile(ca_file):
        return f"the file of CA certificates {ca_file} does not exist"
    handlers: List[urllib.request.BaseHandler] = []
    handlers += [urllib.request.ProxyHandler({"http": proxy, "https": proxy})] if proxy else []
    headers = {"User-Agent": "envcheck"}
    try:
        request = urllib.request.Request(_remove_credentials(url), method="HEAD", headers=headers)  # noqa: S310
        handlers.append(urllib.request.HTTPSHandler(context=_make_ssl_context(url, ca_file, trusted, certificate)))
        urllib.request.build_opener(*handlers).open(request, timeout=timeout).close()
    except urllib.error.HTTPError as error:
        failed = error.code >= 500 and error.code != http.client.NOT_IMPLEMENTED  # a small index does not support HEAD
        return f"HTTP status {error.code}" if failed else ""
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _remove_credentials(url: str) -> str:
    """Remove name and password, which urllib takes for part of the host: "refused" is answer enough."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _make_ssl_context(url: str, ca_file: str, trusted: Tuple[str, ...], certificate: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file or None)
    if certificate:
        context.load_cert_chain(certificate)
    if urlsplit(url).hostname in trusted:  # pip's option trusted-host
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

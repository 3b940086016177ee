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
from typing import Iterator, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit, urlunsplit

from envcheck.host.process import run_program
from envcheck.model import Known


def find_installed_program(name: str) -> Optional[str]:
    """Return the path of a program beside this Python, where a dependency's scripts lie, else of the one on PATH."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), name)
    return beside if os.access(beside, os.X_OK) else shutil.which(name)


_TIMEOUT = 20.0  # seconds; a Python on a slow network drive starts within them
_SAYS = "import sys, venv; print('%d.%d' % sys.version_info[:2])"


def find_program(name: str, environment: Mapping[str, str]) -> str:
    """Return a program's path on PATH; "" where it is not there."""
    return shutil.which(name, path=environment.get("PATH", os.defpath)) or ""


def find_python(minor: str, environment: Mapping[str, str]) -> str:
    """Find a Python of a minor version that starts and makes environments: on PATH, or as pyenv keeps it; else ""."""
    return next(
        (path for path in _list_candidate_pythons(minor, environment) if is_working_python(path, minor, environment)),
        "",
    )


def is_working_python(path: str, minor: str, environment: Mapping[str, str]) -> bool:
    """Tell whether an interpreter starts, is of a minor version, and can make environments."""
    answer = run_program((path, "-I", "-c", _SAYS), _TIMEOUT, environment)
    return isinstance(answer, Known) and answer.value.returncode == 0 and answer.value.stdout.strip() == minor


def has_output(argv: "tuple[str, ...]", environment: Mapping[str, str]) -> bool:
    """Tell whether a program ends with status 0 and says something."""
    answer = run_program(argv, _TIMEOUT, environment)
    return isinstance(answer, Known) and answer.value.returncode == 0 and bool(answer.value.stdout.strip())


def _list_candidate_pythons(minor: str, environment: Mapping[str, str]) -> Iterator[str]:
    for name in (f"python{minor}", "python3", "python"):
        found = find_program(name, environment)
        if found:
            yield found
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
    """Say why a server gives no answer, or "": any answer but its own failure will do, a refusal too."""
    if ca_file and not os.path.isfile(ca_file):
        return f"the certificates that it is to be checked by, {ca_file}, are not there"
    handlers: List[urllib.request.BaseHandler] = []
    handlers += [urllib.request.ProxyHandler({"http": proxy, "https": proxy})] if proxy else []
    try:
        request = urllib.request.Request(_remove_credentials(url), method="HEAD", headers={"User-Agent": "envcheck"})  # noqa: S310
        handlers.append(urllib.request.HTTPSHandler(context=_make_ssl_context(url, ca_file, trusted, certificate)))
        urllib.request.build_opener(*handlers).open(request, timeout=timeout).close()
    except urllib.error.HTTPError as error:
        failed = error.code >= 500 and error.code != http.client.NOT_IMPLEMENTED  # a small index knows no HEAD
        return f"it answers {error.code}" if failed else ""
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _remove_credentials(url: str) -> str:
    """Take name and password out of an address, which urllib would take for the host: that it is refused will do."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _make_ssl_context(url: str, ca_file: str, trusted: Tuple[str, ...], certificate: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file or None)
    if certificate:
        context.load_cert_chain(certificate)
    if urlsplit(url).hostname in trusted:  # as pip is told
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context

"""Describe an interpreter and its packages as one JSON object on standard output.

Runs in the inspected Python, 3.6 or later; 2.7 must parse it. Importing `json` takes as long as the
interpreter start.
"""

import io
import os
import sys

try:
    from _json import encode_basestring_ascii as quote
except ImportError:  # not CPython
    from json.encoder import encode_basestring_ascii as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Tuple  # noqa: F401 - for the type comments

LIMIT = 5000  # distributions
# What CPython compiles, and its own library imports without a replacement.
_COMPILED = (
    "_bz2 _contextvars _csv _ctypes _lzma _multiprocessing _posixsubprocess _random _socket"
    " _sqlite3 _ssl _struct array binascii fcntl math mmap pyexpat select unicodedata zlib"
)
_SHARES = "include-system-site-packages"  # pyvenv.cfg
_READ_LIMIT = 1 << 18  # bytes of a file; a longer RECORD does not give all modules


def describe(environ, without_packages="", prefix=""):
    # type: (Mapping[str, str], str, str) -> Dict[str, Any]
    """Describe the running interpreter as after a normal start, with its packages or without.

    With a prefix, describe the environment there from its files: nothing of it is run.
    """
    if sys.version_info[0] < 3:
        version = ".".join(str(part) for part in sys.version_info[:3])
        return {"executable": sys.executable, "version": version, "implementation": "cpython"}
    about = read_environment(prefix) if prefix else describe_this()
    base, venv, config, library = (about.pop(key) for key in ("base", "venv", "config", "library"))
    conda = os.path.isdir(os.path.join(base, "conda-meta"))
    user = find_user_site(environ, library)
    enabled = is_user_site_enabled(environ, config)
    place = (venv, base, library)
    folders = [] if without_packages else list_site_folders(environ, place, config, user * enabled)
    found = read_distributions(folders)
    system = "conda" if conda else "system"
    about.update(
        {
            "prefix": venv or base,
            "base_prefix": base,
            "kind": "venv" if venv else system,
            "base_is_conda": conda,
            "user_site": user,
            "user_site_enabled": enabled,
            "folders": [{"path": path, "scope": scope} for path, scope in folders],
            "distributions": found[:LIMIT],
            "unowned": list_unowned(folders, found)[:LIMIT],
            "front": find_front(folders),
            "replaced": find_replaced(folders),
            "other_libraries": list_other_libraries(venv, library),
            "compiled": {} if prefix else find_compiled(),
            "truncated": len(found) > LIMIT,
        }
    )
    return about


def describe_this():  # type: () -> Dict[str, Any]
    """Describe the running interpreter."""
    machine = get_machine()
    venv, config = find_venv(sys.executable)
    managed = os.path.join(os.path.dirname(os.__file__), "EXTERNALLY-MANAGED")
    platform = "linux-" + machine
    if sys.platform != "linux":
        platform = __import__("sysconfig").get_platform()
    return {
        "executable": sys.executable or "",
        "version": ".".join(str(part) for part in sys.version_info[:3]),
        "implementation": sys.implementation.name,
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "machine": "i686" if machine == "x86_64" and sys.maxsize < 2**32 else machine,
        "platform": platform,
        "abi": get_abi_tag(),
        "externally_managed": not venv and os.path.isfile(managed),
        "base": sys.base_prefix,
        "venv": venv,
        "config": config,
        "library": get_library_name(),
    }


def find_compiled():  # type: () -> Dict[str, str]
    """Map this Python's own compiled modules to their files, "" for one that is missing."""
    if sys.platform != "linux" or sys.implementation.name != "cpython":
        return {}
    found = {}
    names = _COMPILED.split()
    if sys.version_info < (3, 7):
        names.remove("_contextvars")
    for name in names:
        specs = [each.find_spec(name, None) for each in sys.meta_path]
        found[name] = ([str(each.origin) for each in specs if each is not None] + [""])[0]
    return {name: path for name, path in found.items() if path not in ("built-in", "frozen")}


def list_other_libraries(venv, library):  # type: (str, str) -> List[str]
    """List the folders in which another Python's packages lie where this one has none."""
    places = {
        name: list_names(os.path.join(venv, "lib", name, "site-packages"))
        for name in (list_names(os.path.join(venv, "lib")) if venv else [])
    }
    if any(name.endswith(".dist-info") for name in places.get(library, [])):
        return []
    return [name for name in places if any(each.endswith(".dist-info") for each in places[name])]


def get_machine():  # type: () -> str
    """Return the architecture of this machine."""
    if hasattr(os, "uname"):
        return os.uname()[4]
    return os.environ.get("PROCESSOR_ARCHITECTURE", "")


_ELF_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64", 0x15: "ppc64le", 0x03: "i686"}


def read_environment(prefix):  # type: (str) -> Dict[str, Any]
    """Describe an environment from its files.

    pyvenv.cfg, conda-meta, the names in lib, the head of its Python.
    """
    windows = os.name == "nt"
    is_venv = os.path.isfile(os.path.join(prefix, "pyvenv.cfg"))
    config = read_config(prefix) if is_venv else {_SHARES: "true"}
    home = config.get("home", "")
    base = prefix
    if home:
        base = home if windows else os.path.dirname(home.rstrip("/"))
    names = [name for name in list_names(os.path.join(prefix, "lib")) if "." in name]
    libraries = [name for name in names if name.startswith(("python", "pypy"))]
    stated = config.get("version") or config.get("version_info") or find_conda_version(prefix)
    library = libraries[-1] if libraries else "python" + ".".join(stated.split(".")[:2])
    for name in libraries:  # more than one may lie there: the stated version decides
        if stated and name.rstrip("t").endswith("n" + ".".join(stated.split(".")[:2])):
            library = name
    version = ".".join(stated.split("+")[0].split(".")[:3]) or library.rstrip("t").replace(
        "python", ""
    ).replace("pypy", "")
    major, minor = (version.split(".") + ["0"])[:2]
    pypy, threaded = library.startswith("pypy"), library.endswith("t")
    paths = ("Scripts/python.exe", "python.exe") if windows else ("bin/python", "bin/python3")
    places = [os.path.join(prefix, path) for path in paths]
    executable = ([path for path in places if os.path.exists(path)] + places)[0]
    bits, machine = read_elf_head(executable)
    old = "m" if not pypy and (int(major), int(minor)) < (3, 8) else ""
    return {
        "is_found": True,
        "executable": executable,
        "version": version,
        "implementation": "pypy" if pypy else "cpython",
        "bits": bits,
        "machine": machine,
        "platform": "win-amd64" if windows else "linux-" + machine,
        # PyPy has kept its ABI pp73 since 7.3
        "abi": ("pypy%s%s_pp73" if pypy else "cp%s%s") % (major, minor) + old + "t" * threaded,
        "externally_managed": False,
        "base": base,
        "venv": prefix if is_venv else "",
        "config": config,
        "library": library,
    }


def find_conda_version(prefix):  # type: (str) -> str
    """Return the version of an environment's Python by conda's record: python-3.11.7-h1_0.json."""
    names = [name.split("-") for name in list_names(os.path.join(prefix, "conda-meta"))]
    return ([name[1] for name in names if name[0] == "python" and len(name) > 2] + [""])[0]


def read_elf_head(path):  # type: (str) -> Tuple[int, str]
    """Return bits and architecture of a program; those of this machine where it is no ELF file."""
    try:
        with io.open(path if os.path.isfile(path) else os.devnull, "rb") as stream:
            head = stream.read(20)
    except OSError:
        head = b""
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return 64, get_machine()
    code = head[18] | head[19] << 8 if head[5] == 1 else head[19] | head[18] << 8
    return 32 if head[4] == 1 else 64, _ELF_MACHINES.get(code, get_machine())


def get_abi_tag():  # type: () -> str
    """Return the ABI part of this interpreter's wheel tag: cp311, cp313t, pypy310_pp73."""
    major, minor = sys.version_info[:2]
    if sys.implementation.name == "pypy":
        return "pypy%d%d_pp%d%d" % ((major, minor) + sys.pypy_version_info[:2])  # type: ignore[attr-defined]
    flags = getattr(sys, "abiflags", "t" if "free-threading" in sys.version else "")
    return "cp%d%d%s" % (major, minor, flags)


def find_venv(executable):  # type: (str) -> Tuple[str, Dict[str, str]]
    """Find the virtual environment of an interpreter and its pyvenv.cfg.

    No venv is like one that shares everything.
    """
    folder = os.path.dirname(os.path.abspath(executable or sys.prefix))
    for path in (folder, os.path.dirname(folder)):
        if os.path.isfile(os.path.join(path, "pyvenv.cfg")):
            return path, read_config(path)
    return "", {_SHARES: "true"}


def read_config(prefix):  # type: (str) -> Dict[str, str]
    r"""Read the pyvenv.cfg of an environment.

    Sample: 'home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.7\n'
    """
    lines = read_text(os.path.join(prefix, "pyvenv.cfg")).splitlines()
    pairs = [line.partition("=") for line in lines]
    config = {key.strip().lower(): value.strip() for key, _, value in pairs}
    config[_SHARES] = config.get(_SHARES, "").lower()
    return config


def is_user_site_enabled(environ, config):  # type: (Mapping[str, str], Mapping[str, str]) -> bool
    """Return whether a normal start imports from the user's site-packages (-I does not)."""
    if environ.get("PYTHONNOUSERSITE") or config.get(_SHARES) != "true":
        return False
    return not hasattr(os, "geteuid") or (
        os.geteuid() == os.getuid() and os.getegid() == os.getgid()
    )


def find_user_site(environ, library):  # type: (Mapping[str, str], str) -> str
    """Return the user's site-packages folder, which may not exist."""
    base = environ.get("PYTHONUSERBASE", "")
    home = environ.get("HOME") or os.path.expanduser("~")
    if os.name == "nt":
        base = base or os.path.join(environ.get("APPDATA", home), "Python")
        return os.path.join(base, "Python%d%d" % sys.version_info[:2], "site-packages")
    if getattr(sys, "_framework", ""):
        base = base or os.path.join(home, "Library", "Python", "%d.%d" % sys.version_info[:2])
        return os.path.join(base, "lib", "python", "site-packages")
    return os.path.join(base or os.path.join(home, ".local"), "lib", library, "site-packages")


def get_library_name():  # type: () -> str
    """Return the name of the folder under lib: python3.11, python3.13t or pypy3.10."""
    name = "pypy%d.%d" if sys.implementation.name == "pypy" else "python%d.%d"
    return name % sys.version_info[:2] + ("t" if "t" in getattr(sys, "abiflags", "") else "")


def list_site_folders(environ, place, config, user):
    # type: (Mapping[str, str], Tuple[str, str, str], Mapping[str, str], str) -> List[Tuple[str, str]]
    """List the import folders with their scope in the order of sys.path.

    The standard library is left out.
    """
    venv, base, library = place
    found = [
        (entry, "path")
        for entry in environ.get("PYTHONPATH", "").split(os.pathsep)
        if os.path.isabs(entry)
    ]
    users = [(user, "user")] if user else []
    own = "environment"
    if venv or not os.path.isdir(os.path.join(base, "conda-meta")):
        own = "system"
    if config.get(_SHARES) == "true":
        bases = [(path, own) for path in list_packages_folders(base, library)]
    else:
        bases = []
    if venv:
        found += [(path, "environment") for path in list_packages_folders(venv, library)]
    usual = found + users + bases
    result = dict.fromkeys(find_front(usual), "front")  # type: Dict[str, str]
    for path, scope in usual:
        for each in [path] + (list_pth_folders(path) if scope != "path" else []):
            result.setdefault(each, scope)
    return [(path, scope) for path, scope in result.items() if os.path.isdir(path)]


_FIRST = ("sys.path.insert(", "sys.path[:0]", "sys.path[0:0]")


def find_front(folders):  # type: (List[Tuple[str, str]]) -> Dict[str, str]
    """Map the folders that code of a start puts in front of all others to its file.

    The code is not run: a folder that it computes is "". Sample: "import sys; sys.path.insert(0,
    '/home/me/checkout')"
    """
    found = {}  # type: Dict[str, str]
    for path, line in list_start_code(folders):
        for code in [line.partition(mark)[2].partition(";")[0] for mark in _FIRST]:
            for folder in read_paths(code) if code else []:
                found.setdefault(folder, path)
    return found


def read_paths(code):  # type: (str) -> List[str]
    """Read the paths of an expression that holds texts alone, [""] for another one.

    Samples: "= ['/a', '/b']" -> /a and /b; "0, os.path.join('/a', 'b'))" -> /a/b; "0, a)" -> ""
    """
    pieces = code.replace('"', "'").split("'")
    names = "".join(each if each.isalnum() else " " for each in "".join(pieces[::2])).split()
    texts = pieces[1::2]
    if "join" in names and texts:
        texts = [os.path.join(*texts)]
    is_plain = all(each in ("os", "path", "join") or each.isdigit() for each in names)
    return texts if is_plain and all(map(os.path.isabs, texts)) else [""]


def find_replaced(folders):  # type: (List[Tuple[str, str]]) -> Dict[str, str]
    """Map the modules that code of a start replaces to its file.

    Sample: "import sys; sys.modules['json'] = None"
    """
    found = {}  # type: Dict[str, str]
    for path, line in list_start_code(folders):
        name = (line.partition("sys.modules[")[2].replace('"', "'").split("'") + [""])[1]
        if name and line.partition(name)[2].lstrip("'\"] ").startswith("="):
            found.setdefault(name, path)
    return found


def list_start_code(folders):  # type: (List[Tuple[str, str]]) -> List[Tuple[str, str]]
    """List the lines that a start of Python may run, each with its file."""
    found = []  # type: List[Tuple[str, str]]
    for folder, scope in folders:
        for name in list_names(folder) if scope not in ("path", "front") else []:
            if name.endswith(".pth") or name in ("sitecustomize.py", "usercustomize.py"):
                path = os.path.join(folder, name)
                found += [(path, line) for line in read_text(path).splitlines()]
    return found


def list_packages_folders(prefix, library):  # type: (str, str) -> List[str]
    """List the site-packages folders of a prefix.

    Lib and lib64, dist-packages on Debian, /usr/local on Fedora.
    """
    import site

    local = ["/usr/local"] if prefix == "/usr" and os.path.exists("/etc/redhat-release") else []
    own = get_library_name()
    found = [path.replace(own, library) for path in site.getsitepackages(local + [prefix])]
    if prefix == "/usr":  # where another Python than Debian's asks
        found += ["/usr/local/lib/%s/dist-packages" % library, "/usr/lib/python3/dist-packages"]
    usual = os.path.join(prefix, "lib", library, "site-packages")
    return found if usual in found or os.name == "nt" else [usual] + found


def list_pth_folders(folder):  # type: (str) -> List[str]
    """List the folders that .pth files add, such as editable installs.

    Their code lines are not run.
    """
    found = []  # type: List[str]
    for name in list_names(folder):
        if name.endswith(".pth") and not name.startswith("."):
            lines = [
                line.rstrip()
                for line in read_text(os.path.join(folder, name)).lstrip("\ufeff").splitlines()
            ]
            paths = [
                line for line in lines if line and not line.startswith(("#", "import ", "import\t"))
            ]
            found += [os.path.normpath(os.path.join(folder, path)) for path in paths]
    return found


def list_unowned(folders, found):
    # type: (List[Tuple[str, str]], List[Dict[str, Any]]) -> List[str]
    """List the importable top-level modules that no metadata names: it may be lost."""
    owned = {module for each in found for module in each["modules"]}
    names = set()
    for folder, scope in folders:
        for name in list_names(folder) if scope != "path" else []:
            stem = name.split(".")[0]
            if stem in owned or stem in names or stem.startswith(("_", "~")):
                continue
            if name.endswith((".py", ".so", ".pyd")) or os.path.isfile(
                os.path.join(folder, name, "__init__.py")
            ):
                names.add(stem)
    return sorted(names)


def read_distributions(folders):  # type: (List[Tuple[str, str]]) -> List[Dict[str, Any]]
    """Read every installed distribution in the order of sys.path.

    Of a broken one, what is readable.
    """
    found = []  # type: List[Dict[str, Any]]
    for folder, scope in folders:
        if folder.endswith(".egg"):
            found.append(read_distribution(folder, "EGG-INFO", os.path.basename(folder), scope))
        for name in list_metadata(folder):
            if len(found) <= LIMIT:
                found.append(read_distribution(folder, name, name, scope))
    return found


def list_metadata(folder):  # type: (str) -> List[str]
    """List the metadata of a folder; what a removal left of another release comes last.

    Installers remove the RECORD, which is there where two releases say that they are installed.
    """
    names = [
        name
        for name in list_names(folder)
        if name.endswith((".dist-info", ".egg-info")) and not name.startswith("~")
    ]
    stems = [name.split("-")[0].lower() for name in names]
    if len(set(stems)) == len(stems):
        return names
    places = dict(zip(names, stems))
    left = [
        name
        for name in names
        if stems.count(places[name]) > 1
        and not os.path.isfile(os.path.join(folder, name, "RECORD"))
    ]
    return [name for name in names if name not in left] + left


def read_distribution(folder, entry, stem, scope):  # type: (str, str, str, str) -> Dict[str, Any]
    """Read one .dist-info or .egg-info folder (or distutils' .egg-info file)."""
    path = os.path.join(folder, entry)
    wheel = entry.endswith(".dist-info")
    text = read_text(os.path.join(path, "METADATA" if wheel else "PKG-INFO")) or read_text(path)
    name, version, requires = parse_metadata(text)
    parts = stem.rsplit(".", 1)[0].split("-") + [""]
    name = normalize_name(name or parts[0])
    modules = sorted(set(read_text(os.path.join(path, "top_level.txt")).split()))
    if modules and not name.startswith("nvidia-"):
        record = ""
    else:
        record = read_text(os.path.join(path, "RECORD"))
    files = [line.split(",")[0] for line in record.splitlines()]
    return {
        "name": name,
        "version": version or parts[1],
        "location": folder,
        "metadata": entry,
        "scope": scope,
        "installer": read_text(os.path.join(path, "INSTALLER")).strip()[:40],
        "requires": (
            requires if wheel else parse_requires(read_text(os.path.join(path, "requires.txt")))
        ),
        "modules": (modules or list_modules(files))[:50],
        "files": [each for each in files if each.startswith("nvidia/") and ".so" in each],
    }


def parse_metadata(text):  # type: (str) -> Tuple[str, str, List[str]]
    r"""Parse Name, Version and Requires-Dist in a METADATA or PKG-INFO header.

    Sample: 'Metadata-Version: 2.1\nName: torch\nVersion: 2.7.0\nRequires-Dist: filelock\n'
    """
    fields = {"Name": [""], "Version": [""], "Requires-Dist": []}  # type: Dict[str, List[str]]
    key = ""
    for line in text.replace("\r", "").partition("\n\n")[0].splitlines():
        if line[:1] in (" ", "\t"):
            fields.setdefault(key, [""])[-1] += " " + line.strip()
        else:
            key, _, value = line.partition(":")
            fields.setdefault(key, []).append(value.strip())
    return fields["Name"][-1], fields["Version"][-1], fields["Requires-Dist"]


def parse_requires(text):  # type: (str) -> List[str]
    r"""Parse an egg's requires.txt into Requires-Dist lines.

    Sample: 'six>=1.9\n\n[:python_version < "3"]\nenum34\n\n[gpu:sys_platform ==
    "linux"]\nnvidia-cublas\n'
    """
    found, condition = [], ""  # type: List[str], str
    for line in (each.strip() for each in text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            extra, _, marker = line[1:-1].partition(":")
            both = [extra and 'extra == "%s"' % extra, marker and "(%s)" % marker]
            condition = " and ".join(each for each in both if each)
        elif line:
            found.append("%s ; %s" % (line, condition) if condition else line)
    return found


def list_modules(files):  # type: (List[str]) -> List[str]
    """List the top-level modules among the paths of a RECORD."""
    folders = {path.split("/")[0] for path in files if "/" in path} - {"..", "__pycache__"}
    single = {
        path.split(".")[0]
        for path in files
        if "/" not in path and path.endswith((".py", ".so", ".pyd"))
    }
    return sorted(single.union(each for each in folders if "." not in each))


def normalize_name(name):  # type: (str) -> str
    """Return a distribution name in lower case with runs of -_. as one dash."""
    return "-".join(
        part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part
    )


def list_names(folder):  # type: (str) -> List[str]
    """List a folder, sorted; [] where it is unreadable."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def read_text(path):  # type: (str) -> str
    """Read the start of a regular file.

    Undecodable bytes are replaced, and an unreadable file is empty.
    """
    try:
        if not os.path.isfile(path):
            return ""
        with io.open(path, "rb") as stream:
            return stream.read(_READ_LIMIT).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def encode(value):  # type: (Any) -> str
    """Encode a value as JSON without importing json."""
    if isinstance(value, dict):
        return "{%s}" % ", ".join(
            "%s: %s" % (quote(key), encode(each)) for key, each in value.items()
        )
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(encode, value))
    if isinstance(value, (bool, int)):
        return str(value).lower()
    return quote(value)


if __name__ == "__main__":
    sys.stdout.write(encode(describe(os.environ, *sys.argv[1:])) + "\n")

"""Quote a log, an error or a command line without what it tells of people and places.

A list of what may be shown, not of what may not: words, numbers, versions, names of libraries,
public sites and files of known folders. Of anything else, a token, a host, a user, another path,
nothing is known but that it stood there: ***.
"""

import re
from functools import lru_cache
from typing import FrozenSet, Match, Tuple

HIDDEN = "***"


def _words(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


# The value after each of these is always hidden: a password may be an ordinary word.
_TOLD = (
    r"(authorization[\"']? ?[:=] ?[\"']?\w+ |\bbearer |\s-u (?=\S+:)"
    r"|--?(?:passw(?:or)?d|token|api-key|user) "
    r"|(?:passw(?:or)?d|secret|token|[_-]?key|sig(?:nature)?|user(?:name)?|login|host(?:name)?"
    r"|account(?:name)?)[\"']?[=:] ?[\"']?)(?![\s\"'<\[{(]|None\b|\d{1,6}\b)[^\s\"',;&]+"
)
_PIECE = re.compile(r"[^\s\"'`<>(){}\[\],;=|*]*[^\s\"'`<>(){}\[\],;=|*.:!?]")

# Digits stand behind these words, cu126, sm_90, float16, rank-0, or behind words that begin so;
# behind others in the names of hosts.
_NUMBERED = _words(
    "sm compute pip anaconda miniconda miniforge caffe gcc clang abi gpu cpu amd arm aarch avx "
    "sse win wsl float bfloat fp bf tf int uint complex bcomplex linux manylinux utf sha md rank "
    "worker trainer device task job stage step epoch layer layers replica pid tid line level "
    "error code exit driver toolkit ubuntu debian el rhel post rc dev pre alpha beta sxm pcie gen "
    "mi gfx rtx gtx gp gv tu ga gh gb ad hbm numpy numba keras cv qwen llama gpt bert resnet yolo "
    "yolov detectron pointnet pybind infer train adv ops vs elfclass xid cc ptx pb lnk ctranslate "
    "hdf upfirdn urllib bit bits dim hdim in out arg strns mat fma ipv overlay tmp bar mig mxfp "
    "zero nd adam opt vit core socket slot bus id builtins collect dp tp ep cp cpython"
)
_NUMBERED_FAMILIES = (
    "lib",
    "cu",
    "nv",
    "py",
    "torch",
    "tensor",
    "jax",
    "mac",
    "msvc",
    "vc",
    "glibc",
    "cxx",
    "flash",
)
_PRODUCTS = (*_NUMBERED_FAMILIES, "linux")
_ATOM = re.compile(
    r"\d{1,15}|0x[\da-f]{1,16}|\d{1,8}[a-z]{1,6}\d{0,2}|\d{1,5}x\d{1,5}|[ewif]\d{4}"
    r"|(?P<word>[a-z]+)(?:0|[1-9]\d{0,4})(?:[a-z]{1,8}\d{0,2})?",
    re.IGNORECASE | re.ASCII,
)
_SYMBOL = re.compile(r"_?_Z[A-Z0-9]\w+(?:@+[\w.]+)?|\w+@+[A-Z]+_?[\d.]+", re.ASCII)
# 12.3.4.1 and 9.1.0.70 are versions of CUDA's libraries; so is 10.3.5.147 behind ==.
_ADDRESS = re.compile(
    r"(?!127\.0\.0\.1)(?:10|1[4-9]|[2-9]\d|[12]\d\d)(?:\.\d{1,3}){3}(?::\d+)?"
    r"|[\da-f]{0,4}(?::[\da-f]{1,4})*::[\da-f:]+(?::\d+)?|(?:[\da-f]{1,4}:){5,7}[\da-f]{1,4}",
    re.IGNORECASE,
)
_VERSION_BEFORE = re.compile(r"(?:[=<>~!] ?|\bversions?\b[^/@]*|\bv|-cu\d\d +)$", re.IGNORECASE)
_SITES = _words(
    "nvidia pytorch github githubusercontent python pypi pythonhosted tensorflow google "
    "googleapis googlesource huggingface anaconda conda readthedocs microsoft aka ubuntu debian "
    "numpy scipy intel kernel docker nvcr ghcr gcr quay stackoverflow jax abseil bazel onnx "
    "onnxruntime astral cmake llvm gnu w3 apache rapids ray lightning wandb cupy protobuf"
)
_DOMAINS = _words(
    "com org net io co edu gov int mil info biz cloud ai dev ms internal local localdomain lan "
    "corp home intra intranet private example test invalid de uk fr ch at nl eu jp cn kr ca au us "
    "es se fi pl br ru sg tw il"
)
_PATH = re.compile(r"(?:~|[a-z]:|)[\\/]+([^\\/:]*)", re.IGNORECASE)
_KNOWN_FOLDERS = _words(
    "usr lib lib32 lib64 libx32 opt etc proc sys dev bin sbin run var pytorch croot conda __w "
    "workspace tensorflow cache venv app nix snap host build onnxruntime_src nvvm windows "
    "tf_jenkins job program programdata"
)
_INSTALLED = re.compile(
    r"[\\/](?:lib[\\/])?(?:python3\.\d+[\\/])?(?:site|dist)-packages[\\/].*|[\\/][^\\/]+$",
    re.IGNORECASE,
)


def quote(text: str, folders: Tuple[str, ...] = ()) -> str:
    """Return what may be shown to others of a text that a program wrote.

    Paths of `folders`, which facts state already, are shown too.
    """

    def quote_piece(found: "Match[str]") -> str:
        piece = found[0]
        if _ADDRESS.fullmatch(piece) and not _VERSION_BEFORE.search(text, 0, found.start()):
            return HIDDEN
        return _quote_piece(piece, folders)

    text = re.sub(_TOLD, rf"\1{HIDDEN}", text, flags=re.IGNORECASE)
    return _PIECE.sub(quote_piece, text)


@lru_cache(maxsize=4096)
def _quote_piece(piece: str, folders: Tuple[str, ...]) -> str:
    if "://" in piece:
        return _quote_url(piece)
    if _PATH.match(piece):
        return ":".join(_quote_path(path, folders) for path in re.split(r":(?=/)", piece))
    return piece if _is_plain(piece) else HIDDEN


def _quote_url(url: str) -> str:
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("?")[0].partition("/")
    if not _is_site(host):
        return f"{scheme}://{HIDDEN}"
    return f"{scheme}://{host}{slash}{path if _is_plain(path) else HIDDEN}"


def _quote_path(path: str, folders: Tuple[str, ...]) -> str:
    """Keep a path of a known folder, else where an installation puts it or its last name."""
    root = _PATH.match(path)
    if root is None:
        return path if _is_plain(path) else HIDDEN
    folder = next(filter(path.startswith, folders), "")
    known = path.startswith("~/.") or (path[0] != "~" and root[1].lower() in _KNOWN_FOLDERS)
    if known or folder:
        return path if _is_plain(path[len(folder) :]) else HIDDEN
    end = _INSTALLED.search(path)
    if end is None:
        return path
    return HIDDEN + (end[0] if _is_plain(end[0]) else "")


def _is_site(host: str) -> bool:
    labels = re.split("[/:]", host, maxsplit=1)[0].lower().split(".")
    if labels in (["localhost"], ["127", "0", "0", "1"], ["0", "0", "0", "0"]):
        return True
    return len(labels) > 1 and labels[-1] in _DOMAINS and labels[-2] in _SITES


def _is_host(piece: str) -> bool:
    labels = re.split("[/:]", piece.lstrip("@"), maxsplit=1)[0].lower().split(".")
    return len(labels) > 1 and labels[-1] in _DOMAINS


def _is_plain(piece: str) -> bool:
    if _SYMBOL.fullmatch(piece):
        return True
    if re.search(r"\w@\w", piece):
        return False
    if _is_host(piece) and not _is_site(piece) and not piece.lower().startswith(_PRODUCTS):
        return False
    if "-" in piece and not piece.lower().startswith(_PRODUCTS):
        names = re.findall(r"([^\W\d_]+)-\d+(?![\w.])", piece)
        if not all(map(_takes_number, names)):
            return False
    return all(map(_is_word, re.findall(r"[^\W_]+", piece)))


def _is_word(atom: str) -> bool:
    if atom.isalpha():
        return len(atom) < 45
    found = _ATOM.fullmatch(atom)
    if found is None:
        return False
    word = found["word"]
    return word is None or len(word) == 1 or _takes_number(word)


def _takes_number(word: str) -> bool:
    word = word.lower()
    return (
        word in _NUMBERED or word.startswith(_NUMBERED_FAMILIES) or word.endswith(("conv", "cnn"))
    )

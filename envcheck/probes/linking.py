"""Tell, without importing anything, whether what an import opens loads.

Compiled files, and names of the framework.

Python and the frameworks open every library with RTLD_NOW: all symbols of it and of what it needs
are bound at once, functions as well, so that one missing symbol makes the import fail (man dlopen).
"""

from __future__ import annotations

import fnmatch
import itertools
import posixpath
import re
from collections import deque
from contextlib import suppress
from typing import (
    Any,
    Deque,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from envcheck.frameworks.base import Framework
from envcheck.frameworks.installed import Caller, Inspection
from envcheck.frameworks.packages import load_cuda_data
from envcheck.host.data_files import load_data
from envcheck.host.paths import list_names
from envcheck.host.protocol import SymbolNeed
from envcheck.model import (
    IMPORT,
    NOT_COLLECTED,
    USE,
    Absent,
    Citation,
    CudaWheels,
    Distribution,
    Fact,
    Known,
    LinkFault,
    Unknown,
    dataclass,
    from_file,
    numbers,
    replace,
)
from envcheck.model.text import find_group
from envcheck.model.versions import find_requirement, name_of, public_version

_NAMED = 3  # symbols named in a fault
GPU = "gpu"  # the use of a GPU ends where a file does not load
# that its text does not hold
_MAKES_NAMES = re.compile(r"import \*|__getattr__|globals\(\)|sys\.modules\[|\bexec\(")


@dataclass
class FrameworkImport:
    """What the import of a framework opens."""

    files: Tuple[str, ...]  # patterns below site-packages
    preload: str  # as for LibrarySearch.look_up
    namespaces: Tuple[str, ...] = ()  # of its C++ symbols, mangled: 3c10
    functions: Tuple[str, ...] = ()  # how the names of its C functions begin
    libraries: Tuple[str, ...] = ()  # that define them, without ".so"
    # compiled files of others that it opens before its own: NumPy's
    dependencies: Tuple[str, ...] = ()
    for_gpu: Tuple[str, ...] = ()  # what it opens only where a GPU is used
    preload_for_gpu: str = ""


@dataclass
class CompanionImport:
    """What the import of a package that is compiled for a framework opens."""

    distribution: str
    framework: str
    files: Tuple[str, ...]
    # releases without this file import although their compiled part does not load; "" none does
    only_with: str = ""
    only_without: str = ""  # releases with this file do so too
    stops: str = IMPORT  # USE, GPU: what ends where the compiled part of any release does not load
    # one of the files is enough: there is one for each release of another library
    one_of: bool = False
    modules: Tuple[str, ...] = ()  # what people import of it, beside the package itself
    # so many parts of its CUDA version must be the framework's, or the import ends
    cuda_parts: int = 0
    # where it holds a file for each CUDA, {}: cuda126; it opens that of the framework's CUDA
    by_cuda: str = ""
    # its first release that opens one of the same major where that is not there
    by_major_from: str = ""
    override: str = ""  # variable that chooses another one


@dataclass
class Linking:
    """The content of data/frameworks/linking.json."""

    frameworks: Mapping[str, FrameworkImport]
    companions: Tuple[CompanionImport, ...]
    symbols: Mapping[str, str]  # how names of functions begin -> library
    # how the sonames of libraries begin that come with the system or the driver
    system: Tuple[str, ...]
    citation: Citation


def load_linking_data() -> Linking:
    """Load data/frameworks/linking.json."""
    return load_data("frameworks/linking", Linking)


def collect_link_faults(
    inspection: Inspection, frameworks: Sequence[Framework]
) -> Fact[Tuple[LinkFault, ...]]:
    """Load the files of each framework's import and of its companions as the loader would."""
    if inspection.host.system != "linux":
        return Absent((f"ELF files on {inspection.host.system}",))
    rows = load_linking_data().frameworks  # a plugin's framework has none
    processes = [_Process(inspection, each) for each in frameworks if each.name in rows]
    for process in processes:
        process.run()
    faults = tuple(fault for process in processes for fault in process.faults)
    unread = [process.unread for process in processes if process.unread]
    if unread and not faults:
        return unread[0]
    if not any(process.loaded for process in processes):
        return Absent(tuple(file for process in processes for file in process.row.files))
    return from_file(faults, inspection.installed.prefix)


class _Process:
    """What a process has mapped after importing one framework, and what went wrong on the way."""

    def __init__(self, inspection: Inspection, framework: Framework) -> None:
        self._inspection, self._host, self._framework = inspection, inspection.host, framework
        self.row = load_linking_data().frameworks[framework.name]
        # soname -> file; None: not found or not readable
        self.loaded: Dict[str, Optional[Caller]] = {}
        self.faults: List[LinkFault] = []
        self.unread: Optional[Unknown] = None
        self._subject = ""  # distribution that is being imported
        self._preload = self.row.preload
        self._for_gpu = False  # what is opened now is not opened by the import
        self._stops = ""  # what ends where it does not load, as in LinkFault
        self._opened: Set[str] = set()  # files of companions
        kind, _, release = str(self._host.system_facts().get("libc", "")).partition(" ")
        # unknown: new enough
        self._glibc = numbers(release) if kind == "glibc" and numbers(release) else (999,)
        # how the names of symbols begin -> libraries that define them
        self._families: Dict[str, Tuple[str, ...]] = {
            prefix: (library,) for prefix, library in load_linking_data().symbols.items()
        }

    def run(self) -> None:
        """Import the framework, then its companions, and load what GPU work opens."""
        self._subject, release, location = self._find_framework()
        own = tuple(self._list_files(location, self.row.files))
        if not own:
            return
        if self._host.lacking_symbols(own[0], ()) == NOT_COLLECTED:
            self.unread = NOT_COLLECTED  # a recording holds no symbols
            return
        self._stops = IMPORT
        self._import((*self._list_dependencies(), *own))
        if self.faults:
            return
        self._families.update(dict.fromkeys(_list_prefixes(self.row), self.row.libraries))
        for row in load_linking_data().companions:
            companions = self._inspection.installed.named((row.distribution,))
            if row.framework == self._framework.name and companions:
                self._import_companion(row, companions[0])
        self._import_python_code(release)
        self._import_extensions(location)
        self._preload, self._for_gpu, self._stops = self.row.preload_for_gpu, True, ""
        for folder in self._inspection.installed.folders:
            for path in self._list_files(folder.path, self.row.for_gpu):
                self._subject = self._owner(path)
                self._import((path,))

    def _import_companion(self, row: CompanionImport, companion: Distribution) -> None:
        def has(name: str) -> bool:
            return isinstance(self._host.status(posixpath.join(companion.location, name)), Known)

        goes_on = (row.only_with and not has(row.only_with)) or (
            row.only_without and has(row.only_without)
        )
        self._subject, self._stops = companion.name, USE if goes_on else row.stops
        paths = tuple(self._list_files(companion.location, row.files))
        self._opened.update(paths)
        first = len(self.faults)
        if row.one_of:
            self._import_one(paths)
        else:
            self._import(paths)
        if row.by_cuda and not self._host.environment().get(row.override):
            self._choose_by_cuda(row, companion)
        if row.cuda_parts and len(self.faults) == first:
            self._stops = IMPORT
            self._compare_cuda(companion, row.cuda_parts)

    def _import_one(self, paths: Sequence[str]) -> None:
        """Import files of which one is enough.

        Where none loads, keep what is wrong with the framework for all.
        """
        tried: List[List[LinkFault]] = []
        for path in paths:
            first = len(self.faults)
            self._import((path,), past_missing=True)
            tried.append(self.faults[first:])
            del self.faults[first:]
        if not tried or not all(tried):
            return
        lacking = [item for faults in tried for item in faults if item.kind != "missing-library"]
        missing = tuple(dict.fromkeys(faults[0].library for faults in tried))
        self.faults.append(lacking[0] if lacking else replace(tried[-1][0], symbols=missing))

    def _import_python_code(self, release: str) -> None:
        """Follow imports of packages that do not load, or need another framework release."""
        modules = {
            row.distribution: row.modules for row in load_linking_data().companions if row.modules
        }
        faulty = {fault.distribution for fault in self.faults}
        for each in self._inspection.installed.distributions:
            is_other = each.modules and not self._framework.owns(each.name)
            if is_other and (
                each.name in faulty or not _admits(each.requires, self._framework.name, release)
            ):
                self._subject, self._stops = each.name, IMPORT
                own = each.name.replace("-", "_")  # some bring a folder of tests besides
                usual = (own,) if own in each.modules else each.modules[:1]
                self._import_names(each, modules.get(each.name, usual))

    def _import_names(self, companion: Distribution, modules: Sequence[str]) -> None:
        """Follow necessary imports to the first name that the framework does not have."""
        framework = self._framework.name
        queue = [
            ".".join(name.split(".")[: count + 1])
            for name in modules
            for count in range(name.count(".") + 1)
        ]
        for module in queue:  # which grows
            path, text = self._read_module(companion.location, module)
            for source, name in _list_imports(
                text, module, is_package=path.endswith("__init__.py")
            ):
                if source.partition(".")[0] in companion.modules:
                    found = (source, f"{source}.{name}" if name else source)
                    queue += [each for each in dict.fromkeys(found) if each not in queue]
                elif source.partition(".")[0] == framework and not self._has_name(
                    companion.location, source, name
                ):
                    cells = {
                        "symbols": (name,),
                        "found": self._read_module(companion.location, source)[0],
                    }
                    self._add_fault("missing-name", path, source, **cells)
                    return

    def _read_module(self, location: str, module: str) -> Tuple[str, str]:
        """Return the file of a module and its text; nothing where it is no Python file."""
        stem = posixpath.join(location, *module.split("."))
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            text = self._host.read_text(path).value
            if text is not None:
                return path, text
        return "", ""

    def _has_name(self, location: str, module: str, name: str) -> bool:
        """Return whether a module may have a name.

        It stands in its text, or is a module in its folder.
        """
        path, text = self._read_module(location, module)
        is_open = not text or _MAKES_NAMES.search(text) is not None
        if path.endswith("__init__.py") and not is_open:
            beside = list_names(self._host, posixpath.dirname(path))
        else:
            beside = ()
        is_module = any(each.partition(".")[0] == name for each in beside)
        return is_open or is_module or re.search(rf"\b{re.escape(name)}\b", text) is not None

    def _choose_by_cuda(self, row: CompanionImport, companion: Distribution) -> None:
        """Look for the file for the framework's CUDA among those of a companion."""
        path, stated = self._read_cuda(companion.location)
        files = self._list_files(companion.location, (row.by_cuda.format("cuda*"),))
        labels = (re.search(r"cuda(\d+)(\d)\D*$", file) for file in files)
        held = sorted({tuple(map(int, label.groups())) for label in labels if label})
        parts = 2
        if row.by_major_from and numbers(companion.version) >= numbers(row.by_major_from):
            parts = 1
        if stated and held and not any(each[:parts] == numbers(stated)[:parts] for each in held):
            folder = posixpath.join(companion.location, posixpath.dirname(row.by_cuda))
            newest = ".".join(map(str, held[-1]))
            self._add_fault("other-cuda", folder, "", symbols=(newest, stated), found=path)

    def _read_cuda(self, location: str) -> Tuple[str, str]:
        """Return where the framework states its CUDA, and which: cuda = '13.2'."""
        path = posixpath.join(location, self._framework.name, "version.py")
        text = self._host.read_text(path).value or ""
        return path, find_group(r"^cuda\b[^=]*=\s*['\"](\d+\.\d+)", text, re.MULTILINE)

    def _compare_cuda(self, companion: Distribution, parts: int) -> None:
        """Compare the CUDA that two builds state: '2.11.0+cu130', cuda = '13.2'."""
        path = posixpath.join(companion.location, companion.name.replace("-", "_"), "version.py")
        label = re.search(r"\+cu(\d+)(\d)['\"]", self._host.read_text(path).value or "")
        found, stated = self._read_cuda(companion.location)
        if label and stated and label.groups()[:parts] != tuple(stated.split("."))[:parts]:
            built = ".".join(label.groups())
            self._add_fault("other-cuda", path, "", symbols=(built, stated), found=found)

    def _import_extensions(self, location: str) -> None:
        """Import the extensions that were compiled against the framework.

        What stops without them nobody recorded.
        """
        if not self.row.namespaces:
            return
        self._stops = ""
        files = {
            path: "" for path in self._list_files(location, ("*.so",)) if path not in self._opened
        }
        for each in self._inspection.installed.distributions:
            for path in self._list_files(each.location, self._list_patterns(each)):
                files.setdefault(path, each.name)
        for path, name in files.items():
            elf = self._host.elf(path).value
            if elf is not None and any(
                soname.startswith(self.row.libraries) for soname in elf.needed
            ):
                self._subject = (
                    name or self._owner(path) or posixpath.basename(path).partition(".")[0]
                )
                self._import((path,))

    def _list_patterns(self, each: Distribution) -> Tuple[str, ...]:
        """List where a distribution may have files that were compiled against the framework."""
        if each.name in {
            row.distribution for row in load_linking_data().companions
        } or self._framework.owns(each.name):
            return ()
        requires = self._framework.name in map(name_of, each.requires)
        known: Sequence[str] = load_cuda_data()["extensions"].get(each.name, ())
        if requires:
            folders = [folder for module in each.modules for folder in (module, f"{module}/lib")]
        else:
            folders = []
        return (*known, *(f"{folder}/*.so" for folder in folders))

    def _find_framework(self) -> Tuple[str, str, str]:
        """Return the distribution, its release and the folder whose copy an import finds."""
        for folder in self._inspection.installed.folders:
            for each in self._inspection.installed.distributions:
                is_owner = each.location == folder.path and self._framework.owns(each.name)
                if is_owner and any(self._list_files(folder.path, self.row.files)):
                    return each.name, each.version, folder.path
        return "", "", ""

    def _list_dependencies(self) -> Iterator[str]:
        """Yield other distributions' compiled files that the framework imports."""
        for pattern in self.row.dependencies:
            folders = self._inspection.installed.folders
            found = (
                path for folder in folders for path in self._list_files(folder.path, (pattern,))
            )
            yield from itertools.islice(found, 1)

    def _list_files(self, location: str, patterns: Sequence[str]) -> Iterator[str]:
        for pattern in patterns if location else ():
            folder, name = posixpath.split(posixpath.join(location, pattern))
            for found in list_names(self._host, folder):
                if fnmatch.fnmatchcase(found, name):
                    yield posixpath.join(folder, found)

    def _import(self, paths: Sequence[str], *, past_missing: bool = False) -> None:
        """Load files; what a failed one loaded is gone again.

        `past_missing`: look symbols up in what was found.
        """
        begun, before = len(self.faults), dict(self.loaded)
        opened = [caller for path in paths for caller in self._open(path)]
        if len(self.faults) == begun or past_missing:
            self._check_symbols(opened)
        if len(self.faults) > begun and before:
            self.loaded = before

    def _open(self, path: str) -> Iterator[Caller]:
        """Yield a file and what it needs in turn that was not loaded before."""
        read = self._inspection.search.caller(path)
        if not isinstance(read, Known):
            self._note_unreadable(read, path, posixpath.basename(path), path)
            return
        self.loaded.setdefault(read.value.elf.soname or posixpath.basename(path), read.value)
        queue: Deque[Caller] = deque([read.value])
        while queue:
            caller = queue.popleft()
            yield caller
            for soname in caller.elf.needed:
                if soname not in self.loaded and not soname.startswith(load_linking_data().system):
                    self.loaded[soname] = self._load(soname, caller)
                    queue.extend(filter(None, (self.loaded[soname],)))

    def _load(self, soname: str, caller: Caller) -> Optional[Caller]:
        search = self._inspection.search
        found, read = search.load(soname, caller, self._preload)
        # the build's libraries are looked up anyway
        if isinstance(found, Absent) and not self._for_gpu:
            elsewhere = search.copies(soname)
            self._add_fault("missing-library", caller.path, soname, elsewhere=elsewhere)
        elif isinstance(found, Unknown):
            self.unread = self.unread or found
        elif isinstance(found, Known):
            self._note_unreadable(read, caller.path, soname, found.value.path)
        return read.value

    def _note_unreadable(self, read: Fact[Caller], asking: str, soname: str, path: str) -> None:
        if isinstance(read, Unknown) and read.why == "unparsable":
            self._add_fault("damaged", asking, soname, found=path)
        elif isinstance(read, Unknown):
            self.unread = self.unread or read

    def _add_fault(self, kind: str, asking: str, soname: str, **cells: Any) -> None:
        fault = LinkFault(
            self._subject,
            kind,
            asking,
            soname,
            asked_by=self._owner(asking),
            found_in=self._owner(cells.get("found", "")),
            wheel=load_data("nvidia/cuda_wheels", CudaWheels).wheel_of(soname),
            needs_gpu=self._for_gpu or self._stops == GPU,
            stops=USE if self._stops == GPU else self._stops,
            **cells,
        )
        self.faults.append(fault)

    def _owner(self, path: str) -> str:
        """Name the distribution of a file.

        By its record, else by the module that the file lies in.
        """
        installed = self._inspection.installed
        owners = installed.library_owners.get(path)
        if owners:
            return owners[-1].name
        for each in installed.distributions:
            if any(
                path.startswith((f"{each.location}/{module}/", f"{each.location}/{module}."))
                for module in each.modules
            ):
                return each.name
        return ""

    def _check_symbols(self, callers: Sequence[Caller]) -> None:
        """Look up every symbol that one distribution takes from another."""
        libraries = (*load_cuda_data()["library_prefixes"], *self._list_foreign())
        before = len(self.faults)
        for caller in callers:
            self._check_versions(caller)
        for caller in () if len(self.faults) > before else callers:
            needs = self._host.symbol_needs(caller.path, tuple(self._families), libraries)
            grouped: Dict[Tuple[str, ...], List[SymbolNeed]] = {}
            for need in needs.value or ():
                grouped.setdefault(self._libraries_of(need), []).append(need)
            for names, wanted in grouped.items():
                self._check_group(
                    caller, [file for name in names for file in self._named(name)], tuple(wanted)
                )

    def _libraries_of(self, need: SymbolNeed) -> Tuple[str, ...]:
        """Name the libraries that may define a symbol: by its version, else by its prefix."""
        if need.library:
            return (need.library,)
        for prefix, libraries in self._families.items():
            if need.name.startswith(prefix):
                return libraries
        return ()

    def _list_foreign(self) -> Iterator[str]:
        """Yield the sonames that LD_LIBRARY_PATH substitutes for the system's."""
        for soname, file in self.loaded.items():
            if file is not None and file.via == "LD_LIBRARY_PATH" and not self._owner(file.path):
                yield soname

    def _check_versions(self, caller: Caller) -> None:
        """Compare the versions that a file needs with those found, as the loader does."""
        # what a framework needs of glibc, the matrix states
        is_package = not self._framework.owns(self._subject)
        for soname, version in caller.elf.versions_by_library:
            if (
                is_package
                and version.startswith("GLIBC_2")
                and numbers(version[len("GLIBC_") :]) > self._glibc
            ):
                self._add_fault("missing-symbol-version", caller.path, soname, symbols=(version,))
                return
            file = self.loaded.get(soname)
            is_noted = file is None or any(fault.found == file.path for fault in self.faults)
            # a library without any version serves every version
            if (
                file is not None
                and not is_noted
                and version not in (file.elf.versions_defined or (version,))
            ):
                cells = {"symbols": (version,), "found": file.path, "via": file.via}
                self._add_fault("missing-symbol-version", caller.path, soname, **cells)

    def _named(self, name: str) -> Iterator[Caller]:
        """Yield the loaded files with a soname, or of a library: libnccl is libnccl.so.2."""
        for soname, file in self.loaded.items():
            if file is not None and (
                soname == name or soname.startswith((f"{name}.so", f"{name}-"))
            ):
                yield file

    def _check_group(
        self, caller: Caller, files: Sequence[Caller], wanted: Tuple[SymbolNeed, ...]
    ) -> None:
        if not files:
            return  # another file of the process brings it
        lacking = wanted
        others = (file for file in self.loaded.values() if file is not None and file not in files)
        for file in (*files, *others):
            if lacking:
                result = self._host.lacking_symbols(file.path, lacking)
                lacking = result.value or ()  # without a table that can be read
        if lacking:
            self._add_symbol_fault(caller, files[0], lacking)

    def _add_symbol_fault(
        self, caller: Caller, file: Caller, lacking: Tuple[SymbolNeed, ...]
    ) -> None:
        defined = file.elf.versions_defined
        versions = [
            need.version
            for need in lacking
            if need.version and defined and need.version not in defined
        ]
        kind = "missing-symbol-version" if versions else "missing-symbol"
        names = tuple(dict.fromkeys(versions or [need.name for need in lacking]))[:_NAMED]
        soname = next(
            (soname for soname, other in self.loaded.items() if other is file), file.elf.soname
        )
        self._add_fault(kind, caller.path, soname, symbols=names, found=file.path, via=file.via)


def _admits(requires: Sequence[str], name: str, release: str) -> bool:
    """Return whether requirements admit a release, as far as they can be read here."""
    for need in map(find_requirement, requires):
        if need is not None and need.name == name and not need.marker:
            # a host of a fleet has no `packaging`, which reads what is not plain
            with suppress(ImportError, ValueError):
                if not need.admits(public_version(release), prereleases=True):
                    return False
    return True


def _list_imports(text: str, module: str, *, is_package: bool) -> Iterator[Tuple[str, str]]:
    """Yield module and name of what a module takes whatever happens.

    Not within try, if or a function.
    """
    import ast  # only where a companion does not load

    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):  # of a newer Python
        return
    lazy = (ast.Lambda, ast.IfExp, ast.BoolOp)  # what runs within them nothing states
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _resolve(node.module or "", node.level, module, is_package=is_package)
            yield from ((source, each.name) for each in node.names if each.name != "*")
        for value in (getattr(node, "value", None), *getattr(node, "decorator_list", ())):
            inner = list(ast.walk(value)) if value is not None else []
            if not any(isinstance(each, lazy) for each in inner):
                attributes = (each for each in inner if isinstance(each, ast.Attribute))
                yield from ((_write_dotted(each.value), each.attr) for each in attributes)


def _resolve(named: str, level: int, module: str, *, is_package: bool) -> str:
    """Return the whole name of the module that `from ..named import` names.

    `level` counts the dots.
    """
    if not level:
        return named
    parts = module.split(".")
    above = parts[: len(parts) - level + is_package]
    return ".".join([*above, named] if named else above)


def _write_dotted(node: Any) -> str:
    """Write a chain of attributes of a name: torch.library; "" for what else there is."""
    if hasattr(node, "attr"):
        return f"{_write_dotted(node.value)}.{node.attr}"
    return str(getattr(node, "id", ""))


def _list_prefixes(row: FrameworkImport) -> Iterator[str]:
    """Yield how the names of a framework's own symbols begin.

    C functions; C++ functions, methods, type information.
    """
    yield from row.functions
    for namespace in row.namespaces:
        for beginning in ("_ZN", "_ZNK", "_ZNR", "_ZTIN", "_ZTVN"):
            yield f"{beginning}{namespace}"

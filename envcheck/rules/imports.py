"""Judge what real imports showed.

They refute what claims to stop them, and name what nothing on the disk explains.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterator, Sequence
from itertools import islice

from envcheck.frameworks import framework_of
from envcheck.model import (
    ERROR,
    FAILED,
    IMPORT,
    INCOMPATIBLE,
    NOTE,
    PASSED,
    UNDETERMINED,
    UNPROVEN,
    USE,
    WARNING,
    About,
    Distribution,
    Evidence,
    Finding,
    Fix,
    FollowRow,
    ImportTest,
    canonical_name,
    replace,
)
from envcheck.model.fixes import LeaveOutFolders, ReinstallFiles
from envcheck.model.text import FRAME, read_tracebacks
from envcheck.model.versions import name_of
from envcheck.rules.catalogue import catalogue, what_stops
from envcheck.rules.context import Context, once
from envcheck.rules.python import (
    DAMAGED,
    DEATH,
    describe_lost_modules,
    died_of_damage,
    find_lost_modules,
)
from envcheck.rules.targets import target_builds

_LONGEST = 300  # characters of an exception in a sentence


@once
def tried_imports(context: Context) -> tuple[ImportTest, ...]:
    """List the imports that were tried.

    They say nothing about a release that is asked about and not installed.
    """
    if any(not build.installed for build in target_builds(context)):
        return ()
    return context.python.imports.value or ()


def label_of(test: ImportTest) -> str:
    """Name what was imported: the distribution, where its module has another name also that."""
    label = f"{test.distribution} {test.version}".strip()
    if canonical_name(test.module) == test.distribution:
        return label
    return f"{test.module} ({label})"


def last_words(test: ImportTest) -> str:
    """Return what ended an import.

    The last exception of its chain, else the last line that it printed.
    """
    last = test.printed.rstrip().rpartition("\n")[2].strip()
    chain = read_tracebacks(test.printed)
    is_exception = chain and not last.startswith(("it was ended by", "its Python ended"))
    words: str = chain[-1][1] if is_exception else last
    return words[:_LONGEST]


def _read_chain(test: ImportTest) -> list[tuple[str, str]]:
    """Return the file and the text of each exception of a failed import, the first one first."""
    return read_tracebacks(test.printed) or [("", last_words(test))]


def weigh_imports(context: Context, findings: Sequence[Finding]) -> list[Finding]:
    """Hold claims against the imports that were tried, and report the deaths.

    A refuted error becomes a warning, a refuted requirement a note. One that explains a death takes
    it as evidence, counts as much as it does, and the death is not reported beside it.
    """
    tests = tried_imports(context)
    weighed: list[Finding] = []
    explained: set[str] = set()
    for finding in findings:
        claimed = _tests_of(finding, tests) if _claims_import(finding) else ()
        dead = [
            test for test in claimed if test.outcome == FAILED and _explains(context, finding, test)
        ]
        if dead:
            weighed.append(_confirmed(context, finding, dead))
            explained.update(test.distribution for test in dead)
        elif claimed and all(test.outcome == PASSED for test in claimed):
            weighed.append(_refuted(finding, claimed))
        else:
            weighed.append(finding)
    return [*weighed, *_list_deaths(context, tests, explained), *_list_unproven(tests)]


def _list_deaths(
    context: Context, tests: Sequence[ImportTest], explained: Container[str]
) -> Iterator[Finding]:
    """Report each import that died of what no other finding says."""
    for test in tests:
        if test.outcome != FAILED or test.distribution in explained:
            continue
        owner = _owner_of(context, test.altered[0]) if test.altered else None
        chain = [words for _, words in _read_chain(test)]
        lost = {lost[1] for words in chain if (lost := _NO_MODULE.search(words))}
        own = find_lost_modules(context, lost.union(*map(_NAME.findall, chain)))
        in_front = _describe_front(context, test)
        if in_front:
            yield in_front
        elif own:
            yield _confirmed(context, describe_lost_modules(context, test.module, own), (test,))
        elif owner:
            yield _describe_altered(context, test, owner)
        else:
            yield _describe_death(context, test)


def _describe_death(context: Context, test: ImportTest) -> Finding:
    about = About(framework_of(test.distribution), test.distribution)
    fails = "imports, but does not compute" if test.stage == USE else "does not import"
    return context.report(
        f"{label_of(test)} {fails}: {last_words(test)}",
        _evidence(test),
        finding_id=DEATH,
        severity=_severity(context, test),
        cure=_cure(context, test),
        about=about,
        stops=test.stage,
    )


def _describe_altered(context: Context, test: ImportTest, owner: Distribution) -> Finding:
    """Report that an import died in, or for, a file that is not the one that was installed."""
    file = posixpath.relpath(test.altered[0], owner.location)
    found = context.report(
        f"{owner.label} is damaged: {file} is not the file that was installed.",
        finding_id=DAMAGED,
        severity=_severity(context, test),
        cure=ReinstallFiles((owner.pin,)),
        about=About(distribution=owner.name),
    )
    return _confirmed(context, found, (test,))


def _list_unproven(tests: Sequence[ImportTest]) -> Iterator[Finding]:
    """Note, once for each reason, which imports prove nothing."""
    unproven: dict[str, list[str]] = {}
    for test in tests:
        if test.outcome == UNPROVEN:
            seconds = f" ({test.seconds:.1f} s)" if test.seconds else ""
            unproven.setdefault(test.reason, []).append(label_of(test) + seconds)
    for reason, labels in unproven.items():
        message = f"Not proven by an import: {', '.join(labels)}: {reason}."
        yield Finding(DEATH, UNDETERMINED, NOTE, message)


def is_unexplained_death(finding: Finding) -> bool:
    """Return whether a finding says that an import died, and none says why."""
    return finding.id == DEATH and finding.verdict == INCOMPATIBLE


def _severity(context: Context, test: ImportTest) -> str:
    """Return what a death is: an error of a framework, and of what was asked for by name."""
    names = {name_of(text) for text in context.target.requirements}
    if framework_of(test.distribution) or test.distribution in names:
        return ERROR
    return WARNING


# No release of a package ships files that Python cannot compile or read.
_UNREADABLE = re.compile(
    r"(SyntaxError|IndentationError|TabError|EOFError|UnicodeDecodeError):|null bytes|bad marshal"
)
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_NAME = re.compile(r"\b[A-Za-z_][\w.]*")


def _cure(context: Context, test: ImportTest) -> Fix:
    """Reinstall what holds a file that Python cannot read, or lacks its module.

    Else show the whole traceback.
    """
    for file, words in _read_chain(test):
        lost = _NO_MODULE.search(words)
        owner = _module_owner(context, lost[1]) if lost else _owner_of(context, file)
        if owner and (lost or _UNREADABLE.search(words)):
            return ReinstallFiles((owner.pin,))
    return FollowRow(values=(("module", test.module),))


def _describe_front(context: Context, test: ImportTest) -> Finding | None:
    """Say that a death is one of files in a folder that code of Python's start puts first."""
    for folder in test.front:
        if f"{folder}/" in test.printed:
            faults = context.python.interpreter_faults.value or ()
            files = {each.name: each.path for each in faults if each.kind == "front"}
            file = files.get(folder) or files.get("", "")
            found = context.report(
                f"{label_of(test)} does not import with what it finds in {folder}, which"
                f" {file or 'code that runs when Python starts'} puts before its own packages.",
                finding_id="env-mixed",
                severity=_severity(context, test),
                cure=LeaveOutFolders((folder,), file) if file else None,
                about=About(framework_of(test.distribution), test.distribution),
            )
            return _confirmed(context, found, (test,))
    return None


def _owner_of(context: Context, path: str) -> Distribution | None:
    """Find the distribution that a file belongs to, by the top-level module that it lies in."""
    for item in context.distributions.values():
        inside = path.removeprefix(f"{item.location}/") if item.location else path
        if inside != path and inside.partition("/")[0].removesuffix(".py") in item.modules:
            return item
    return None


def _module_owner(context: Context, module: str) -> Distribution | None:
    top = module.partition(".")[0]
    owners = (item for item in context.distributions.values() if top in item.modules)
    return next(owners, None)


def _list_suspects(context: Context, test: ImportTest) -> set[str]:
    """Name the distributions that a traceback points to.

    What its exceptions name, and whose files raised them.
    """
    suspects: set[str] = set()
    for file, words in _read_chain(test):
        names = [name.partition(".")[0] for name in _NAME.findall(words)]
        owners = [_owner_of(context, file), *(_module_owner(context, name) for name in names)]
        suspects.update(item.name for item in owners if item is not None)
        suspects.update(
            name for name in map(canonical_name, names) if name in context.distributions
        )
        lost = _NO_MODULE.search(words)
        if lost:
            suspects.add(canonical_name(lost[1].partition(".")[0]))
    # compiled code raises in a file that is not installed: h5py/h5o.pyx
    inner = (_owner_of(context, file) for file in reversed(FRAME.findall(test.printed)))
    suspects.update(item.name for item in islice(filter(None, inner), 1))
    return suspects - {test.distribution}


def _explains(context: Context, finding: Finding, test: ImportTest) -> bool:
    """Return whether a claim fits a death.

    It names what the traceback points to, or, as an error, what died.
    """
    suspects = _list_suspects(context, test)
    words = map(canonical_name, re.findall(r"[\w.-]+", finding.message))
    if not suspects.isdisjoint((*words, *finding.about.names)):
        return True
    folders = finding.cure.folders if isinstance(finding.cure, LeaveOutFolders) else ()
    if any(f"{folder.rstrip('/')}/" in test.printed for folder in folders):
        return True
    if finding.id == DAMAGED and died_of_damage(context, test.distribution):
        return True
    named = {finding.about.distribution, *finding.about.names}
    return finding.severity == ERROR and (not suspects or test.distribution in named)


def _confirmed(context: Context, finding: Finding, dead: Sequence[ImportTest]) -> Finding:
    is_error = finding.severity == ERROR or any(_severity(context, test) == ERROR for test in dead)
    evidence = (*finding.evidence, *map(_evidence, dead))
    return replace(
        finding, severity=ERROR if is_error else WARNING, evidence=evidence, stops=dead[0].stage
    )


def _evidence(test: ImportTest) -> Evidence:
    computing = ", computing" if test.stage == USE else ""
    return Evidence("python.imports", f"{label_of(test)}{computing}: {last_words(test)}")


def _claims_import(finding: Finding) -> bool:
    is_real = finding.severity != NOTE and finding.verdict == INCOMPATIBLE
    return is_real and what_stops(finding) == IMPORT


def _tests_of(finding: Finding, tests: Sequence[ImportTest]) -> tuple[ImportTest, ...]:
    """Return the imports that a finding speaks of.

    Those that it names, else those of the frameworks.

    One that names nothing may also be about a package on top whose import died.
    """
    about = finding.about
    names = {about.distribution, *about.names}
    named = [each for each in tests if each.distribution in names]
    named += [
        each
        for each in tests
        if about.framework and framework_of(each.distribution) == about.framework
    ]
    if named or about.distribution or about.names:
        return tuple(named)
    return tuple(
        each for each in tests if framework_of(each.distribution) or each.outcome == FAILED
    )


def _refuted(finding: Finding, tests: Sequence[ImportTest]) -> Finding:
    if finding.severity == WARNING and not catalogue()[finding.id].is_refuted:
        return finding  # a damaged file stays one
    severity = WARNING if finding.severity == ERROR else NOTE
    names = " and ".join(label_of(test) for test in tests)
    verb = "import" if len(tests) > 1 else "imports"
    seen = tuple(
        Evidence("python.imports", f"{label_of(test)}: imports, {test.seconds:.1f} s")
        for test in tests
    )
    message = f"{finding.message} {names} {verb} all the same."
    return replace(finding, severity=severity, message=message, evidence=(*finding.evidence, *seen))

"""The processor's name and the instructions it offers."""

from __future__ import annotations

import re
from typing import Dict, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.records import dataclass

_CPUINFO = "/proc/cpuinfo"
# One processor takes 1 to 2 KB there; the kernel makes the text as it is read, for hundreds of them slowly.
_CPUINFO_BYTES = 8192
_SYSCTL = ("/usr/sbin/sysctl", "machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features")


@dataclass(frozen=True)
class CpuFacts:
    """Model name and instruction flags of the first processor."""

    model: Fact[str]
    flags: Fact[Tuple[str, ...]]


def read_cpu(host: Host) -> CpuFacts:
    """Read /proc/cpuinfo, or what macOS and Windows have in its place."""
    if host.system == "darwin":
        return _from_sysctl(host)
    if host.system == "windows":
        model = host.environment().get("PROCESSOR_IDENTIFIER", "")
        named = Known(model, Source("env", "PROCESSOR_IDENTIFIER")) if model else Absent(("PROCESSOR_IDENTIFIER",))
        flags = host.system_facts().get("cpu_flags")
        if flags is None:
            return CpuFacts(named, Unknown("failed", "Windows does not list the processor's instructions"))
        return CpuFacts(named, Known(tuple(flags), Source("library", "IsProcessorFeaturePresent", " ".join(flags))))
    text = host.read_text(_CPUINFO, _CPUINFO_BYTES)
    return _from_fields(parse_cpuinfo(text.value)) if isinstance(text, Known) else CpuFacts(text, text)


def parse_cpuinfo(text: str) -> Dict[str, str]:
    """Return the fields of the first processor, names in lower case.

    processor	: 0
    vendor_id	: AuthenticAMD
    model name	: AMD EPYC
    flags		: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat avx avx2 fma

    On ARM the flags are called Features, and no field names the model:

    processor	: 0
    Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid
    CPU implementer	: 0x41
    """
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    pairs = re.findall(r"^([^:\n]+?)[ \t]*:[ \t]*(.*)$", first, re.MULTILINE)
    return {name.strip().lower(): value.strip() for name, value in pairs}


def _from_fields(fields: Dict[str, str]) -> CpuFacts:
    name = next((fields[key] for key in ("model name", "cpu model", "hardware") if fields.get(key)), "")
    words = fields.get("flags") or fields.get("features") or ""
    model: Fact[str] = Known(name, Source("file", _CPUINFO)) if name else Absent((f"model name in {_CPUINFO}",))
    if not words:
        return CpuFacts(model, Unknown("unparsable", f"{_CPUINFO} lists no flags", (_CPUINFO,)))
    return CpuFacts(model, Known(tuple(words.lower().split()), Source("file", _CPUINFO, _vector_part(words))))


def _from_sysctl(host: Host) -> CpuFacts:
    answer = host.run((_SYSCTL[0], "-n", *_SYSCTL[1:]))
    if not isinstance(answer, Known):
        return CpuFacts(answer, answer)
    name, _, features = answer.value.stdout.strip().partition("\n")  # Apple's own chips print the name alone
    source = Source("command", " ".join(_SYSCTL[:2]))
    model: Fact[str] = Known(name, source) if name else Unknown("unparsable", "sysctl names no processor")
    words = re.sub(r"\bavx1\.0\b", "avx", features.lower()).replace(".", "_").split()
    return CpuFacts(model, Known(tuple(words), source) if words else Absent(_SYSCTL[2:]))


def _vector_part(words: str) -> str:
    return " ".join(word for word in words.split() if re.match(r"avx|fma$|asimd|sve", word))[:200]

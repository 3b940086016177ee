"""Read the processor's name and its instructions."""

from __future__ import annotations

import re
from typing import Dict, Tuple

from envcheck.host.paths import or_unmounted
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, Source, Unknown, from_file
from envcheck.model.text import parse_fields

_CPUINFO = "/proc/cpuinfo"
# One processor has 1 to 2 KB there; the kernel creates the text on reading, slowly for hundreds of
# processors.
_CPUINFO_BYTES = 8192
_SYSCTL = (
    "/usr/sbin/sysctl",
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
)


def read_cpu(host: Host) -> Tuple[Fact[str], Fact[Tuple[str, ...]]]:
    """Return model name and instruction flags of the first processor."""
    if host.system == "darwin":
        return _read_sysctl(host)
    if host.system == "windows":
        return _read_windows_cpu(host)
    text = host.read_text(_CPUINFO, _CPUINFO_BYTES)
    fields = parse_cpuinfo(text.value or "")
    if not fields:
        unread = or_unmounted(host, text, "/proc")
        if not isinstance(unread, Unknown):
            unread = Unknown("failed", f"{_CPUINFO} is missing or empty", (_CPUINFO,))
        return unread, unread
    name = next(
        (fields[key] for key in ("model name", "cpu model", "hardware") if fields.get(key)), ""
    )
    words = fields.get("flags") or fields.get("features") or ""
    model: Fact[str] = from_file(name, _CPUINFO) if name else Absent((f"model name in {_CPUINFO}",))
    if not words:
        return model, Unknown("unparsable", f"{_CPUINFO} lists no flags", (_CPUINFO,))
    vector_flags = " ".join(
        word for word in words.split() if re.match(r"avx|fma$|asimd|sve", word)
    )[:200]
    return model, from_file(tuple(words.lower().split()), _CPUINFO, vector_flags)


def parse_cpuinfo(text: str) -> Dict[str, str]:
    """Parse the fields of the first processor; names become lower case.

    processor	: 0
    vendor_id	: AuthenticAMD
    model name	: AMD EPYC
    flags		: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat avx avx2 fma

    On ARM the flags are called Features, and no field has the model:

    processor	: 0
    Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid
    CPU implementer	: 0x41
    """
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    return {name.lower(): value for name, value in parse_fields(first).items()}


def _read_windows_cpu(host: Host) -> Tuple[Fact[str], Fact[Tuple[str, ...]]]:
    name = host.environment().get("PROCESSOR_IDENTIFIER", "")
    source = Source("env", "PROCESSOR_IDENTIFIER")
    model: Fact[str] = Known(name, source) if name else Absent(("PROCESSOR_IDENTIFIER",))
    flags = host.system_facts().get("cpu_flags")
    if flags is None:
        return model, Unknown("failed", "Windows does not list the processor's instructions")
    return model, Known(
        tuple(flags), Source("library", "IsProcessorFeaturePresent", " ".join(flags))
    )


def _read_sysctl(host: Host) -> Tuple[Fact[str], Fact[Tuple[str, ...]]]:
    answer = host.run((_SYSCTL[0], "-n", *_SYSCTL[1:]))
    if not isinstance(answer, Known):
        return answer, answer
    # Apple's own chips print only the name
    name, _, features = answer.value.stdout.strip().partition("\n")
    source = Source("command", " ".join(_SYSCTL[:2]))
    model: Fact[str] = (
        Known(name, source) if name else Unknown("unparsable", "sysctl printed no processor name")
    )
    flags = re.sub(r"\bavx1\.0\b", "avx", features.lower()).replace(".", "_").split()
    return model, Known(tuple(flags), source) if flags else Absent(_SYSCTL[2:])

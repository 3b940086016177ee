"""Run a PTX kernel on the processor, one thread of a block after the other: the few instructions ours is made of.

The kernel is turned into a Python generator that stops at barriers. Numbers are not rounded. An access outside a matrix, or one not aligned to its size, raises.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

WORD, LONG = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_SIZES = {"f32": 4, "u32": 4}
_CODES = {"f32": "f", "u32": "I"}


class Memory:
    """The arrays a kernel is given, each at an address of its own, and the tiles of one block."""

    def __init__(self, arrays: Sequence[list[Any]]) -> None:
        self.arrays = arrays
        self.tiles = bytearray(1 << 14)

    def load(self, address: int) -> Any:
        return self.arrays[(address >> 40) - 1][self._index(address)]

    def store(self, address: int, value: Any) -> None:
        self.arrays[(address >> 40) - 1][self._index(address)] = value

    def _index(self, address: int) -> int:
        offset = address & ((1 << 40) - 1)
        array = self.arrays[(address >> 40) - 1]
        if offset % 4 or offset >> 39 or offset // 4 >= len(array):
            raise IndexError(f"access at byte {offset} of {len(array)} elements")
        return offset // 4

    def tile_load(self, address: int, kind: str, count: int) -> tuple[Any, ...]:
        if address % (_SIZES[kind] * count):
            raise ValueError(f"misaligned access to {address}")
        return struct.unpack_from(f"<{count}{_CODES[kind]}", self.tiles, address)

    def tile_store(self, address: int, kind: str, value: Any) -> None:
        struct.pack_into(f"<{_CODES[kind]}", self.tiles, address, value)


_BINARY = {
    "add.s32": f"({{1}} + {{2}}) & {WORD}", "add.s64": f"({{1}} + {{2}}) & {LONG}", "add.f32": "{1} + {2}",
    "and.b32": f"{{1}} & {{2}} & {WORD}", "or.b32": "{1} | {2}", "or.pred": "{1} or {2}", "and.pred": "{1} and {2}",
    "shl.b32": f"({{1}} << {{2}}) & {WORD}", "shl.b64": f"({{1}} << {{2}}) & {LONG}", "shr.u32": "{1} >> {2}",
    "mul.wide.u32": "{1} * {2}", "mul.lo.s64": f"({{1}} * {{2}}) & {LONG}",
    "setp.ge.u32": "{1} >= {2}", "setp.lt.u32": "{1} < {2}", "setp.eq.s32": "{1} == {2}", "setp.ne.s32": "{1} != {2}",
    "fma.rn.f32": "{1} * {2} + {3}",
    "bfi.b32": f"({{2}} & ~(((1 << {{4}}) - 1) << {{3}}) | ({{1}} & ((1 << {{4}}) - 1)) << {{3}}) & {WORD}",
    "cvt.u32.u64": f"{{1}} & {WORD}",
}  # fmt: skip
_COPIES = (
    "mov.u32",
    "mov.u16",
    "mov.f32",
    "cvt.u64.u32",
    "cvta.to.global.u64",
    "ld.param.u64",
    "ld.param.u32",
)


def compile_kernel(text: str) -> Any:
    """Turn a kernel into a function `thread(memory, here)` that yields at each barrier; `here` holds its registers."""
    body = text[text.index("{") + 1 : text.rindex("}")]
    body, tiles = re.sub(r"//.*", "", body), {}
    offset = 0
    for align, name, size in re.findall(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\];", body):
        offset = -(-offset // 256) * 256 + int(align)  # nothing is aligned better than it asks for
        tiles[name] = offset
        offset += int(size)
    blocks: list[list[str]] = [[]]
    labels: dict[str, int] = {}
    for line in filter(None, map(str.strip, body.splitlines())):
        if line.endswith(":"):
            blocks.append([])
            labels[line[:-1]] = len(blocks) - 1
        elif not line.startswith("."):
            blocks[-1].append(line)
            if " bra" in f" {line}":
                blocks.append([])
    source = ["def thread(memory, here):", " at = 0", " while True:"]
    for number, lines in enumerate(blocks):
        source.append(f"  if at == {number}:")
        source += [f"   {_statement(line, tiles, labels)}" for line in lines]
        source.append(f"   at = {number + 1}")
    names: dict[str, Any] = {}
    exec(compile("\n".join(source), "kernel", "exec"), names)
    return names["thread"]


def _statement(line: str, tiles: dict[str, int], labels: dict[str, int]) -> str:
    match = re.fullmatch(r"(?:@(%p\d+) )?([\w.]+) ?(.*);", line)
    assert match, line
    predicate, name, rest = match.groups()
    if name in ("bra", "bra.uni"):
        jump = f"at = {labels[rest]}; continue"
        return f"if {_value(predicate, tiles)}: {jump}" if predicate else f"if True: {jump}"
    if name == "ret":
        return "return"
    if name == "bar.sync":
        return "yield"
    return _computed(name, re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest), tiles)


def _computed(name: str, words: list[str], tiles: dict[str, int]) -> str:
    values = [_value(word, tiles) for word in words]
    if name in _COPIES:
        return f"{values[0]} = {values[1]}"
    if name.startswith(("ld.", "st.")):
        return _access(name, values)
    return f"{values[0]} = {_BINARY[name].format(*values)}"


def _access(name: str, values: list[str]) -> str:
    operation, kind = name.rsplit(".", 1)
    if operation == "ld.global":
        return f"{values[0]} = memory.load({values[1]})"
    if operation == "st.global":
        return f"memory.store({values[0]}, {values[1]})"
    if operation == "st.shared":
        return f"memory.tile_store({values[0]}, '{kind}', {values[1]})"
    count = int(operation[-1]) if ".v" in operation else 1
    target = values[0] if count > 1 else f"({values[0]},)"
    return f"{target} = memory.tile_load({values[1]}, '{kind}', {count})"


def _value(word: str, tiles: dict[str, int]) -> str:
    if word.startswith("{"):
        return "(" + ", ".join(_value(part.strip(), tiles) for part in word[1:-1].split(",")) + ")"
    if word.startswith("["):
        return f"({' + '.join(_value(part, tiles) for part in word[1:-1].split('+'))})"
    if word.startswith("0f"):
        return repr(struct.unpack(">f", bytes.fromhex(word[2:]))[0])
    if word in tiles:
        return str(tiles[word])
    return word if re.fullmatch(r"-?\d+", word) else f"here['{word}']"


def launch(thread: Any, memory: Memory, sizes: tuple[int, int, int], threads: int = 256) -> None:
    """Run every block of a product c[m x n] = a[m x k] * b[k x n]."""
    rows, columns, _ = sizes
    for y in range((rows + 63) // 64):
        for x in range((columns + 63) // 64):
            given = {f"param_{name}": (number + 1) << 40 for number, name in enumerate("abc")}
            given |= {f"param_{name}": size for name, size in zip("mnk", sizes, strict=True)}
            given |= {"%ctaid.x": x, "%ctaid.y": y}
            _run_block([thread(memory, {**given, "%tid.x": number}) for number in range(threads)])


def _run_block(threads: list[Iterator[None]]) -> None:
    running = threads
    # from one barrier to the next; a barrier that not all threads reach would hang a GPU
    while running:
        stopped = [next(one, threads) is None for one in running]
        assert len(set(stopped)) == 1, "some threads wait at a barrier that others never reach"
        running = running if stopped[0] else []

"""Type lines as they are printed for Windows into cmd.exe, Wine's as a stand-in, and see what the program reads.

python bench/windows_lines.py; needs wine64 and x86_64-w64-mingw32-gcc (Debian: wine64, gcc-mingw-w64-x86-64). No
PowerShell is at hand: tests/render/windows_shells.py reads lines by its documented rules.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

from envcheck.actions import windows_line

WORDS = [
    *(
        "setuptools<82",
        "numpy<2,>=1",
        "tensorflow[and-cuda]",
        "--only-binary=:all:",
        "import x; d = ['a']; print(x)",
    ),
    *(
        "a&calc",
        "a|b",
        "^",
        "(b)",
        "it's",
        "'a b'",
        "x>y",
        "!x!",
        "@x",
        "#x",
        "{y}",
        "a=b",
        "a,b",
        "a;b",
        "*",
        "?",
        "/s",
    ),
    *(
        "",
        "C:\\my dir\\",
        "C:\\d\\",
        "\\",
        "a\\\\",
        "a b\\\\",
        "-Dx.y=1",
        "-",
        "--",
        "x-",
        "1kb",
        "0x10",
        "12.80",
    ),
    *("\xe9", "~", "~/x"),
]
FOLDERS = ["my dir", "\xe9", "a(b)", "a@b", "(x)", "a-b", "a+b", "~", "a&b", "x^y", "it's"]
SHOW = r"""
#include <stdio.h>
#include <wchar.h>
int wmain(int count, wchar_t **words) {
  for (int i = 1; i < count; i++, putchar('\n'))
    for (wchar_t *at = words[i]; *at; at++) *at < 127 && *at > 31 ? putchar(*at) : printf("{%x}", *at);
  return 0;
}
"""
CODE_PAGE = "cp437"  # in which Wine's cmd reads a file


def main() -> None:
    """Say how many lines were read as they were meant, and show the others."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _build()
        asked = [*_of_words(), *_of_programs(), _with_a_variable()]
        answers = _typed([line for line, _ in asked])
    wrong = [
        (line, read)
        for (line, meant), read in zip(asked, answers, strict=True)
        if read != [*map(_shown, meant)]
    ]
    for line, read in wrong:
        print(line, read)
    print(f"{len(asked) - len(wrong)} of {len(asked)} lines were read as they were meant")


def _build() -> None:
    Path("show.c").write_text(SHOW, encoding="ascii")
    subprocess.run(
        ["x86_64-w64-mingw32-gcc", "-municode", "show.c", "-o", "show.exe"], check=True, timeout=60
    )


def _of_words() -> list[tuple[str, list[str]]]:
    choose = random.Random(1)
    several = [choose.sample(WORDS, 5) for _ in range(60)]
    return [
        (windows_line(("show.exe", *words)), words)
        for words in (*([word, "z"] for word in WORDS), *several)
    ]


def _of_programs() -> list[tuple[str, list[str]]]:
    asked: list[tuple[str, list[str]]] = []
    for name in FOLDERS:
        Path(name).mkdir()
        shutil.copy("show.exe", Path(name, "show.exe"))
        whole = "Z:" + str(Path(name, "show.exe").absolute()).replace("/", "\\")
        programs = (f"{name}\\show.exe", f"./{name}/show.exe", whole)
        asked += [(windows_line((program, "a b", "c")), ["a b", "c"]) for program in programs]
    return asked


def _with_a_variable() -> tuple[str, list[str]]:
    words = ["create", "-p", "./x", "pytorch=2.5.*=cuda*"]
    return windows_line(("show", *words), {"CONDA_OVERRIDE_CUDA": "12.4"}), words


def _typed(lines: list[str]) -> list[list[str]]:
    text = "".join(f"echo ===\r\n{line}\r\n" for line in lines)
    Path("lines.bat").write_bytes(f"@echo off\r\n{text}".encode(CODE_PAGE))
    wine = shutil.which("wine64") or "/usr/lib/wine/wine64"
    told = {**os.environ, "WINEDEBUG": "-all", "DISPLAY": ""}
    argv = [wine, "cmd", "/c", "lines.bat"]
    done = subprocess.run(
        argv, env=told, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, timeout=600
    )
    said = done.stdout.decode(CODE_PAGE).replace("\r", "")
    return [part[:-1].split("\n") for part in said.split("===\n")[1:]]


def _shown(word: str) -> str:
    return "".join(mark if 31 < ord(mark) < 127 else f"{{{ord(mark):x}}}" for mark in word)


if __name__ == "__main__":
    main()

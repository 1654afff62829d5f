"""The table of environment variables, here and in C++."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from aotattn import knobs

ROOT = Path(__file__).parents[2]


def test_both_tables_have_the_same_rows(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    assert compiler, "no C++ compiler: apt-get install g++"
    source = tmp_path / "ask.cc"
    source.write_text(
        f'#include "{ROOT}/v2src/knobs.h"\n#include <cstdio>\n'
        "#define ASK(function, name, normally, meaning) std::puts(name); std::puts(normally); std::puts(meaning);\n"
        "int main() { AOT_KNOB_LIST(ASK) }\n"
    )
    subprocess.run([compiler, "-std=c++20", "-o", tmp_path / "ask", source], check=True)
    said = subprocess.run([tmp_path / "ask"], check=True, capture_output=True, text=True).stdout.splitlines()
    assert said == [word for k in knobs.KNOBS.values() for word in (k.name, k.default, k.meaning)]


def test_a_knob_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AOTATTN_HIP_LIBRARY", raising=False)
    assert knobs.value("AOTATTN_HIP_LIBRARY") == ""
    monkeypatch.setenv("AOTATTN_HIP_LIBRARY", "/x.so")
    assert knobs.value("AOTATTN_HIP_LIBRARY") == "/x.so"


def test_nobody_else_in_python_reads_the_environment() -> None:
    readers = [
        path.name
        for path in (ROOT / "python").rglob("*.py")
        if path.name != "knobs.py" and re.search(r"environ\.get|environ\[|getenv", path.read_text())
    ]
    assert readers == []

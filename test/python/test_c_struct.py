"""The public header against the descriptions and the ctypes structs, by what a C compiler says of it."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from aotattn import runtime
from aotattn.describe import Choice, Scalar, Tensor
from aotattn.dtypes import DTYPES
from aotattn.runtime import OPERATORS, CCall, CTensor

HEADER = Path(__file__).parents[2] / "include" / "aotattn" / "aotattn.h"
ENUM_PREFIX = {"mask": "AOT_MASK_", "alignment": "AOT_"}  # what the header puts before a choice's values
C_TYPES = {
    "i32": "int32_t",
    "u32": "uint32_t",
    "i64": "int64_t",
    "f32": "float",
    "tensor": "aot_tensor",
    "pointer": "void*",
    "text": "const char*",
    "allocate": "aot_allocate_fn",
    "sizes": "int64_t*",  # an array in a generic selection
}
CTYPES = {
    ctypes.c_int32: "i32",
    ctypes.c_uint32: "u32",
    ctypes.c_int64: "i64",
    ctypes.c_float: "f32",
    CTensor: "tensor",
    ctypes.c_void_p: "pointer",
    ctypes.c_char_p: "text",
    runtime.ALLOCATE_FN: "allocate",
    ctypes.c_int64 * 4: "sizes",
}


def compiled(tmp_path: Path, body: str) -> list[list[str]]:
    """Compile and run a C program; the words of each line that it prints."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "no C compiler: apt-get install gcc"
    source = tmp_path / "ask.c"
    source.write_text(f'#include "{HEADER}"\n#include <stdio.h>\nint main(void) {{\n{body}\nreturn 0;\n}}\n')
    subprocess.run([compiler, "-std=c11", "-Wall", "-Werror", "-o", tmp_path / "ask", source], check=True)
    done = subprocess.run([tmp_path / "ask"], check=True, capture_output=True, text=True)
    return [line.split() for line in done.stdout.splitlines()]


def ask_fields(struct: str, names: list[str]) -> str:
    kinds = ", ".join(f'{c}: "{name}"' for name, c in C_TYPES.items())
    lines = [
        f'printf("{name} %zu %zu %s\\n", offsetof({struct}, {name}), sizeof((({struct}*)0)->{name}), '
        f"_Generic((({struct}*)0)->{name}, {kinds}));"
        for name in names
    ]
    return "\n".join([*lines, f'printf("sizeof 0 %zu struct\\n", sizeof({struct}));'])


def fields_of(struct: type[ctypes.Structure]) -> list[list[str]]:
    rows = []
    for field in struct._fields_:
        name, kind = field[0], field[1]
        place = getattr(struct, name)
        rows.append([name, str(place.offset), str(place.size), CTYPES[kind]])
    return [*rows, ["sizeof", "0", str(ctypes.sizeof(struct)), "struct"]]


@pytest.mark.parametrize("op", OPERATORS)
def test_the_parameter_struct_has_the_fields_of_the_description_in_order(op: str, tmp_path: Path) -> None:
    kinds = {Choice: lambda a: "i32", Scalar: lambda a: a.dtype, Tensor: lambda a: "tensor"}
    described = [("struct_size", "u32"), *((a.name, kinds[type(a)](a)) for a in OPERATORS[op].args)]
    said = compiled(tmp_path, ask_fields(f"aot_{op}_params", [name for name, _ in described]))
    assert [(name, kind) for name, _, _, kind in said[:-1]] == described
    offsets = [int(offset) for _, offset, _, _ in said[:-1]]
    assert offsets == sorted(offsets)
    end = 0  # no room between the fields for one that the description lacks
    for _, offset, size, _ in said[:-1]:
        assert int(offset) - end < 8
        end = int(offset) + int(size)
    assert int(said[-1][2]) - end < 8


@pytest.mark.parametrize("op", OPERATORS)
def test_ctypes_lays_the_parameters_out_as_c_does(op: str, tmp_path: Path) -> None:
    names = ["struct_size", *(a.name for a in OPERATORS[op].args)]
    said = compiled(tmp_path, ask_fields(f"aot_{op}_params", names))
    assert said == fields_of(runtime.parameter_struct(op))


@pytest.mark.parametrize(("name", "struct"), [("aot_tensor", CTensor), ("aot_call", CCall)])
def test_ctypes_lays_tensors_and_calls_out_as_c_does(name: str, struct: type[ctypes.Structure], tmp_path: Path) -> None:
    said = compiled(tmp_path, ask_fields(name, [field[0] for field in struct._fields_]))
    assert said == fields_of(struct)


def test_enum_values_are_those_of_the_tables(tmp_path: Path) -> None:
    names = {f"AOT_{d.name.upper()}": d.code for d in DTYPES.values() if d.code}
    names |= {f"AOT_{name.upper()}": value for name, value in runtime.PLATFORMS.items()}
    for arg in (a for op in OPERATORS.values() for a in op.args if isinstance(a, Choice)):
        names |= {f"{ENUM_PREFIX[arg.name]}{str(v).upper()}": at for at, v in enumerate(arg.values)}
    said = compiled(tmp_path, "\n".join(f'printf("{name} %d\\n", (int){name});' for name in names))
    assert said == [[name, str(value)] for name, value in names.items()]


def test_the_library_names_every_status_as_the_header_does(tmp_path: Path, library: ctypes.CDLL) -> None:
    ask = '#define ASK(name, value, meaning) printf("%s %d %d\\n", #name, (int)name, value);\nAOT_STATUS_LIST(ASK)'
    said = compiled(tmp_path, ask)
    assert len({value for _, value, _ in said}) == len(said)
    for name, value, listed in said:
        assert value == listed
        assert runtime.status_name(int(value)) == name

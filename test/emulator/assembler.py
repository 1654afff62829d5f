"""AMDGPU assembly to words and to code objects, with the assembler inside Triton's LLVM."""

import functools
import struct
import tempfile
from pathlib import Path

from triton._C.libtriton import amd
from triton.backends.amd.compiler import assemble_amdgcn

KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl test_kernel
.p2align 8
.type test_kernel,@function
test_kernel:
{body}
.Lend:
.size test_kernel, .Lend-test_kernel
.rodata
.p2align 6
.amdhsa_kernel test_kernel
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_kernarg_size {kernarg}
  .amdhsa_user_sgpr_count 2
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_vgpr_workitem_id 0
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr 48
  .amdhsa_accum_offset 64
  .amdhsa_float_denorm_mode_32 3
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.kernels:
  - .name: test_kernel
    .symbol: test_kernel.kd
    .kernarg_segment_size: {kernarg}
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .kernarg_segment_align: 8
    .wavefront_size: 64
    .sgpr_count: 48
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: {threads}
    .args:
{args}
...
.end_amdgpu_metadata
"""


def sections(elf):
    """(name, type, address, offset, size) of every section of an ELF file."""
    shoff = struct.unpack_from("<Q", elf, 40)[0]
    shentsize, shnum, shstrndx = struct.unpack_from("<HHH", elf, 58)
    heads = [struct.unpack_from("<IIQQQQ", elf, shoff + k * shentsize) for k in range(shnum)]
    names = heads[shstrndx][4]
    for name, kind, _, address, offset, size in heads:
        start = names + name
        yield elf[start : elf.index(b"\0", start)].decode(), kind, address, offset, size


def text(elf):
    """(address, offset, words) of the code of an ELF file."""
    for name, _, address, offset, size in sections(elf):
        if name == ".text":
            return address, offset, struct.unpack_from(f"<{size // 4}I", elf, offset)
    raise ValueError("no .text section")


@functools.cache
def words(source):
    """Machine words of a few instructions, with s_endpgm behind them."""
    elf = assemble_amdgcn(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n{source}\ns_endpgm\n', "gfx950", "")
    return text(bytes(elf))[2]


@functools.cache
def kernel(body, *, pointers=1, lds=0, scratch=0, vgprs=64, threads=256):
    """Code object of `test_kernel`: `pointers` pointer arguments, then one i32."""
    args = "".join(
        f"      - .offset: {8 * k}\n        .size: 8\n        .value_kind: global_buffer\n"
        "        .address_space: global\n"
        for k in range(pointers)
    )
    args += f"      - .offset: {8 * pointers}\n        .size: 4\n        .value_kind: by_value\n"
    source = KERNEL.format(
        body=body, lds=lds, scratch=scratch, vgprs=vgprs, threads=threads, args=args, kernarg=8 * pointers + 8
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "k.o").write_bytes(assemble_amdgcn(source, "gfx950", ""))
        amd.link_hsaco(str(path / "k.o"), str(path / "k.hsaco"))
        return (path / "k.hsaco").read_bytes()


def patch(image, address, word):
    """The code object with the word at a code address replaced."""
    start, offset, _ = text(image)
    changed = bytearray(image)
    struct.pack_into("<I", changed, offset + address - start, word)
    return bytes(changed)

"""Our decoder against LLVM's, on every instruction of whole kernels."""

import re
import shutil
import subprocess

import aiter_wheel as aiter
import assembler
import pytest
import triton_kernels

OBJDUMP = next((p for p in map(shutil.which, ("llvm-objdump-22", "llvm-objdump")) if p), None)


def listing(image, folder):
    """(address, number of words, mnemonic without encoding suffix) as LLVM prints them."""
    path = folder / "k.hsaco"
    path.write_bytes(image)
    command = [OBJDUMP, "-d", "--mcpu=gfx950", "--disassemble-zeroes", str(path)]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        match = re.match(r"\s+(\S+).*// 0*([0-9A-F]+): ((?:[0-9A-F]{8} ?)+)", line)
        if match:
            yield int(match[2], 16), len(match[3].split()), re.sub(r"_(e32|e64)$", "", match[1])


def compare(hip, image, folder):
    start, _, words = assembler.text(image)
    compared = 0
    for address, count, mnemonic in listing(image, folder):
        if mnemonic in ("s_code_end",) or mnemonic.startswith("."):
            continue
        at = (address - start) // 4
        text, size = hip.disassemble(words[at : at + 3])
        assert (text.split()[0], size) == (mnemonic, 4 * count), f"{address:#x}: {text}"
        compared += 1
    assert compared > 50
    return compared


@pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump is not installed")
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_triton_kernels_decode_as_llvm_says(hip, tmp_path, dtype):
    tile = {"num_stages": 1, "block_m": 64, "block_n": 32} if dtype == "fp32" else {}
    for ranged in (True, False):
        compare(hip, triton_kernels.attention(dtype, 64, True, ranged=ranged, **tile).asm["hsaco"], tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump is not installed")
def test_every_shipped_gfx950_attention_kernel_decodes_as_llvm_says(hip, tmp_path, tmp_path_factory):
    import zipfile

    wheel = aiter.wheel(tmp_path_factory.mktemp("wheel"))
    if wheel is None:
        pytest.skip(f"{aiter.REQUIREMENT} cannot be downloaded here")
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if re.match(rf"{aiter.FOLDER}/fmha_v3_(fwd|bwd)/.*\.co$", n)]
        total = sum(compare(hip, archive.read(name), tmp_path) for name in names)
    print(f"{len(names)} kernels, {total} instructions")

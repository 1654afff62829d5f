"""AITER's attention code objects: kernels nobody here wrote.

The set-up downloads the pinned wheel with pip into a cache folder, or takes it from
AOTATTN_AITER_WHEEL; its files are never committed. Layouts: docs of the AMD assembly backend.
"""

import hashlib
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

REQUIREMENT = "amd-aiter==0.1.7.post2.dev18"
SHA256 = "fe139d74438217c35e87e3b961166bac8db2d381eadccb371da2e63615f05a31"
FOLDER = "aiter_meta/hsa/gfx950"


def wheel(cache):
    """Path of the verified wheel, or None when it cannot be had here."""
    given = os.environ.get("AOTATTN_AITER_WHEEL")
    found = [Path(given)] if given else sorted(Path(cache).glob("amd_aiter-*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--pre", "--dest", str(cache)]
        if subprocess.run([*command, REQUIREMENT], check=False, capture_output=True).returncode:
            return None
        found = sorted(Path(cache).glob("amd_aiter-*.whl"))
    digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
    assert digest == SHA256, f"{found[0]}: sha256 is {digest}, expected {SHA256}"
    return found[0]


def code_object(path, name):
    with zipfile.ZipFile(path) as archive:
        return archive.read(f"{FOLDER}/{name}")


def symbol(stem, suffix=""):
    inner = f"fmha_{stem}{suffix}"
    return f"_ZN5aiter{len(inner)}{inner}E"


def slots(values, total, step=16):
    """A block with one value a slot; `values` are (format, value) in slot order, None skips."""
    block = bytearray(total)
    for index, entry in enumerate(values):
        if entry is not None:
            struct.pack_into(f"<{entry[0]}", block, index * step, entry[1])
    return bytes(block)


def forward_block(out, q, k, v, lse, scale, heads_q, heads_k, seqlen_q, seqlen_k, head_dim, tile_rows=256, options=0):
    """Argument block of the hd128 forward for contiguous [batch, heads, rows, head_dim] bf16."""
    row = head_dim * 2
    hq, hk = seqlen_q * row, seqlen_k * row
    return slots(
        [
            ("Q", out), ("Q", q), ("Q", k), ("Q", v), ("Q", lse), ("f", scale), ("I", seqlen_q), ("I", row),
            ("I", tile_rows * row), ("I", hq), ("I", heads_q * hq), ("I", heads_q // heads_k), ("I", row), ("I", hk),
            ("I", heads_k * hk), ("I", options), ("I", 1), ("I", seqlen_k), ("I", head_dim), ("I", head_dim),
            ("I", heads_q), ("I", row), ("I", hk), ("I", heads_k * hk), ("I", row), ("I", hq), ("I", heads_q * hq),
            None, None, ("I", seqlen_q * 4), None, None,
        ],
        512,
    )  # fmt: skip


def backward_block(p, scale, heads_q, heads_k, seqlen_q, seqlen_k, head_dim, tile_keys):
    """Argument block (class NAT) for contiguous bf16 tensors; `p` maps names to device pointers."""
    row = head_dim * 2
    hq, hk = seqlen_q * row, seqlen_k * row
    bq, bk, bdk = heads_q * hq, heads_k * hk, heads_q * hk
    return slots(
        [
            ("Q", p["dq"]), ("Q", p["dk"]), ("Q", p["dv"]), ("Q", p["q"]), ("Q", p["k"]), ("Q", p["v"]),
            ("Q", p["dout"]), ("Q", p["lse"]), ("Q", p["delta"]), ("f", scale), ("f", 1.4426950408889634),
            ("I", seqlen_q), ("I", tile_keys * row), ("I", hq), ("I", bq), ("I", row), ("I", heads_q // heads_k),
            ("I", hk), ("I", bk), ("I", row), ("I", row), ("I", seqlen_k), ("I", head_dim), ("I", head_dim),
            ("I", heads_q), ("I", hk), ("I", bk), ("I", row), ("I", hq), ("I", bq), ("I", row),
            ("I", hk), ("I", bdk), ("I", hk), ("I", bdk), ("I", row), ("I", seqlen_q * 4),
            None, None, None, None, ("I", (seqlen_q + 15) // 16 * 16), None, None,
        ],
        704,
    )  # fmt: skip

"""Compiler backends: a variant in, an image with its launch facts out. One module a compiler; none imports another."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..store import Image


@dataclass(frozen=True)
class Compiled(Image):
    """An image and what the compiler said of it.

    facts    registers, spill_bytes, ...: reported by the build
    refused  reasons why this image must not ship; empty if it may
    """

    facts: Mapping[str, int]
    refused: tuple[str, ...]

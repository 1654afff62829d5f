"""The text rows of tuning_db/: one file an arch and operator, one row a candidate and problem, sorted.

The files are a record that people review: a diff shows which kernel got faster, and by whose run.
"""

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from ..describe import UserError

PROVENANCES = ("measured", "modelled", "prior")  # the first beats the others


@dataclass(frozen=True)
class Row:
    """How one plan did on one problem.

    features       text of all features of the functional
    batch_heads    batch * heads_q
    time_us        median; None where nobody measured (prior)
    spread         of the measured times, interquartile range over median
    error          largest error over the allowed one, of the numbers that the plan gave
    revision       of the library that was measured, or the rule's name
    """

    features: str
    compute_units: int
    seqlen_q: int
    seqlen_k: int
    batch_heads: int
    backend: str
    kernel: str
    config: str
    time_us: float | None
    spread: float | None
    error: float | None
    provenance: str
    device: str
    revision: str

    @property
    def bin(self) -> tuple[str, int, int, int, int]:
        return (self.features, self.compute_units, self.seqlen_q, self.seqlen_k, self.batch_heads)

    @property
    def plan(self) -> str:
        return f"{self.backend}/{self.kernel}/{self.config}"

    @property
    def rank(self) -> tuple[int, float, str]:
        """Of the rows of a bin the smallest is the winner: provenance, then time, then text."""
        return (PROVENANCES.index(self.provenance), self.time_us or 0.0, self.plan)


COLUMNS = tuple(f.name for f in fields(Row))


def rows_path(directory: Path, arch: str, operator: str) -> Path:
    return directory / f"{arch}-{operator}.tsv"


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, none if there is no file. Raises UserError naming the line that is wrong."""
    if not path.exists():
        return []
    header, *lines = path.read_text().splitlines() or [""]
    if tuple(header.split("\t")) != COLUMNS:
        raise UserError(f"{path}: the first line must name the columns {' '.join(COLUMNS)}")
    return [_parse(f"{path}:{number}", line) for number, line in enumerate(lines, start=2)]


def _parse(place: str, line: str) -> Row:
    words = line.split("\t")
    if len(words) != len(COLUMNS):
        raise UserError(f"{place}: {len(words)} columns, not {len(COLUMNS)}")
    kinds = {f.name: f.type for f in fields(Row)}
    values: dict[str, object] = {}
    for name, word in zip(COLUMNS, words, strict=True):
        try:
            values[name] = word if kinds[name] is str else int(word) if kinds[name] is int else _number(word)
        except ValueError:
            raise UserError(f"{place}: {name} = {word!r} is no number") from None
    row = Row(**values)  # type: ignore[arg-type]
    if row.provenance not in PROVENANCES:
        raise UserError(f"{place}: provenance = {row.provenance!r}; allowed: {', '.join(PROVENANCES)}")
    return row


def _number(word: str) -> float | None:
    return float(word) if word else None


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write the file sorted, if that changes it."""
    lines = ["\t".join(COLUMNS), *("\t".join(_words(row)) for row in sorted(rows, key=lambda r: (r.bin, r.plan)))]
    text = "".join(f"{line}\n" for line in lines)
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _words(row: Row) -> list[str]:
    words = ["" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for v in astuple(row)]
    if bad := [word for word in words if "\t" in word or "\n" in word]:
        raise UserError(f"tuning row: {bad[0]!r} holds a tab or a line break")
    return words


def merge(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """One row a bin and plan: better provenance wins, else the newer row."""
    merged: dict[tuple[object, ...], Row] = {}
    for row in (*old, *new):
        key = (*row.bin, row.plan)
        if key not in merged or row.rank[0] <= merged[key].rank[0]:
            merged[key] = row
    return list(merged.values())

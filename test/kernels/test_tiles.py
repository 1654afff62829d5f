"""kernels/attention/tiles.py, lane by lane in numpy: the LDS and the matrix unit as the hardware has them.

DMA of a wave           lane i's 16 bytes go to the line's start + 16 * i
ds_read_b128            8 elements from a lane's address on
ds_read_b64_tr_b16      16 lanes name a 4 x 16 block, lane i: row i / 4 from column 4 * (i % 4); it gets column i
MFMA 32x32x16           A[lane % 32][8 * (lane / 32) + v], B[8 * (lane / 32) + v][lane % 32]
banks                   64 of 4 bytes; ds_read_b128 serves 16 lanes at a time, ds_read_b64_tr_b16 32
"""

import numpy as np
import pytest
from device_file import load_device_file

LANE = np.arange(64)
SHAPES = [(rows, columns) for columns in (64, 128, 192, 256) for rows in (32, 64)]
over_shapes = pytest.mark.parametrize(("rows", "columns"), SHAPES)


tiles = load_device_file("tiles")


class Lds:
    """A tile as the DMA of all lines leaves it; what no element was written to stays NaN."""

    def __init__(self, tile: np.ndarray, pad: int) -> None:
        self.rows, self.columns = tile.shape
        self.pad = pad
        self.elements = np.full(tiles.tile_elements(*tile.shape, pad), np.nan)
        for line in range(tiles.tile_lines(*tile.shape)):
            row, column = tiles.line_source(line, LANE, self.rows)
            columns = column[:, None] + np.arange(8)
            outside = columns >= self.columns  # where the descriptor's check gives zeros
            values = np.where(outside, 0.0, tile[row[:, None], np.where(outside, 0, columns)])
            self.elements[line * (tiles.LINE + pad) + LANE[:, None] * 8 + np.arange(8)] = values

    def row_addresses(self, first_row: int, step: int) -> np.ndarray:
        start = tiles.block_start(first_row, 16 * step & ~63, self.rows, self.pad)
        return tiles.row_operand(LANE, step) + start

    def column_addresses(self, step: int, chunk: int, part: int) -> np.ndarray:
        start = tiles.block_start(16 * step + 8 * part, 32 * chunk & ~63, self.rows, self.pad)
        return tiles.column_operand(LANE, chunk) + start

    def read_rows(self, first_row: int, step: int) -> np.ndarray:
        return self.elements[self.row_addresses(first_row, step)[:, None] + np.arange(8)]

    def read_columns(self, step: int, chunk: int) -> np.ndarray:
        def quarter(part: int) -> np.ndarray:
            pieces = self.elements[self.column_addresses(step, chunk, part)[:, None] + np.arange(4)]
            return pieces.reshape(4, 4, 16).transpose(0, 2, 1).reshape(64, 4)

        return np.concatenate([quarter(0), quarter(1)], 1)


def mfma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a, b [lane, 8]; c and the result [lane, 16]."""
    left, right = np.zeros((32, 16)), np.zeros((16, 32))
    k = 8 * (LANE[:, None] >> 5) + np.arange(8)
    left[LANE[:, None] & 31, k] = a
    right[k, LANE[:, None] & 31] = b
    return c + (left @ right)[accumulator_rows(), LANE[:, None] & 31]


def accumulator_rows() -> np.ndarray:
    return np.stack([tiles.accumulator_row(LANE, r) for r in range(16)], 1)


def matrix(accumulators: list[np.ndarray]) -> np.ndarray:
    """Accumulators one below the other, as the matrix [32 * count, 32] that they are."""
    whole = np.full((32 * len(accumulators), 32), np.nan)
    for part, accumulator in enumerate(accumulators):
        whole[32 * part + accumulator_rows(), LANE[:, None] & 31] = accumulator
    return whole


def b_operand(x: np.ndarray, step: int) -> np.ndarray:
    """B[k][j] = x[j][16 * step + k], as a wave loads q."""
    return x[LANE[:, None] & 31, 16 * step + 8 * (LANE[:, None] >> 5) + np.arange(8)]


def worst_ways(elements: np.ndarray, num_bytes: int, lanes: int) -> int:
    """The most dwords that one bank has to give in one go."""
    worst = 0
    for group in elements.reshape(-1, lanes):
        dwords = np.unique(group[:, None] * 2 // 4 + np.arange(num_bytes // 4))
        worst = max(worst, np.bincount(dwords % 64).max())
    return worst


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@over_shapes
def test_forward_products_are_right(rows: int, columns: int, rng: np.random.Generator) -> None:
    """s.T = k q.T from rows of k; then out.T = v.T p.T, p the accumulators of s.T as they lie in registers."""
    q = rng.standard_normal((32, columns))
    k, v = rng.standard_normal((2, rows, columns))
    k_lds, v_lds = Lds(k, tiles.ROW_PAD), Lds(v, tiles.COLUMN_PAD)
    scores = []
    for part in range(rows // 32):
        accumulator = np.zeros((64, 16))
        for step in range(columns // 16):
            accumulator = mfma(k_lds.read_rows(32 * part, step), b_operand(q, step), accumulator)
        scores.append(accumulator)
    np.testing.assert_allclose(matrix(scores), k @ q.T, atol=1e-12 * columns)
    p = [part[:, 8 * half : 8 * half + 8] for part in scores for half in (0, 1)]
    out = []
    for chunk in range(columns // 32):
        accumulator = np.zeros((64, 16))
        for step in range(rows // 16):
            accumulator = mfma(v_lds.read_columns(step, chunk), p[step], accumulator)
        out.append(accumulator)
    np.testing.assert_allclose(matrix(out), v.T @ (k @ q.T), atol=1e-10 * columns)


@over_shapes
@pytest.mark.parametrize("pad", [tiles.ROW_PAD, tiles.COLUMN_PAD])
def test_every_element_is_staged_exactly_once(rows: int, columns: int, pad: int) -> None:
    lds = Lds(np.arange(rows * columns).reshape(rows, columns) + 1.0, pad)
    staged = lds.elements[lds.elements > 0]
    np.testing.assert_array_equal(np.sort(staged), np.arange(rows * columns) + 1)
    unused = tiles.tile_lines(rows, columns) * tiles.LINE - rows * columns
    assert (lds.elements == 0).sum() == unused
    assert tiles.is_filled(rows, columns) == (unused == 0)
    assert np.isnan(lds.elements).sum() == tiles.tile_lines(rows, columns) * pad


def test_only_tiles_of_32_rows_can_have_lines_that_are_partly_filled() -> None:
    assert [shape for shape in SHAPES if not tiles.is_filled(*shape)] == [(32, 64), (32, 192)]


@over_shapes
def test_no_read_meets_a_bank_twice(rows: int, columns: int) -> None:
    tile = np.zeros((rows, columns))
    k, v = Lds(tile, tiles.ROW_PAD), Lds(tile, tiles.COLUMN_PAD)
    for step in range(columns // 16):
        for first_row in range(0, rows, 32):
            assert worst_ways(k.row_addresses(first_row, step), 16, 16) == 1
    for step in range(rows // 16):
        for chunk in range(columns // 32):
            for part in (0, 1):
                assert worst_ways(v.column_addresses(step, chunk, part), 8, 32) == 1


def test_the_bank_model_sees_a_tile_without_padding() -> None:
    rows = (LANE & 31) * 64  # 128 bytes apart: two rows to a round of the banks
    assert worst_ways(rows, 16, 16) == 8
    unpadded = (4 * (LANE >> 5) + ((LANE & 15) >> 2)) * tiles.LINE + (LANE & 3) * 4
    assert worst_ways(unpadded, 8, 32) > 1


@over_shapes
def test_every_read_is_aligned_to_its_size(rows: int, columns: int) -> None:
    for step in range(columns // 16):
        assert not (Lds(np.zeros((rows, columns)), tiles.ROW_PAD).row_addresses(0, step) % 8).any()
    for chunk in range(columns // 32):
        assert not (Lds(np.zeros((rows, columns)), tiles.COLUMN_PAD).column_addresses(0, chunk, 0) % 4).any()


def test_columns_are_read_in_the_order_of_accumulator_rows() -> None:
    """Element v of a half's operand A has to meet element v of operand B: register 8 * step + v of p."""
    tile = np.arange(64.0)[:, None] * np.ones(64)  # each element is its row
    lds = Lds(tile, tiles.COLUMN_PAD)
    for step in range(4):
        registers = accumulator_rows()[:, 8 * (step & 1) : 8 * (step & 1) + 8] + 32 * (step >> 1)
        for chunk in (0, 1):
            np.testing.assert_array_equal(lds.read_columns(step, chunk), registers)


def test_an_accumulator_has_each_of_its_elements_once() -> None:
    places = 32 * accumulator_rows() + (LANE[:, None] & 31)
    np.testing.assert_array_equal(np.sort(places.ravel()), np.arange(32 * 32))


@pytest.mark.parametrize("rows", [32, 64])
def test_the_maps_give_the_same_on_ints_as_on_arrays(rows: int) -> None:
    for lane in (0, 1, 31, 32, 63):
        for n in range(4):
            assert tiles.row_operand(lane, n) == tiles.row_operand(LANE, n)[lane]
            assert tiles.column_operand(lane, n) == tiles.column_operand(LANE, n)[lane]
            assert tiles.line_source(n, lane, rows) == tuple(x[lane] for x in tiles.line_source(n, LANE, rows))

"""Tiles on their way from global memory through LDS into the operands of matrix instructions."""
import flydsl.expr as fx
import tiles
from flydsl.expr import const_expr, range_constexpr, rocdl
from lanes import concat, pin


class Tiles:
    """The tiles of a matrix, `ROWS` rows each, that pass through LDS.

    pad   tiles.ROW_PAD: operands are rows of the tile; tiles.COLUMN_PAD: columns
    wave  which of the NUM_WAVES waves that fetch together; each fetches `fetches` lines of a tile
    """

    def __init__(self, matrix, columns, pad, ROWS, NUM_WAVES, lane, wave):
        self.matrix, self.pad, self.ROWS = matrix, pad, ROWS
        self.fetches = tiles.tile_lines(ROWS, columns) // NUM_WAVES
        self.lane, self.lines = lane, [wave + i * NUM_WAVES for i in range_constexpr(self.fetches)]
        if const_expr(matrix.ALIGNED):
            self.offsets = [matrix.offset(*tiles.line_source(line, lane, ROWS)) for line in self.lines]
            view = fx.make_view(matrix.buffer, fx.make_layout(1 << 30, 1))
            self.elements = fx.logical_divide(view, fx.make_layout(1, 1))
            self.copy = fx.make_copy_atom(rocdl.cdna4.BufferLoadAsyncLDS128b(), 128)
        if const_expr(pad == tiles.ROW_PAD):
            self.bases = [tiles.row_operand(lane, step) for step in range_constexpr(4)]
        else:
            self.bases = [tiles.column_operand(lane, chunk) for chunk in range_constexpr(2)]

    def fetch(self, place, tile):
        """Start to bring a tile to `place` in LDS; rows past the end are zeros.

        Aligned: asynchronous, landed once `vmcnt` says so.  Otherwise it is written when this returns, once `lgkmcnt`
        says so.  Either way others see it after the next barrier.
        """
        skip = tile * (self.ROWS * self.matrix.row_stride)
        for i in range_constexpr(self.fetches):
            target = place + self.lines[i] * (tiles.LINE + self.pad)
            if const_expr(self.matrix.ALIGNED):
                source = fx.slice(self.elements, (None, self.offsets[i]))
                fx.copy(self.copy, source, fx.make_view(target, fx.make_layout(1, 1)), soffset=skip)
            else:
                lane = pin(self.lane)  # or all addresses would be made in front of the loop, and fill the registers
                row, column = tiles.line_source(self.lines[i], lane, self.ROWS)
                (target + lane * 8).store(self.matrix.load(row, column, 8, skip))

    def rows(self, place, first_row, step):
        """A[i][k] = tile[first_row + i][16 * step + k]: 8 elements a lane."""
        at = tiles.block_start(first_row, 16 * step & ~63, self.ROWS, self.pad)
        return (place + self.bases[step & 3] + at).load(fx.Vector.make_type(8, self.matrix.element))

    def columns(self, place, step, chunk):
        """A[i][k] = tile[16 * step + order of accumulator rows][32 * chunk + i]: 8 elements a lane."""
        kind = fx.Vector.make_type(4, self.matrix.element)

        def quarter(part):
            at = tiles.block_start(16 * step + 8 * part, 32 * chunk & ~63, self.ROWS, self.pad)
            word = rocdl.ds_read_tr16_b64(kind, (place + self.bases[chunk & 1] + at).llvm_ptr).result
            return fx.Vector(word, (4,), self.matrix.element)

        return concat([quarter(0), quarter(1)])

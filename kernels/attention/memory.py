"""Matrices in global memory, behind buffer descriptors: reading past the end gives 0, writing there is dropped."""
import flydsl.expr as fx
from flydsl.expr import const_expr, range_constexpr, rocdl

# Offset, in elements of 16 bits, past every matrix: the launch requires that a matrix, with what is read past its end,
# spans less than 2 GiB.
OUTSIDE = 1 << 30


class Matrix:
    """[rows, columns] of one head, as it lies in memory.

    CHECK_COLUMNS  columns past the last one are asked for; they read as 0
    ALIGNED        the base and all rows are aligned to 16 bytes, and columns are a multiple of 8
    """

    def __init__(self, base, element, rows, columns, row_stride, *, CHECK_COLUMNS, ALIGNED):
        self.element, self.columns = element, columns
        # of a single row the stride may be 0, and rows that are not there must lie past the end
        self.row_stride = (rows > 1).select(fx.Int32(row_stride), fx.Int32(columns))
        self.CHECK_COLUMNS, self.ALIGNED = CHECK_COLUMNS, ALIGNED
        self.item_bytes = element.width // 8
        span = (fx.Int64(rows) - 1) * fx.Int64(row_stride) + fx.Int64(columns)
        span_bytes = (rows > 0).select(span, fx.Int64(0)) * self.item_bytes
        self.buffer = rocdl.make_buffer_ptr(base, num_records_bytes=span_bytes)
        self.descriptor = rocdl.get_buffer_rsrc(self.buffer)

    def offset(self, row, column):
        """In elements; a column that is not there is OUTSIDE."""
        offset = row * self.row_stride + column
        if const_expr(self.CHECK_COLUMNS):
            return (fx.Int32(column) < self.columns).select(offset, fx.Int32(OUTSIDE))
        return offset

    def load(self, row, column, count, skip=0):
        """`count` elements of a row, `skip` elements (wave-uniform) further on; column is a multiple of count."""
        pieces = 1 if const_expr(self.ALIGNED) else count
        kind = fx.Vector.make_type(count, self.element) if const_expr(self.ALIGNED) else self.element.ir_type
        skip_bytes = fx.Int32(skip * self.item_bytes)
        offsets = [self.offset(row, column + i) * self.item_bytes for i in range_constexpr(pieces)]
        values = [rocdl.raw_ptr_buffer_load(kind, self.descriptor, at, skip_bytes, 0) for at in offsets]
        if const_expr(self.ALIGNED):
            return fx.Vector(values[0], (count,), self.element)
        return fx.Vector.from_elements([self.element(value) for value in values], self.element)

    def store(self, row, column, values):
        """A vector of elements to a row; column is a multiple of its length."""
        pieces = [values] if const_expr(self.ALIGNED) else [values[i] for i in range_constexpr(values.numel)]
        for i, piece in enumerate(pieces):
            offset = self.offset(row, column + i) * self.item_bytes
            rocdl.raw_ptr_buffer_store(piece.ir_value(), self.descriptor, offset.ir_value(), fx.Int32(0).ir_value())


def head_base(ptr, sequence, head, stride_0, stride_1):
    """Pointer to one head of a sequence; in 64 bits, head * stride_1 alone can pass 2^31."""
    return ptr + (fx.Int64(sequence) * fx.Int64(stride_0) + fx.Int64(head) * fx.Int64(stride_1))

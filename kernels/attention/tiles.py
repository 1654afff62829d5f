"""Where the elements of a K or V tile lie in LDS, and in the registers of matrix instructions.

Index maps only: they use + - * ^ & | >> and so run on ints, on numpy arrays (the tests prove them there) and on traced
values alike.

A tile is [rows, columns] of 16 bits, rows = 32 or 64.  One DMA of a wave fills one *line* of 1 KB: 8 slots of 64
columns.  rows = 64: line = row % 8 + 8 * (column / 64), slot = row / 8.  rows = 32: two blocks of columns share a line.
Lines are padded, so that lanes that read together hit different banks and every address is one base a lane plus a
constant:

    rows of a tile as operand        16 bytes a line    ds_read_b128
    columns of a tile as operand     64 bytes a line    ds_read_b64_tr_b16
"""

LINE = 512  # elements
ROW_PAD, COLUMN_PAD = 8, 32  # elements a line


def tile_lines(rows, columns):
    """Lines that a tile takes; in tiles of 32 rows columns come by 128, and some may not be there."""
    return 8 * (-(-columns // (64 if rows == 64 else 128)))


def tile_elements(rows, columns, pad):
    """Elements of LDS that a tile takes."""
    return tile_lines(rows, columns) * (LINE + pad)


def is_filled(rows, columns):
    """Are all elements of all lines elements of the tile?"""
    return tile_lines(rows, columns) * LINE == rows * columns


def block_start(row, column, rows, pad):
    """Element offset of row % 8 == 0, column % 64 == 0."""
    if rows == 64:
        return (row >> 3) * 64 + (column >> 6) * 8 * (LINE + pad)
    return ((row >> 3) + 4 * ((column >> 6) & 1)) * 64 + (column >> 7) * 8 * (LINE + pad)


def row_operand(lane, step):
    """Element that a lane reads first of A[i][k] = tile[first row + i][16 * step + k], from the block's start on."""
    row = lane & 31
    return (row & 7) * (LINE + ROW_PAD) + (row >> 3) * 64 + (2 * (step & 3) + (lane >> 5)) * 8


def column_operand(lane, chunk):
    """The same for A[i][k] = tile[accumulator_order(k)][32 * chunk + i], read transposed."""
    i, group, half = lane & 15, (lane >> 4) & 1, lane >> 5
    column = 4 * (chunk & 1) + 2 * group + ((i & 3) >> 1)
    return (4 * half + (i >> 2)) * (LINE + COLUMN_PAD) + column * 8 + (i & 1) * 4


def line_source(line, lane, rows):
    """(row, column) of the 8 elements that a lane fetches for a line."""
    slot, column = lane >> 3, (lane & 7) * 8
    if rows == 64:
        return slot * 8 + (line & 7), (line >> 3) * 64 + column
    return (slot & 3) * 8 + (line & 7), (line >> 3) * 128 + (slot >> 2) * 64 + column


def accumulator_row(lane, register):
    """Row of a register of a 32x32 accumulator; its column is lane % 32.

    Registers 8 * s .. 8 * s + 7, converted, are operand B of the next product, their rows the order of k: so p never
    moves between lanes.  column_operand reads v in that order.
    """
    return 8 * (register >> 2) + 4 * (lane >> 5) + (register & 3)

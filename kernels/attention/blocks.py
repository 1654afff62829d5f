"""Which block of rows of which head a workgroup computes."""
import flydsl.expr as fx
from flydsl.expr import const_expr
from masks import minimum

NUM_XCDS = 8  # of gfx950; workgroups are dealt to them in turn, each has an L2 of its own


def block_of_workgroup(index, batch, heads, num_blocks, HEADS_STAY):
    """(sequence, head, m_block) of a workgroup.

    The last rows come first: under a causal mask their blocks are the long ones; short ones fill the gaps at the end.
    HEADS_STAY: each XCD gets whole heads, one after the other (but for a head at either end of its share): they find
    k and v in its L2.  Otherwise all heads advance together.
    """
    heads_total = batch * heads
    if const_expr(HEADS_STAY):
        total = heads_total * num_blocks
        share, rest = total // NUM_XCDS, total % NUM_XCDS
        xcd = index % NUM_XCDS
        index = xcd * share + minimum(xcd, rest) + index // NUM_XCDS
        place, block = index // num_blocks, index % num_blocks
    else:
        place, block = index % heads_total, index // heads_total
    as_i32 = [fx.Int32(x) for x in (place // heads, place % heads, num_blocks - 1 - block)]
    return tuple(as_i32)

"""Flash-attention forward in plain `tl`: every arch, every dtype, every mask, any head_dim up to the bucket.

Online softmax over blocks of keys, after arXiv:2205.14135 and arXiv:2307.08691: scores never leave the chip, the
division by the row sum comes last.  A program owns BLOCK_M rows of one head and walks the keys they see, BLOCK_N at a
time.

A "tile" is a tuple of tensors side by side, [rows, 64] and [rows, 32] for a head_dim of 96: widths in Triton are powers
of two, and in pieces no work is spent on padding.  The widths are one constexpr tuple, q_pieces or v_pieces.
"""
import triton
import triton.language as tl

HEAD_GROUP = tl.constexpr(8)  # heads that advance together; AMD deals programs to 8 XCDs in turn: one head, one L2
LN_2 = tl.constexpr(0.6931471805599453)


@triton.constexpr_function
def split_width(width, dtype):
    """Powers of two that add up to `width`, widest first.

    A piece of f32 is at most 64 wide: without a matrix instruction for f32 (sm_90, gfx1201) a product holds whole rows
    of its operands in registers.
    """
    widest = 64 if dtype.primitive_bitwidth == 32 else width
    pieces = []
    while width > 0:
        pieces.append(min(widest, 1 << width.bit_length() - 1))
        width -= pieces[-1]
    return tuple(pieces)


@triton.constexpr_function
def piece_start(pieces, index):
    """The first column of a piece."""
    return sum(pieces[:index])


@triton.jit
def tile_of_program(batch, heads_q, seqlen_q, BLOCK_M: tl.constexpr):
    """Which rows this program computes: sequence, head_q, m_block.

    HEAD_GROUP heads advance together through all of their row blocks before the next group starts: their k and v stay
    in L2.  Row blocks run from the end, under a causal mask the long ones first: short ones fill the gaps at the end.
    """
    num_m_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    num_heads = batch * heads_q  # tl.num_programs would need hidden arguments on AMD
    group = tl.program_id(0) // (HEAD_GROUP * num_m_blocks)
    index = tl.program_id(0) % (HEAD_GROUP * num_m_blocks)
    group_heads = tl.minimum(num_heads - group * HEAD_GROUP, HEAD_GROUP)
    head = group * HEAD_GROUP + index % group_heads
    return head // heads_q, head % heads_q, num_m_blocks - 1 - index // group_heads


@triton.jit
def head_offset(sequence, head, stride_0, stride_1):
    """Elements from a tensor's start to that of one head; 64-bit, as is every offset from here on."""
    return sequence.to(tl.int64) * stride_0 + head.to(tl.int64) * stride_1


@triton.jit
def key_block_bounds(first_row, seqlen_q, seqlen_k, shift, window_left, window_right,
                     MASK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Which key blocks a block of rows sees: begin <= full_begin <= full_end <= end.

    Each row sees all keys of the full blocks full_begin .. full_end, no row sees a key outside begin .. end.  Row i is
    level with key i + shift.
    """
    last_row = tl.minimum(first_row + BLOCK_M, seqlen_q) - 1
    any_begin, all_begin, all_end, any_end = 0, 0, seqlen_k, seqlen_k
    if MASK == "window":
        any_begin = tl.maximum(first_row + shift - window_left, 0)
        all_begin = tl.maximum(last_row + shift - window_left, 0)
    if MASK != "none":
        all_end = tl.maximum(tl.minimum(first_row + shift + window_right + 1, seqlen_k), 0)
        any_end = tl.maximum(tl.minimum(last_row + shift + window_right + 1, seqlen_k), 0)
    begin = any_begin // BLOCK_N
    end = tl.maximum(tl.cdiv(any_end, BLOCK_N), begin)
    full_begin = tl.minimum(tl.cdiv(all_begin, BLOCK_N), end)
    full_end = tl.minimum(tl.maximum(all_end // BLOCK_N, full_begin), end)
    return begin, full_begin, full_end, end


@triton.jit
def edge_block(index, begin, full_begin, num_full):
    """The index-th block from `begin` on, the full ones passed over."""
    n_block = begin + index
    return tl.where(n_block < full_begin, n_block, n_block + num_full)


@triton.jit
def visible(rows, keys, seqlen_k, shift, window_left, window_right, MASK: tl.constexpr):
    """bool, broadcastable to [rows, keys]: does the row see the key?"""
    seen = (keys < seqlen_k)[None, :]
    if MASK != "none":
        seen = seen & (keys[None, :] <= (rows + (shift + window_right))[:, None])
    if MASK == "window":
        seen = seen & (keys[None, :] >= (rows + (shift - window_left))[:, None])
    return seen


@triton.jit
def locate_piece(index: tl.constexpr, base, first_row, row_stride, num_rows, num_cols,
                 ROWS: tl.constexpr, PIECES: tl.constexpr, CHECK_ROWS: tl.constexpr, CHECK_COLS: tl.constexpr):
    """Pointers to a piece of the tile at first_row, and which of them are inside the matrix [num_rows, num_cols]."""
    rows = tl.arange(0, ROWS)
    cols = piece_start(PIECES, index) + tl.arange(0, PIECES[index])
    stride = tl.cast(row_stride, tl.int64)  # a single block of rows can pass 2^31 elements
    pointers = base + first_row * stride + (rows[:, None] * stride + cols[None, :])
    inside = tl.full([ROWS, PIECES[index]], True, tl.int1)  # folded away where nothing is checked
    if CHECK_ROWS:
        inside = inside & (rows < num_rows - first_row)[:, None]
    if CHECK_COLS:
        inside = inside & (cols < num_cols)[None, :]
    return pointers, inside


@triton.jit
def load_tile(base, first_row, row_stride, num_rows, num_cols,
              ROWS: tl.constexpr, PIECES: tl.constexpr, CHECK_ROWS: tl.constexpr, CHECK_COLS: tl.constexpr):
    """The tile of rows first_row .. first_row + ROWS; 0 outside the matrix [num_rows, num_cols]."""
    tile = ()
    for i in tl.static_range(len(PIECES)):
        pointers, inside = locate_piece(i, base, first_row, row_stride, num_rows, num_cols,
                                        ROWS, PIECES, CHECK_ROWS, CHECK_COLS)
        tile += (tl.load(pointers, mask=inside, other=0.0),)
    return tile


@triton.jit
def load_signed_tile(base, first_row, row_stride, num_rows, num_cols, negate,
                     ROWS: tl.constexpr, PIECES: tl.constexpr, CHECK_COLS: tl.constexpr):
    """The tile of load_tile, negated if `negate`.

    Of the two loads one reads nothing.  The tile ends in a load because sm_90 takes from shared memory only operands
    that were loaded as they are; others stay in registers (36 more at head_dim 128).
    """
    tile = ()
    for i in tl.static_range(len(PIECES)):
        pointers, inside = locate_piece(i, base, first_row, row_stride, num_rows, num_cols,
                                        ROWS, PIECES, True, CHECK_COLS)
        negated = -tl.load(pointers, mask=inside & negate, other=0.0)
        tile += (tl.load(pointers, mask=inside & (negate == 0), other=negated),)
    return tile


@triton.jit
def store_tile(tile, base, first_row, row_stride, num_rows, num_cols,
               ROWS: tl.constexpr, PIECES: tl.constexpr, CHECK_COLS: tl.constexpr):
    """Store a tile at first_row, nothing outside the matrix [num_rows, num_cols]."""
    for i in tl.static_range(len(PIECES)):
        pointers, inside = locate_piece(i, base, first_row, row_stride, num_rows, num_cols,
                                        ROWS, PIECES, True, CHECK_COLS)
        tl.store(pointers, tile[i].to(base.dtype.element_ty), mask=inside)


@triton.jit
def zero_tile(ROWS: tl.constexpr, PIECES: tl.constexpr):
    """A tile of f32 zeros."""
    tile = ()
    for i in tl.static_range(len(PIECES)):
        tile += (tl.zeros([ROWS, PIECES[i]], tl.float32),)
    return tile


@triton.jit
def multiply_qk(q, k):
    """q @ k.T of two tiles: f32 [rows, keys]."""
    scores = tl.dot(q[0], k[0].T, input_precision="ieee")
    for i in tl.static_range(1, len(q)):
        scores = tl.dot(q[i], k[i].T, scores, input_precision="ieee")
    return scores


@triton.jit
def add_pv(acc, p, v):
    """acc + p @ v, where acc and v are tiles."""
    tile = ()
    for i in tl.static_range(len(v)):
        tile += (tl.dot(p.to(v[i].dtype), v[i], acc[i], input_precision="ieee"),)
    return tile


@triton.jit
def online_softmax(scores, scale, row_max, row_sum, acc):
    """Fold one block of unscaled scores, masked ones -inf, into the running state.  Returns p and the new state.

    p = 2 ** (scores * scale - row_max), scale > 0.  row_max is kept scaled: p and the rescaling then see the same
    rounding of it, and scale and subtraction are one instruction a score.
    """
    new_max = tl.maximum(row_max, tl.max(scores, 1) * scale)
    safe_max = tl.where(new_max == float("-inf"), 0.0, new_max)  # a row that has seen no key yet
    p = tl.exp2(scores * scale - safe_max[:, None])
    alpha = tl.exp2(row_max - safe_max)
    return p, new_max, row_sum * alpha + tl.sum(p, 1), [piece * alpha[:, None] for piece in acc]


@triton.jit
def attn_fwd(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    q_stride_0, q_stride_1, q_stride_2,
    k_stride_0, k_stride_1, k_stride_2,
    v_stride_0, v_stride_1, v_stride_2,
    out_stride_0, out_stride_1, out_stride_2,
    lse_stride_0, lse_stride_1,
    batch, heads_q, heads_k, seqlen_q, seqlen_k, head_dim, head_dim_v,
    scale_log2,
    window_left, window_right,
    bottom_right,
    HEAD_DIM: tl.constexpr, HEAD_DIM_V: tl.constexpr,
    MASK: tl.constexpr,
    PADDED_HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """out = softmax(sm_scale * q @ k.T) @ v over the visible keys, and lse, for BLOCK_M rows of one head.

    q    [batch, heads_q, seqlen_q, head_dim]    f16, bf16 or f32; heads_q % heads_k == 0
    k    [batch, heads_k, seqlen_k, head_dim]    the same dtype, as are v and out
    v    [batch, heads_k, seqlen_k, head_dim_v]
    out  [batch, heads_q, seqlen_q, head_dim_v]  0 for a row that sees no key
    lse  [batch, heads_q, seqlen_q]              f32, natural log, -inf for a row that sees no key; null: not stored
    Strides are i64, in elements, may be 0; the last one is 1.  scale_log2 = sm_scale * log2(e), of any sign.
    MASK "none"; "causal": row i sees key j iff j <= i + d; "window": iff i + d - window_left <= j <= i + d +
    window_right, both 0 .. seqlen_q + seqlen_k; d = seqlen_k - seqlen_q if bottom_right else 0.
    HEAD_DIM, HEAD_DIM_V: the buckets; PADDED_HEAD: head_dim or head_dim_v may be less.
    Launch: cdiv(seqlen_q, BLOCK_M) * heads_q * batch programs in x.
    """
    q_pieces: tl.constexpr = split_width(HEAD_DIM, q_ptr.dtype.element_ty)
    v_pieces: tl.constexpr = split_width(HEAD_DIM_V, q_ptr.dtype.element_ty)
    sequence, head_q, m_block = tile_of_program(batch, heads_q, seqlen_q, BLOCK_M)
    head_k = head_q // (heads_q // heads_k)
    q_base = q_ptr + head_offset(sequence, head_q, q_stride_0, q_stride_1)
    k_base = k_ptr + head_offset(sequence, head_k, k_stride_0, k_stride_1)
    v_base = v_ptr + head_offset(sequence, head_k, v_stride_0, v_stride_1)
    out_base = out_ptr + head_offset(sequence, head_q, out_stride_0, out_stride_1)

    first_row = m_block * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    shift = seqlen_k - seqlen_q if bottom_right else 0
    if MASK == "causal":
        window_right = 0
    begin, full_begin, full_end, end = key_block_bounds(first_row, seqlen_q, seqlen_k, shift, window_left, window_right,
                                                        MASK, BLOCK_M, BLOCK_N)
    num_full = full_end - full_begin

    # the sign of the scale goes into q: the largest score then has the largest probability
    q = load_signed_tile(q_base, first_row, q_stride_2, seqlen_q, head_dim, scale_log2 < 0,
                         BLOCK_M, q_pieces, PADDED_HEAD)
    scale = tl.maximum(tl.abs(scale_log2), 1e-30)  # never 0: -inf * scale must stay -inf
    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = zero_tile(BLOCK_M, v_pieces)
    for EDGE in tl.static_range(2):  # first the full blocks, without a mask, then those at either end
        for i in range(end - begin - num_full if EDGE else num_full):
            n_block = edge_block(i, begin, full_begin, num_full) if EDGE else full_begin + i
            first_key = n_block * BLOCK_N
            k = load_tile(k_base, first_key, k_stride_2, seqlen_k, head_dim, BLOCK_N, q_pieces, EDGE, PADDED_HEAD)
            scores = multiply_qk(q, k)
            if EDGE:
                keys = first_key + tl.arange(0, BLOCK_N)
                seen = visible(rows, keys, seqlen_k, shift, window_left, window_right, MASK)
                scores = tl.where(seen, scores, float("-inf"))
            p, row_max, row_sum, acc = online_softmax(scores, scale, row_max, row_sum, acc)
            v = load_tile(v_base, first_key, v_stride_2, seqlen_k, head_dim_v, BLOCK_N, v_pieces, EDGE, PADDED_HEAD)
            acc = add_pv(acc, p, v)

    inverse = 1 / tl.where(row_sum == 0, 1.0, row_sum)
    out = [piece * inverse[:, None] for piece in acc]
    store_tile(out, out_base, first_row, out_stride_2, seqlen_q, head_dim_v, BLOCK_M, v_pieces, PADDED_HEAD)
    if lse_ptr.to(tl.int64) != 0:
        lse = (row_max + tl.log2(row_sum)) * LN_2
        tl.store(lse_ptr + head_offset(sequence, head_q, lse_stride_0, lse_stride_1) + rows, lse, mask=rows < seqlen_q)

"""Flash-attention forward in plain `tl`: every arch, every dtype, every mask, any head_dim up to the bucket.

Online softmax over blocks of keys, after arXiv:2205.14135 and arXiv:2307.08691: scores never leave the chip, the division by
the row sum comes last.  A program owns BLOCK_M rows of one head and walks the keys they see, BLOCK_N at a time.

A head_dim that is no power of two is held in power-of-two pieces (96 = 64 + 32), so no work is spent on padding.  A "tile"
below is a tuple of such pieces, widest first, side by side: [rows, 64] and [rows, 32].
"""
import triton
import triton.language as tl

HEAD_GROUP = tl.constexpr(8)  # heads that advance together; AMD deals programs to 8 XCDs in turn: a head stays in one's L2
LEFT_EDGE, FULL, RIGHT_EDGE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)  # the parts of a range of key blocks
LN_2 = tl.constexpr(0.6931471805599453)


@triton.constexpr_function
def largest_piece(width):
    """The widest power of two that is at most `width`."""
    return 1 << (width.bit_length() - 1)


@triton.jit
def tile_of_program(heads_q, seqlen_q, BLOCK_M: tl.constexpr):
    """Which tile of out this program computes: batch, head_q, m_block.

    HEAD_GROUP heads advance together through all of their row blocks before the next group starts: their k and v stay in L2.
    Row blocks run from the end, under a causal mask the long ones first, so that short ones fill the gaps at the end.
    """
    num_m_blocks = tl.cdiv(seqlen_q, BLOCK_M)
    num_heads = tl.num_programs(0) // num_m_blocks  # of all batches
    group = tl.program_id(0) // (HEAD_GROUP * num_m_blocks)
    index = tl.program_id(0) % (HEAD_GROUP * num_m_blocks)
    group_heads = tl.minimum(num_heads - group * HEAD_GROUP, HEAD_GROUP)
    head = group * HEAD_GROUP + index % group_heads
    return head // heads_q, head % heads_q, num_m_blocks - 1 - index // group_heads


@triton.jit
def key_block_bounds(first_row, seqlen_q, seqlen_k, shift, window_left, window_right,
                     MASK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Bounds (b0 <= b1 <= b2 <= b3, in blocks) of the left edge, the full blocks and the right edge of rows first_row on.

    Every row sees all keys of the full blocks b1 .. b2; no row sees a key outside b0 .. b3.  Row i is level with key
    i + shift.
    """
    last_row = tl.minimum(first_row + BLOCK_M, seqlen_q) - 1
    any_begin, all_begin, all_end, any_end = 0, 0, seqlen_k, seqlen_k
    if MASK == "window":
        any_begin = tl.maximum(first_row + shift - window_left, 0)
        all_begin = tl.maximum(last_row + shift - window_left, 0)
    if MASK != "none":
        all_end = tl.maximum(tl.minimum(first_row + shift + window_right + 1, seqlen_k), 0)
        any_end = tl.maximum(tl.minimum(last_row + shift + window_right + 1, seqlen_k), 0)
    b0 = any_begin // BLOCK_N
    b3 = tl.maximum(tl.cdiv(any_end, BLOCK_N), b0)
    b1 = tl.minimum(tl.cdiv(all_begin, BLOCK_N), b3)
    b2 = tl.minimum(tl.maximum(all_end // BLOCK_N, b1), b3)
    return b0, b1, b2, b3


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
def locate_piece(base, first_row, row_stride, num_rows, num_cols, ROWS: tl.constexpr, START: tl.constexpr,
                 PIECE: tl.constexpr, CHECK_ROWS: tl.constexpr, CHECK_COLS: tl.constexpr):
    """Pointers [ROWS, PIECE] to rows first_row on and columns START on, and which of them are inside the matrix."""
    rows, cols = tl.arange(0, ROWS), START + tl.arange(0, PIECE)
    # row_stride is 64-bit and with it every product; the block's own is one scalar
    pointers = base + first_row * row_stride + (rows[:, None] * row_stride + cols[None, :])
    inside = tl.full([ROWS, PIECE], True, tl.int1)  # folded away where nothing is checked
    if CHECK_ROWS:
        inside = inside & (rows < num_rows - first_row)[:, None]
    if CHECK_COLS:
        inside = inside & (cols < num_cols)[None, :]
    return pointers, inside


@triton.jit
def load_tile(base, first_row, row_stride, num_rows, num_cols, ROWS: tl.constexpr, START: tl.constexpr,
              WIDTH: tl.constexpr, CHECK_ROWS: tl.constexpr, CHECK_COLS: tl.constexpr):
    """Tile of rows first_row .. + ROWS and columns START .. + WIDTH; 0 outside the matrix [num_rows, num_cols]."""
    PIECE: tl.constexpr = largest_piece(WIDTH)
    pointers, inside = locate_piece(base, first_row, row_stride, num_rows, num_cols, ROWS, START, PIECE,
                                    CHECK_ROWS, CHECK_COLS)
    piece = tl.load(pointers, mask=inside, other=0.0)
    if PIECE == WIDTH:
        return (piece,)
    else:
        return (piece,) + load_tile(base, first_row, row_stride, num_rows, num_cols, ROWS, START + PIECE, WIDTH - PIECE,
                                    CHECK_ROWS, CHECK_COLS)


@triton.jit
def load_signed_tile(base, first_row, row_stride, num_rows, num_cols, negate,
                     ROWS: tl.constexpr, START: tl.constexpr, WIDTH: tl.constexpr, CHECK_COLS: tl.constexpr):
    """A tile like load_tile's, negated if `negate`.

    The last thing is a load: sm_90 multiplies from shared memory only what was loaded as it is, the rest from registers.
    """
    PIECE: tl.constexpr = largest_piece(WIDTH)
    pointers, inside = locate_piece(base, first_row, row_stride, num_rows, num_cols, ROWS, START, PIECE, True, CHECK_COLS)
    negated = -tl.load(pointers, mask=inside & negate, other=0.0)
    piece = tl.load(pointers, mask=inside & (negate == 0), other=negated)
    if PIECE == WIDTH:
        return (piece,)
    else:
        return (piece,) + load_signed_tile(base, first_row, row_stride, num_rows, num_cols, negate,
                                           ROWS, START + PIECE, WIDTH - PIECE, CHECK_COLS)


@triton.jit
def store_tile(tile, base, first_row, row_stride, num_rows, num_cols, ROWS: tl.constexpr, START: tl.constexpr,
               WIDTH: tl.constexpr, CHECK_COLS: tl.constexpr):
    """Store a tile at rows first_row .. + ROWS and columns START .. + WIDTH, nothing outside [num_rows, num_cols]."""
    PIECE: tl.constexpr = largest_piece(WIDTH)
    pointers, inside = locate_piece(base, first_row, row_stride, num_rows, num_cols, ROWS, START, PIECE, True, CHECK_COLS)
    tl.store(pointers, tile[0].to(base.dtype.element_ty), mask=inside)
    if PIECE < WIDTH:
        store_tile(tile[1:], base, first_row, row_stride, num_rows, num_cols, ROWS, START + PIECE, WIDTH - PIECE, CHECK_COLS)


@triton.jit
def zero_tile(ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Tile [ROWS, WIDTH] of f32 zeros."""
    PIECE: tl.constexpr = largest_piece(WIDTH)
    piece = tl.zeros([ROWS, PIECE], tl.float32)
    if PIECE == WIDTH:
        return (piece,)
    else:
        return (piece,) + zero_tile(ROWS, WIDTH - PIECE)


@triton.jit
def multiply_qk(q, k):
    """q @ k.T of two tiles, f32."""
    scores = tl.dot(q[0], k[0].T, input_precision="ieee")
    for i in tl.static_range(1, len(q)):
        scores = tl.dot(q[i], k[i].T, scores, input_precision="ieee")
    return scores


@triton.jit
def add_pv(acc, p, v):
    """acc + p @ v, tiles acc and v."""
    piece = tl.dot(p.to(v[0].dtype), v[0], acc[0], input_precision="ieee")
    if len(v) == 1:
        return (piece,)
    else:
        return (piece,) + add_pv(acc[1:], p, v[1:])


@triton.jit
def online_softmax(scores, scale, row_max, row_sum, acc):
    """Fold one block of scores (before the scale, masked ones -inf) into the running state.  Returns p and the new state.

    scale > 0 applies in base 2.  row_max is kept scaled, so that p and the rescaling round it alike.
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
    heads_q, heads_k, seqlen_q, seqlen_k, head_dim, head_dim_v,
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
    k    [batch, heads_k, seqlen_k, head_dim]    same dtype
    v    [batch, heads_k, seqlen_k, head_dim_v]  same dtype
    out  [batch, heads_q, seqlen_q, head_dim_v]  same dtype; 0 for a row that sees no key
    lse  [batch, heads_q, seqlen_q]              f32, natural log, -inf for a row that sees no key; may be null: not stored
    Strides are i64 in elements, the last one is 1; sizes are i32.  scale_log2 = sm_scale * log2(e), of any sign.
    MASK "none"; "causal": key j is visible to row i iff j <= i + d; "window": iff i + d - window_left <= j <= i + d +
    window_right, both bounds 0 .. seqlen_q + seqlen_k; d = seqlen_k - seqlen_q if bottom_right else 0.
    HEAD_DIM and HEAD_DIM_V are the buckets; PADDED_HEAD: head_dim or head_dim_v may be less.
    Launch: cdiv(seqlen_q, BLOCK_M) * heads_q * batch programs in x.
    """
    batch, head_q, m_block = tile_of_program(heads_q, seqlen_q, BLOCK_M)
    head_k = head_q // (heads_q // heads_k)
    q_base = q_ptr + batch * q_stride_0 + head_q * q_stride_1
    k_base = k_ptr + batch * k_stride_0 + head_k * k_stride_1
    v_base = v_ptr + batch * v_stride_0 + head_k * v_stride_1
    out_base = out_ptr + batch * out_stride_0 + head_q * out_stride_1

    first_row = m_block * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    shift = seqlen_k - seqlen_q if bottom_right else 0
    if MASK == "causal":
        window_right = 0
    bounds = key_block_bounds(first_row, seqlen_q, seqlen_k, shift, window_left, window_right, MASK, BLOCK_M, BLOCK_N)

    # the sign of the scale goes into q: the largest score then has the largest probability
    q = load_signed_tile(q_base, first_row, q_stride_2, seqlen_q, head_dim, scale_log2 < 0, BLOCK_M, 0, HEAD_DIM, PADDED_HEAD)
    scale = tl.maximum(tl.abs(scale_log2), 1e-30)  # never 0: -inf * scale must stay -inf

    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    acc = zero_tile(BLOCK_M, HEAD_DIM_V)
    for PART in tl.static_range(LEFT_EDGE if MASK == "window" else FULL, RIGHT_EDGE + 1):
        for n_block in range(bounds[PART], bounds[PART + 1]):
            first_key = n_block * BLOCK_N
            k = load_tile(k_base, first_key, k_stride_2, seqlen_k, head_dim, BLOCK_N, 0, HEAD_DIM, PART != FULL, PADDED_HEAD)
            scores = multiply_qk(q, k)
            if PART != FULL:
                keys = first_key + tl.arange(0, BLOCK_N)
                seen = visible(rows, keys, seqlen_k, shift, window_left, window_right, MASK)
                scores = tl.where(seen, scores, float("-inf"))
            p, row_max, row_sum, acc = online_softmax(scores, scale, row_max, row_sum, acc)
            v = load_tile(v_base, first_key, v_stride_2, seqlen_k, head_dim_v, BLOCK_N, 0, HEAD_DIM_V, PART != FULL, PADDED_HEAD)
            acc = add_pv(acc, p, v)

    inverse = 1 / tl.where(row_sum == 0, 1.0, row_sum)
    out = [piece * inverse[:, None] for piece in acc]
    store_tile(out, out_base, first_row, out_stride_2, seqlen_q, head_dim_v, BLOCK_M, 0, HEAD_DIM_V, PADDED_HEAD)
    if lse_ptr.to(tl.int64) != 0:
        lse = (row_max + tl.log2(row_sum)) * LN_2
        tl.store(lse_ptr + batch * lse_stride_0 + head_q * lse_stride_1 + rows, lse, mask=rows < seqlen_q)

"""Attention forward on gfx950: two groups of four waves, one phase apart, each wave's softmax under matrix products.

After arXiv:2205.14135 with the scores transposed: s.T = k q.T leaves a row of scores in two lanes, and its exponentials
are operand B of out.T = v.T p.T as they stand.  A workgroup has 256 rows, a wave 32 of them; q and out stay in
registers, tiles of k and v go through LDS.  Two tiles are in flight in a wave, tile j in PV and tile j + 1 in QK:

    QK(j)   s(j + 1) = q k(j + 1)   under it: the later exponentials of tile j
    PV(j)   acc += p(j) v(j)        under it: maximum and first exponentials of tile j + 1

A barrier ends each phase; schedule.py says when tiles are fetched and why no other fence is needed.  Waves 4 to 7 pass
one barrier more in the beginning: on every SIMD one wave is in QK while the other is in PV.  Operands are read a few
products before their use, the first of a phase at the end of the one before.
"""
import flydsl.compiler as flyc
import flydsl.expr as fx
import tiles
from blocks import block_of_workgroup
from epilogue import store_rows
from flydsl.expr import const_expr, range_constexpr, rocdl
from lanes import ELEMENTS, any_lane, concat, exp2, pin, uniform, zeros
from masks import Mask, Walk, maximum
from matrix import weave
from memory import Matrix, head_base
from schedule import BUFFERS, IN_FLIGHT, K_AHEAD, V_AHEAD
from softmax import HEADROOM, LARGEST_SUM, NO_MAX, Exponentials, Maximum, no_sums, run
from staging import Tiles

GROUP_WAVES, ROWS = 4, 32


def build(*, DTYPE, HEAD_DIM, HEAD_DIM_V, MASK, CHECK_COLUMNS, ALIGNED,
          BLOCK_M, BLOCK_N, EARLY, AHEAD, STAGGER, RESCALE, HEADS_STAY):
    """The device function.

    HEAD_DIM, HEAD_DIM_V  of the image: multiples of 64; CHECK_COLUMNS: those of the problem may be smaller
    ALIGNED     addresses and strides are multiples of 16 bytes, head dims of 8
    EARLY       eighths of a tile's exponentials that are made in PV, the others in QK
    AHEAD       operands are read from LDS this many products before their use
    """
    element = ELEMENTS[DTYPE]
    num_waves = BLOCK_M // ROWS
    steps, chunks = HEAD_DIM // 16, HEAD_DIM_V // 32  # of q k: columns at a time; of p v: columns at a time
    parts, p_steps = BLOCK_N // 32, BLOCK_N // 16  # of a tile: rows at a time in q k, in p v
    pairs = 8 * parts  # of scores in a lane
    headroom = {"on_demand": None, "lazy": HEADROOM, "always": 0.0}[RESCALE]
    early_pairs = pairs * EARLY // 8
    check_k = CHECK_COLUMNS or not tiles.is_filled(BLOCK_N, HEAD_DIM)
    check_v = CHECK_COLUMNS or not tiles.is_filled(BLOCK_N, HEAD_DIM_V)
    k_elements = tiles.tile_elements(BLOCK_N, HEAD_DIM, tiles.ROW_PAD)
    v_elements = tiles.tile_elements(BLOCK_N, HEAD_DIM_V, tiles.COLUMN_PAD)

    @fx.struct
    class Lds:
        k: fx.Array[element, BUFFERS * k_elements, 128]
        v: fx.Array[element, BUFFERS * v_elements, 128]

    def fence(outstanding):
        """Barrier, behind all fetches of this wave but so many of the last."""
        rocdl.sched_barrier(0)
        if const_expr(ALIGNED):
            rocdl.s_waitcnt(vmcnt=outstanding)
        else:
            rocdl.s_waitcnt(lgkmcnt=0)
        rocdl.s_barrier()
        rocdl.sched_barrier(0)

    @flyc.jit
    def fence_of_some(mine, outstanding):
        if mine:
            fence(outstanding)

    def scores_of(accumulators):
        return [part[i] for part in accumulators for i in range_constexpr(16)]

    def p_operands(p):
        """Packed pairs as operands B, one a step."""
        return [concat(p[4 * step:4 * step + 4]) for step in range_constexpr(p_steps)]

    def half_softmax(scores, row_max, scale, headroom):
        """Vector work of PV: the maximum if there is a headroom, the exponents of p, the first exponentials."""
        top, made = Maximum(row_max), Exponentials(element)
        first, late = [None] * 2 * early_pairs, [None] * 2 * (pairs - early_pairs)
        work = [] if headroom is None else top.raise_work(scores, scale, headroom)
        work += top.argument_work(first, scores[:len(first)], scale) + made.work(first)
        work += top.argument_work(late, scores[len(first):], scale)
        return top, late, made, work

    def scaled(values, factor):
        return [x * factor for x in values]

    def added(sums, more):
        return [pin(a + b) for a, b in zip(sums, more, strict=True)]

    @flyc.jit
    def rescaled(needed, old, new, scale, sums, acc):
        """The sums, relative to the new maximum; a branch of the wave that is seldom taken."""
        if needed:
            alpha = exp2((old - new) * scale)
            sums, acc = scaled(sums, alpha), scaled(acc, alpha)
        return sums, acc

    def fwd_dual_wave(q_ptr: fx.Pointer, k_ptr: fx.Pointer, v_ptr: fx.Pointer, out_ptr: fx.Pointer, lse_ptr: fx.Pointer,
                      q_stride_0: fx.Int64, q_stride_1: fx.Int64, q_stride_2: fx.Int64,
                      k_stride_0: fx.Int64, k_stride_1: fx.Int64, k_stride_2: fx.Int64,
                      v_stride_0: fx.Int64, v_stride_1: fx.Int64, v_stride_2: fx.Int64,
                      out_stride_0: fx.Int64, out_stride_1: fx.Int64, out_stride_2: fx.Int64,
                      lse_stride_0: fx.Int64, lse_stride_1: fx.Int64,
                      batch: fx.Int32, heads_q: fx.Int32, heads_k: fx.Int32, seqlen_q: fx.Int32, seqlen_k: fx.Int32,
                      head_dim: fx.Int32, head_dim_v: fx.Int32,
                      scale_log2: fx.Float32, window_left: fx.Int32, window_right: fx.Int32, bottom_right: fx.Int32):
        lds = fx.SharedAllocator().allocate(Lds).peek()
        thread = fx.Int32(fx.thread_idx.x)
        lane, wave = thread & 63, uniform(thread >> 6)
        num_blocks = fx.Uint32(seqlen_q + (BLOCK_M - 1)) // fx.Uint32(BLOCK_M)
        sequence, head_q, m_block = block_of_workgroup(fx.Uint32(fx.block_idx.x), fx.Uint32(batch), fx.Uint32(heads_q),
                                                       num_blocks, HEADS_STAY)
        head_k = fx.Int32(fx.Uint32(head_q) // (fx.Uint32(heads_q) // fx.Uint32(heads_k)))
        if const_expr(MASK == "causal"):
            window_right = fx.Int32(0)
        shift = (bottom_right != 0).select(seqlen_k - seqlen_q, fx.Int32(0))
        scale = fx.maxnumf(scale_log2, fx.Float32(1e-27))  # never so small that a masked score counts

        first_row = m_block * BLOCK_M + wave * ROWS
        row = first_row + (lane & 31)

        def matrix(ptr, head, stride_0, stride_1, rows, columns, row_stride, check):
            base = head_base(ptr, sequence, head, stride_0, stride_1)
            return Matrix(base, element, rows, columns, row_stride, CHECK_COLUMNS=check, ALIGNED=ALIGNED)

        q = matrix(q_ptr, head_q, q_stride_0, q_stride_1, seqlen_q, head_dim, q_stride_2, CHECK_COLUMNS)
        k = matrix(k_ptr, head_k, k_stride_0, k_stride_1, seqlen_k, head_dim, k_stride_2, check_k)
        v = matrix(v_ptr, head_k, v_stride_0, v_stride_1, seqlen_k, head_dim_v, v_stride_2, check_v)
        out = matrix(out_ptr, head_q, out_stride_0, out_stride_1, seqlen_q, head_dim_v, out_stride_2, CHECK_COLUMNS)
        lse_rows = (fx.ptrtoint(lse_ptr) == 0).select(fx.Int32(0), seqlen_q)
        lse = Matrix(head_base(lse_ptr, sequence, head_q, lse_stride_0, lse_stride_1), fx.Float32, lse_rows, 1, 1,
                     CHECK_COLUMNS=False, ALIGNED=False)
        k_tiles = Tiles(k, HEAD_DIM, tiles.ROW_PAD, BLOCK_N, num_waves, lane, wave)
        v_tiles = Tiles(v, HEAD_DIM_V, tiles.COLUMN_PAD, BLOCK_N, num_waves, lane, wave)
        seen = Mask(MASK, lane, first_row, seqlen_k, shift, window_left, window_right)
        walk = Walk(MASK, BLOCK_M, BLOCK_N, m_block * BLOCK_M, seqlen_q, seqlen_k, shift, window_left, window_right)
        in_flight = IN_FLIGHT // 2 * (k_tiles.fetches + v_tiles.fetches)

        def fetch_k(j):
            k_tiles.fetch(lds.k.ptr + (fx.Int32(j) & (BUFFERS - 1)) * k_elements, walk.tile(fx.Int32(j)))

        def fetch_v(j):
            v_tiles.fetch(lds.v.ptr + (fx.Int32(j) & (BUFFERS - 1)) * v_elements, walk.tile(fx.Int32(j)))

        def k_reads(j):
            place = lds.k.ptr + (j & (BUFFERS - 1)) * k_elements
            return [lambda part=part, step=step: k_tiles.rows(place, 32 * part, step)
                    for step in range_constexpr(steps) for part in range_constexpr(parts)]

        def v_reads(j):
            place = lds.v.ptr + (j & (BUFFERS - 1)) * v_elements
            return [lambda step=step, chunk=chunk: v_tiles.columns(place, step, chunk)
                    for step in range_constexpr(p_steps) for chunk in range_constexpr(chunks)]

        def qk(operands, reads, work=()):
            """Scores of a tile, as accumulators."""
            products = [(part, q_operands[step]) for step in range_constexpr(steps) for part in range_constexpr(parts)]
            return weave([zeros(16) for _ in range_constexpr(parts)], products, operands, reads, work)

        def pv(acc, p, operands, reads, work=()):
            products = [(chunk, p[step]) for step in range_constexpr(p_steps) for chunk in range_constexpr(chunks)]
            return weave(acc, products, operands, reads, work)

        def first_operands(reads):
            return [read() for read in reads[:AHEAD]]

        def slow_scores(j, part):
            """Of 32 keys of a tile, read straight from memory: LDS is another tile's by now."""
            first_key = walk.first_key(j) + 32 * part
            here = pin(lane)  # or the addresses would be made in front of the loop, and fill the registers
            row, column = first_key + (here & 31), 8 * (here >> 5)
            reads = [lambda step=step: k.load(row, 16 * step + column, 8) for step in range_constexpr(steps)]
            products = [(0, q_operands[step]) for step in range_constexpr(steps)]
            scores, _ = weave([zeros(16)], products, [read() for read in reads[:2]], reads[2:])
            return scores_of(seen.apply(scores, first_key))

        @flyc.jit
        def mended(outgrown, j, row_max, p, tile_sums):
            """p of tile j again, relative to the true maximum, if they grew too large; seldom taken."""
            if outgrown:
                top, made = Maximum(row_max), Exponentials(element)
                for part in range_constexpr(parts):
                    run(top.raise_work(slow_scores(j, part), scale, 0.0))
                for part in range_constexpr(parts):
                    arguments = [None] * 16
                    run(top.argument_work(arguments, slow_scores(j, part), scale))
                    run(made.work(arguments))
                row_max, p, tile_sums = top.row_max, p_operands(made.p), made.sums
            return row_max, p, tile_sums

        def checked(j, row_max, p, tile_sums, sums, acc):
            if const_expr(headroom is None):
                old, outgrown = row_max, any_lane(tile_sums[0] > LARGEST_SUM)
                row_max, p, tile_sums = mended(outgrown, j, row_max, p, tile_sums)
                sums, acc = rescaled(any_lane(row_max > old), old, row_max, scale, sums, acc)
            return row_max, p, added(sums, tile_sums), acc

        # the beginning: s(0), its maximum and first exponentials
        fetch_k(0)
        q_operands = [q.load(row, 16 * step + 8 * (lane >> 5), 8) for step in range_constexpr(steps)]
        for j in range_constexpr(1, K_AHEAD):
            fetch_k(j)
            if const_expr(j <= V_AHEAD):
                fetch_v(j - 1)
        fence((K_AHEAD - 1) * k_tiles.fetches + V_AHEAD * v_tiles.fetches)
        reads = k_reads(fx.Int32(0))
        scores, _ = qk(first_operands(reads), reads[AHEAD:])
        scores = scores_of(seen.apply(scores, walk.first_key(fx.Int32(0))))
        top, late, made, work = half_softmax(scores, fx.Float32(NO_MAX), scale, 0.0)
        run(work)
        row_max, sums = top.row_max, no_sums(element)
        acc = [zeros(16) for _ in range_constexpr(chunks)]
        fence((K_AHEAD - 2) * k_tiles.fetches + (V_AHEAD - 1) * v_tiles.fetches)
        if const_expr(STAGGER):
            fence_of_some(wave >= GROUP_WAVES, in_flight)
        operands = first_operands(k_reads(fx.Int32(1)))

        def advance(j, state, masked):
            late, operands, row_max, sums, tile_sums, p, acc = state
            # QK(j)
            made = Exponentials(element, p, tile_sums)
            fetch = [(0, lambda: fetch_v(j + V_AHEAD))]
            scores, operands = qk(operands, k_reads(j + 1)[AHEAD:] + v_reads(j)[:AHEAD], fetch + made.work(late))
            scores = [pin(x) for x in scores]
            row_max, p, sums, acc = checked(j, row_max, p_operands(made.p), made.sums, sums, acc)
            fence(in_flight)
            # PV(j)
            if const_expr(masked):
                scores = seen.apply(scores, walk.first_key(j + 1))
            fetch = [(0, lambda: fetch_k(j + K_AHEAD))]
            top, late, made, work = half_softmax(scores_of(scores), row_max, scale, headroom)
            acc, operands = pv(acc, p, operands, v_reads(j)[AHEAD:] + k_reads(j + 2)[:AHEAD], fetch + work)
            acc = [pin(x) for x in acc]
            if const_expr(headroom is not None):
                sums, acc = rescaled(top.raised, row_max, top.row_max, scale, sums, acc)
            fence(in_flight)
            return late, operands, top.row_max, sums, made.sums, made.p, acc

        # tiles without a mask, then those with one: j makes the scores of tile j + 1
        state = (late, operands, row_max, sums, made.sums, made.p, acc)
        unmasked = maximum(walk.full - 1, fx.Int32(0))
        for j in range(0, unmasked, 1, unroll=1):
            state = advance(fx.Int32(j), state, False)
        for j in range(unmasked, walk.count - 1, 1, unroll=1):
            state = advance(fx.Int32(j), state, True)

        # the last tile
        late, operands, row_max, sums, tile_sums, p, acc = state
        made = Exponentials(element, p, tile_sums)
        run(made.work(late))
        last = walk.count - 1
        row_max, p, sums, acc = checked(last, row_max, p_operands(made.p), made.sums, sums, acc)
        fence(0)
        if const_expr(STAGGER):
            fence_of_some(wave < GROUP_WAVES, 0)
        reads = v_reads(last)
        acc, _ = pv(acc, p, first_operands(reads), reads[AHEAD:])

        lane = fx.Int32(fx.gpu.lane_id())  # again: in the loop there is no register for it
        row = first_row + (lane & 31)
        store_rows(out, lse, row, lane, acc, row_max, sums, scale_log2)

    return fwd_dual_wave

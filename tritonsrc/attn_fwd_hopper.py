"""Attention forward for sm_90 in Gluon: persistent, warp-specialised, bf16 and f16.

A program has one producer warp and two or three consumers, warpgroups of 64 rows each, and draws tiles of BLOCK_M rows
from a counter until none is left. The producer starts every load (TMA). A consumer multiplies (wgmma), does the softmax
and stores, visiting key blocks from the last one backwards, so that masked blocks come first.

head_dim may be less than HEAD_DIM: TMA fills what it loads with zeros and clips what it stores. At HEAD_DIM 512 a tile
is a slice of 256 output columns: acc and q would not fit otherwise. Its scores need all columns of q and k, which then
pass through shared memory in parts, each given back as soon as it is multiplied.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

ROWS = gl.constexpr(64)  # of a consumer
INITIAL_MAX = gl.constexpr(-1.0e30)  # finite, so that the difference of two maxima is never inf - inf
LN2 = gl.constexpr(0.6931471805599453)


@gluon.aggregate
class Config:
    """The trace constants of an image, and what follows from them."""

    BLOCK_M: gl.constexpr
    BLOCK_N: gl.constexpr
    KV_STAGES: gl.constexpr
    ORDER: gl.constexpr
    PING_PONG: gl.constexpr
    OVERLAP_TILES: gl.constexpr
    CAUSAL: gl.constexpr
    SKIP_BLOCKS: gl.constexpr
    NUM_CONSUMERS: gl.constexpr
    Q_BUFFERS: gl.constexpr
    OUT_COLUMNS: gl.constexpr
    NUM_SLICES: gl.constexpr
    PART_COLUMNS: gl.constexpr
    NUM_PARTS: gl.constexpr
    PARTS_PER_SLICE: gl.constexpr
    HEADS_TIMES_KEYS: gl.constexpr
    HIDE_SLOTS: gl.constexpr
    SCORES: gl.constexpr
    OUT: gl.constexpr
    P: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, HEAD_DIM, MASK, BLOCK_M, BLOCK_N, KV_STAGES, ORDER, PING_PONG, OVERLAP_TILES):
        out_columns = min(HEAD_DIM, 256)
        part_columns = HEAD_DIM if HEAD_DIM <= 256 else 128
        out = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, out_columns, 16])
        self.BLOCK_M = gl.constexpr(BLOCK_M)
        self.BLOCK_N = gl.constexpr(BLOCK_N)
        self.KV_STAGES = gl.constexpr(KV_STAGES)
        self.ORDER = gl.constexpr(ORDER)
        self.PING_PONG = gl.constexpr(PING_PONG)
        self.OVERLAP_TILES = gl.constexpr(OVERLAP_TILES)
        self.CAUSAL = gl.constexpr(MASK == "causal")
        # not with PING_PONG, where all consumers need the same number of turns
        self.SKIP_BLOCKS = gl.constexpr(MASK == "causal" and BLOCK_N < BLOCK_M and not PING_PONG)
        self.NUM_CONSUMERS = gl.constexpr(BLOCK_M // ROWS.value)
        self.Q_BUFFERS = gl.constexpr(2 if OVERLAP_TILES else 1)
        self.OUT_COLUMNS = gl.constexpr(out_columns)
        self.NUM_SLICES = gl.constexpr(HEAD_DIM // out_columns)
        self.PART_COLUMNS = gl.constexpr(part_columns)
        self.NUM_PARTS = gl.constexpr(HEAD_DIM // part_columns)
        self.PARTS_PER_SLICE = gl.constexpr(out_columns // part_columns)
        # keys and values that tiles in flight share: 32 MB, 64 MB from HEAD_DIM 256 on (H200, causal, 4k and 16k: +6 %)
        self.HEADS_TIMES_KEYS = gl.constexpr((1 << (26 if HEAD_DIM >= 256 else 25)) // (2 * 2 * HEAD_DIM))
        self.HIDE_SLOTS = gl.constexpr(HEAD_DIM >= 256 or BLOCK_M == 192)
        self.SCORES = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16]))
        self.OUT = gl.constexpr(out)
        self.P = gl.constexpr(gl.DotOperandLayout(0, out, 2))


@gluon.aggregate
class Sizes:
    """Problem sizes. Under the causal mask row i sees the keys up to i + diagonal."""

    batch: gl.tensor
    heads_q: gl.tensor
    heads_k: gl.tensor
    seqlen_q: gl.tensor
    seqlen_k: gl.tensor
    diagonal: gl.tensor


@gluon.aggregate
class Tile:
    """BLOCK_M rows from first_row on (-1: no tile is left) and one slice of output columns."""

    first_row: gl.tensor
    batch: gl.tensor
    head: gl.tensor
    slice: gl.tensor


@gluon.aggregate
class Lse:
    """Where the log-sum-exp of a row goes; ptr may be null."""

    ptr: gl.tensor
    stride_0: gl.tensor
    stride_1: gl.tensor

    @gluon.jit
    def store(self, values, tile, first_row, seqlen_q):
        rows = first_row + gl.arange(0, ROWS, values.type.layout)
        wanted = (self.ptr.to(gl.int64) != 0) & (tile.slice == 0)
        head_ptr = self.ptr + tile.batch * self.stride_0 + tile.head * self.stride_1
        gl.store(head_ptr + rows, values, mask=(rows < seqlen_q) & wanted)


# Shared memory


@gluon.aggregate
class Channel:
    """Slots that the producer fills and consumers read, each with a barrier for full and one for empty."""

    slots: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor

    @gluon.jit
    def load(self, desc, coordinates, slot, phase):
        """Start a copy into the slot once its readers have left it."""
        mbarrier.wait(self.empty.index(slot), phase ^ 1)
        mbarrier.expect(self.full.index(slot), desc.nbytes_per_cta)
        tma.async_load(desc, coordinates, self.full.index(slot), self.slots.index(slot))

    @gluon.jit
    def wait(self, slot, phase):
        mbarrier.wait(self.full.index(slot), phase)

    @gluon.jit
    def release(self, slot):
        mbarrier.arrive(self.empty.index(slot), count=1)

    @gluon.jit
    def matrix(self, slot):
        return self.slots.index(slot).reshape([self.slots.shape[3], self.slots.shape[4]])


@gluon.aggregate
class Pipes:
    """All that producer and consumers share. turn: one barrier a consumer, for PING_PONG."""

    tiles: Channel
    q: Channel
    k: Channel
    v: Channel
    out: gl.shared_memory_descriptor
    turn: gl.shared_memory_descriptor


@gluon.jit
def allocate_barriers(NUM_BARRIERS: gl.constexpr, ARRIVALS: gl.constexpr):
    barriers = mbarrier.allocate_mbarrier(batch=NUM_BARRIERS)
    for i in gl.static_range(NUM_BARRIERS):
        mbarrier.init(barriers.index(i), count=ARRIVALS)
    return barriers


@gluon.jit
def allocate_channel(desc, NUM_SLOTS: gl.constexpr, NUM_ROWS: gl.constexpr, COLUMNS: gl.constexpr,
                     READERS: gl.constexpr):
    slots = gl.allocate_shared_memory(desc.dtype, [NUM_SLOTS, 1, 1, NUM_ROWS, COLUMNS], desc.layout)
    return Channel(slots, allocate_barriers(NUM_SLOTS, 1), allocate_barriers(NUM_SLOTS, READERS))


@gluon.jit
def allocate_pipes(cfg, q_desc, k_desc, v_desc, out_desc):
    CONSUMERS: gl.constexpr = cfg.NUM_CONSUMERS
    Q_SLOTS: gl.constexpr = cfg.Q_BUFFERS * CONSUMERS * cfg.NUM_PARTS
    queue = gl.allocate_shared_memory(gl.int32, [6, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    tiles = Channel(queue, allocate_barriers(2, 1), allocate_barriers(2, CONSUMERS))
    q = allocate_channel(q_desc, Q_SLOTS, ROWS, cfg.PART_COLUMNS, 1)
    k = allocate_channel(k_desc, cfg.KV_STAGES * cfg.NUM_PARTS, cfg.BLOCK_N, cfg.PART_COLUMNS, CONSUMERS)
    v = allocate_channel(v_desc, cfg.KV_STAGES, cfg.BLOCK_N, cfg.OUT_COLUMNS, CONSUMERS)
    if cfg.OVERLAP_TILES:
        out = gl.allocate_shared_memory(out_desc.dtype, [CONSUMERS, 1, 1, ROWS, cfg.OUT_COLUMNS], out_desc.layout)
    else:  # neighbouring parts of q lie as one box of all their columns would
        OUT_SLOTS: gl.constexpr = Q_SLOTS // cfg.PARTS_PER_SLICE
        out = q.slots.reinterpret(out_desc.dtype, [OUT_SLOTS, 1, 1, ROWS, cfg.OUT_COLUMNS], out_desc.layout)
    return Pipes(tiles, q, k, v, out, allocate_barriers(CONSUMERS, 1))


@gluon.jit
def ring(use, NUM_SLOTS: gl.constexpr):
    """Slot and phase of the use-th use, from one counter: kept apart they cost registers."""
    return use & (NUM_SLOTS - 1), (use & NUM_SLOTS) // NUM_SLOTS


# Tiles: the producer decodes their numbers, so that divisions and the counter's latency cost the consumers nothing


@gluon.jit
def units_at_a_time(cfg, sizes):
    """Units (a slice of a head) whose tiles alternate: one head when all tiles are as long, else what L2 holds."""
    heads = 1
    if cfg.CAUSAL:
        heads_k = gl.maximum(cfg.HEADS_TIMES_KEYS // sizes.seqlen_k, 1)
        heads = gl.minimum(heads_k, sizes.batch * sizes.heads_k) * (sizes.heads_q // sizes.heads_k)
    return heads * cfg.NUM_SLICES


@gluon.jit
def tile_at(cfg, sizes, number):
    """Tile of this number: one group of units after the other, in a group the last rows first (the longest tiles)."""
    m_blocks = (sizes.seqlen_q + cfg.BLOCK_M - 1) // cfg.BLOCK_M
    units = sizes.batch * sizes.heads_q * cfg.NUM_SLICES
    group = units_at_a_time(cfg, sizes)
    first_unit = number // (group * m_blocks) * group
    in_group = number - first_unit * m_blocks
    group_units = gl.maximum(gl.minimum(group, units - first_unit), 1)
    steps_back = in_group // group_units
    unit = first_unit + in_group - steps_back * group_units
    head = unit // cfg.NUM_SLICES
    batch = head // sizes.heads_q
    first_row = gl.where(number < m_blocks * units, (m_blocks - 1 - steps_back) * cfg.BLOCK_M, -1)
    return Tile(first_row, batch, head - batch * sizes.heads_q, unit % cfg.NUM_SLICES)


@gluon.jit
def publish_tile(cfg, tiles, tile, use):
    """Hand the consumers their next tile."""
    slot, phase = ring(use, 2)
    one: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    mbarrier.wait(tiles.empty.index(slot), phase ^ 1)
    tiles.slots.index(slot).store(gl.full([1], tile.first_row, gl.int32, one))
    tiles.slots.index(slot + 2).store(gl.full([1], tile.batch, gl.int32, one))
    tiles.slots.index(slot + 4).store(gl.full([1], tile.head * cfg.NUM_SLICES + tile.slice, gl.int32, one))
    mbarrier.arrive(tiles.full.index(slot), count=1)


@gluon.jit
def read_tile(cfg, tiles, use):
    """The use-th published tile. Read before and after the loops: kept over them, its values would spill."""
    slot, phase = ring(use, 2)
    one: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    tiles.wait(slot, phase)
    first_row = gl.sum(tiles.slots.index(slot).load(one), 0)
    batch = gl.sum(tiles.slots.index(slot + 2).load(one), 0)
    unit = gl.sum(tiles.slots.index(slot + 4).load(one), 0)
    return Tile(first_row, batch, unit // cfg.NUM_SLICES, unit % cfg.NUM_SLICES)


@gluon.jit
def count_blocks(cfg, sizes, end_row):
    """Key blocks that some row before end_row sees, at least one."""
    end = sizes.seqlen_k
    if cfg.CAUSAL:
        end = gl.maximum(gl.minimum(end_row + sizes.diagonal, end), 1)
    return (end + cfg.BLOCK_N - 1) // cfg.BLOCK_N


@gluon.jit
def count_masked(cfg, sizes, first_row, num_blocks):
    """Key blocks that a consumer masks: those that its first row does not see whole, at least the last one."""
    masked = 1
    if cfg.CAUSAL:
        seen = gl.minimum(gl.maximum(first_row + sizes.diagonal + 1, 0), sizes.seqlen_k)
        masked = gl.maximum(num_blocks - seen // cfg.BLOCK_N, 1)
    return masked


# Producer


@gluon.jit
def load_q(cfg, q, q_desc, tile, use):
    buffer, phase = ring(use, cfg.Q_BUFFERS)
    for part in gl.static_range(cfg.NUM_PARTS):
        for consumer in gl.static_range(cfg.NUM_CONSUMERS):
            slot = (buffer * cfg.NUM_CONSUMERS + consumer) * cfg.NUM_PARTS + part
            row = tile.first_row + consumer * ROWS
            q.load(q_desc, [tile.batch, tile.head, row, part * cfg.PART_COLUMNS], slot, phase)


@gluon.jit
def load_k(cfg, k, k_desc, batch, head, first_key, use):
    stage, phase = ring(use, cfg.KV_STAGES)
    for part in gl.static_range(cfg.NUM_PARTS):
        column = part * cfg.PART_COLUMNS
        k.load(k_desc, [batch, head, first_key, column], stage * cfg.NUM_PARTS + part, phase)


@gluon.jit
def load_v(cfg, v, v_desc, batch, head, first_key, column, use):
    stage, phase = ring(use, cfg.KV_STAGES)
    v.load(v_desc, [batch, head, first_key, column], stage, phase)


@gluon.jit
def produce(cfg, pipes, sizes, q_desc, k_desc, v_desc, counter_ptr):
    """The producer: draws tiles and starts all loads in the order in which the consumers use them."""
    num_tiles = 0
    block = 0  # key blocks so far, over all tiles
    heads_per_kv = sizes.heads_q // sizes.heads_k
    tile = tile_at(cfg, sizes, gl.program_id(0))
    while tile.first_row >= 0:
        publish_tile(cfg, pipes.tiles, tile, num_tiles)
        next_number = gl.atomic_add(counter_ptr, 1, sem="relaxed") + gl.num_programs(0)
        head = tile.head // heads_per_kv
        column = tile.slice * cfg.OUT_COLUMNS
        first_key = (count_blocks(cfg, sizes, tile.first_row + cfg.BLOCK_M) - 1) * cfg.BLOCK_N
        load_k(cfg, pipes.k, k_desc, tile.batch, head, first_key, block)
        load_q(cfg, pipes.q, q_desc, tile, num_tiles)
        while first_key > 0:
            load_k(cfg, pipes.k, k_desc, tile.batch, head, first_key - cfg.BLOCK_N, block + 1)
            load_v(cfg, pipes.v, v_desc, tile.batch, head, first_key, column, block)
            first_key -= cfg.BLOCK_N
            block += 1
        load_v(cfg, pipes.v, v_desc, tile.batch, head, first_key, column, block)
        block += 1
        num_tiles += 1
        tile = tile_at(cfg, sizes, next_number)
    publish_tile(cfg, pipes.tiles, tile, num_tiles)


# Consumers


@gluon.aggregate
class Work:
    """A consumer's rows of one tile. last_key: the last one a row sees, see last_keys. zero: see start_scores."""

    cfg: Config
    pipes: Pipes
    scale_log2: gl.tensor
    q_slot: gl.tensor
    q_phase: gl.tensor
    last_key: gl.tensor
    num_blocks: gl.tensor
    zero: gl.tensor


@gluon.jit
def by_quad(scores):
    """Columns taken apart: eights, the lane of the four that share a row, that lane's two columns."""
    return scores.reshape([scores.shape[0], scores.shape[1] // 8, 4, 2])


@gluon.jit
def quad_sum(p):
    """Row sums kept apart in the four lanes that share a row: no shuffles in the loop."""
    return gl.sum(gl.sum(by_quad(p), 3), 1)


@gluon.jit
def last_keys(cfg, sizes, first_row):
    """[ROWS, 4]: the last key that a row sees, counted from the first column of each lane that shares the row."""
    QUADS: gl.constexpr = quad_sum(gl.zeros([ROWS, cfg.BLOCK_N], gl.float32, cfg.SCORES)).type.layout
    last = gl.full([ROWS], 0, gl.int32, gl.SliceLayout(1, QUADS)) + (sizes.seqlen_k - 1)
    if cfg.CAUSAL:
        rows = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, QUADS))
        last = gl.minimum(rows + sizes.diagonal, last)
    return last[:, None] - 2 * gl.arange(0, 4, gl.SliceLayout(0, QUADS))[None, :]


@gluon.jit
def mask_block(work, scores, step):
    """Scores of keys that a row does not see become -inf; step 0 is the tile's last block."""
    # What differs between lanes sits in last_key, so that the columns are constants of the code. As a plain arange they
    # take registers over the whole kernel (308 bytes of spill with three consumers at HEAD_DIM 64, causal).
    quads = by_quad(scores)
    layout: gl.constexpr = quads.type.layout
    eights = gl.arange(0, quads.shape[1], gl.SliceLayout(0, gl.SliceLayout(2, gl.SliceLayout(3, layout))))
    ones = gl.arange(0, 2, gl.SliceLayout(0, gl.SliceLayout(1, gl.SliceLayout(2, layout))))
    columns = 8 * eights[None, :, None, None] + ones[None, None, None, :]
    last_column = work.last_key - (work.num_blocks - 1 - step) * work.cfg.BLOCK_N
    quads = gl.where(last_column[:, None, :, None] >= columns, quads, float("-inf"))
    return gl.convert_layout(quads.reshape(scores.shape), work.cfg.SCORES)


@gluon.jit
def online_softmax(work, scores, row_max, row_sum):
    """Fold in a block of scores (masked ones -inf). Returns p, the new state and the factor for what came before."""
    new_max = gl.maximum(row_max, gl.max(scores, 1))
    scaled_max = new_max * work.scale_log2
    p = gl.exp2(scores * work.scale_log2 - scaled_max[:, None])
    # subtract, then scale: row_max * scale - scaled_max would become one FMA and leave a huge rest at INITIAL_MAX
    alpha = gl.exp2((row_max - new_max) * work.scale_log2)
    block_sum = quad_sum(p)
    row_sum = row_sum * gl.convert_layout(alpha, gl.SliceLayout(1, block_sum.type.layout))[:, None] + block_sum
    return p, new_max, row_sum, alpha


@gluon.jit
def as_operand(work, p):
    return gl.convert_layout(p.to(work.pipes.v.slots.dtype), work.cfg.P)


@gluon.jit
def scale_rows(work, acc, factor):
    return acc * gl.convert_layout(factor, gl.SliceLayout(1, work.cfg.OUT))[:, None]


@gluon.jit
def start_scores(work, block, FIRST: gl.constexpr):
    """Start q @ k.T of the block-th key block. FIRST: q may not have arrived yet."""
    # From slots that it knows the compiler makes all operand addresses before the loop and keeps them in registers: 568
    # bytes of spill at HEAD_DIM 512. HIDE_SLOTS where registers are short; elsewhere it only adds instructions.
    cfg = work.cfg
    stage, phase = ring(block, cfg.KV_STAGES)
    hidden_zero = 0
    if cfg.HIDE_SLOTS:
        hidden_zero = block & work.zero
    scores = gl.zeros([ROWS, cfg.BLOCK_N], gl.float32, cfg.SCORES)
    for part in gl.static_range(cfg.NUM_PARTS):
        if FIRST:
            work.pipes.q.wait(work.q_slot + part, work.q_phase)
        work.pipes.k.wait(stage * cfg.NUM_PARTS + part, phase)
        q = work.pipes.q.matrix(work.q_slot + part + hidden_zero)
        k = work.pipes.k.matrix(stage * cfg.NUM_PARTS + part + hidden_zero)
        scores = warpgroup_mma(q, k.permute((1, 0)), scores, use_acc=part > 0, is_async=True)
    return scores


@gluon.jit
def finish_scores(work, scores, acc, block):
    """Wait for the scores and give back each part of k; the product into acc, started after them, runs on."""
    stage, _ = ring(block, work.cfg.KV_STAGES)
    first_slot = stage * work.cfg.NUM_PARTS
    for part in gl.static_range(work.cfg.NUM_PARTS - 1):
        scores, acc = warpgroup_mma_wait(work.cfg.NUM_PARTS - part, deps=[scores, acc])
        work.pipes.k.release(first_slot + part)
    scores = warpgroup_mma_wait(1, deps=[scores])
    work.pipes.k.release(first_slot + work.cfg.NUM_PARTS - 1)
    return scores, acc


@gluon.jit
def first_scores(work, block):
    """The scores of the tile's last key block."""
    scores = warpgroup_mma_wait(0, deps=[start_scores(work, block, True)])
    stage, _ = ring(block, work.cfg.KV_STAGES)
    for part in gl.static_range(work.cfg.NUM_PARTS):
        work.pipes.k.release(stage * work.cfg.NUM_PARTS + part)
    return mask_block(work, scores, 0)


@gluon.jit
def start_output(work, p, acc, block):
    """Start acc + p @ v of the block-th key block."""
    stage, phase = ring(block, work.cfg.KV_STAGES)
    work.pipes.v.wait(stage, phase)
    return warpgroup_mma(p, work.pipes.v.matrix(stage), acc, is_async=True)


@gluon.jit
def release_v(work, block):
    stage, _ = ring(block, work.cfg.KV_STAGES)
    work.pipes.v.release(stage)


@gluon.jit
def step_overlapping(work, step, scores, acc, row_max, row_sum, block, MASKED: gl.constexpr):
    """ORDER 0: the next block's scores beside this block's softmax, then this block's output."""
    next_scores = start_scores(work, block, False)
    p, row_max, row_sum, alpha = online_softmax(work, scores, row_max, row_sum)
    p = as_operand(work, p)
    acc = scale_rows(work, acc, alpha)
    next_acc = start_output(work, p, acc, block - 1)
    scores, next_acc = finish_scores(work, next_scores, next_acc, block)
    if MASKED:
        scores = mask_block(work, scores, step)
    acc = warpgroup_mma_wait(0, deps=[next_acc])  # in flight over the loop's edge it would serialise every wgmma
    release_v(work, block - 1)
    return scores, acc, row_max, row_sum, block + 1


@gluon.jit
def run_overlapping(work, first, last, scores, acc, row_max, row_sum, block, MASKED: gl.constexpr):
    """Steps first to last of ORDER 0, unmasked ones by two: the two sets of scores swap registers without moves."""
    if MASKED:
        for step in range(first, last):
            scores, acc, row_max, row_sum, block = step_overlapping(
                work, step, scores, acc, row_max, row_sum, block, True)
    else:
        for _ in range(0, (last - first) >> 1):
            scores, acc, row_max, row_sum, block = step_overlapping(
                work, 0, scores, acc, row_max, row_sum, block, False)
            scores, acc, row_max, row_sum, block = step_overlapping(
                work, 0, scores, acc, row_max, row_sum, block, False)
        if ((last - first) & 1) == 1:
            scores, acc, row_max, row_sum, block = step_overlapping(
                work, 0, scores, acc, row_max, row_sum, block, False)
    return scores, acc, row_max, row_sum, block


@gluon.jit
def run_back_to_back(work, first, last, p, acc, row_max, row_sum, block, turn_phase, MASKED: gl.constexpr,
                     WARPGROUP: gl.constexpr):
    """Steps first to last of ORDER 1: both products, then the softmax beside the products of the other consumers."""
    for step in range(first, last):
        if work.cfg.PING_PONG:  # one consumer at a time gives work to the tensor cores
            mbarrier.wait(work.pipes.turn.index(WARPGROUP), turn_phase)
            turn_phase ^= 1
        next_scores = start_scores(work, block, False)
        next_acc = start_output(work, p, acc, block - 1)
        if work.cfg.PING_PONG:
            mbarrier.arrive(work.pipes.turn.index((WARPGROUP + 1) % work.cfg.NUM_CONSUMERS), count=1)
        scores, next_acc = finish_scores(work, next_scores, next_acc, block)
        if MASKED:
            scores = mask_block(work, scores, step)
        next_p, row_max, row_sum, alpha = online_softmax(work, scores, row_max, row_sum)
        next_p = as_operand(work, next_p)
        acc, p, alpha = warpgroup_mma_wait(0, deps=[next_acc, next_p, alpha])
        release_v(work, block - 1)
        acc = scale_rows(work, acc, alpha)
        block += 1
    return p, acc, row_max, row_sum, block, turn_phase


@gluon.jit
def take_work(cfg, pipes, sizes, scale_log2, first_row, num_tiles, WARPGROUP: gl.constexpr):
    """This consumer's rows of the tile that starts at first_row."""
    buffer, q_phase = ring(num_tiles, cfg.Q_BUFFERS)
    q_slot = (buffer * cfg.NUM_CONSUMERS + WARPGROUP) * cfg.NUM_PARTS
    end_row = first_row + ((WARPGROUP + 1) * ROWS if cfg.SKIP_BLOCKS else cfg.BLOCK_M)
    num_blocks = count_blocks(cfg, sizes, end_row)
    last_key = last_keys(cfg, sizes, first_row + WARPGROUP * ROWS)
    zero = sizes.batch >> 31  # which the compiler cannot know
    return Work(cfg, pipes, scale_log2, q_slot, q_phase, last_key, num_blocks, zero)


@gluon.jit
def skip_blocks(work, num_blocks, block):
    """Leave out key blocks at the tile's end that only later consumers see. Returns the count of blocks so far."""
    for _ in range(num_blocks):
        stage, phase = ring(block, work.cfg.KV_STAGES)
        for part in gl.static_range(work.cfg.NUM_PARTS):
            work.pipes.k.wait(stage * work.cfg.NUM_PARTS + part, phase)
            work.pipes.k.release(stage * work.cfg.NUM_PARTS + part)
        work.pipes.v.wait(stage, phase)
        work.pipes.v.release(stage)
        block += 1
    return block


@gluon.jit
def release_q(work, FIRST: gl.constexpr, LAST: gl.constexpr):
    for part in gl.static_range(FIRST, LAST):
        work.pipes.q.release(work.q_slot + part)


@gluon.jit
def store_tile(work, sizes, out_desc, lse, acc, row_max, row_sum, num_tiles, WARPGROUP: gl.constexpr):
    """Divide by the sum, then write out and lse. A row without a key has out = 0 and lse = -inf."""
    cfg = work.cfg
    tile = read_tile(cfg, work.pipes.tiles, num_tiles)
    first_row = tile.first_row + WARPGROUP * ROWS
    total = gl.convert_layout(gl.sum(row_sum, 1), gl.SliceLayout(1, cfg.SCORES))
    acc = scale_rows(work, acc, gl.where(total == 0, 0.0, 1.0 / total))
    log_sum = (row_max * work.scale_log2 + gl.log2(total)) * LN2
    lse.store(gl.where(total == 0, float("-inf"), log_sum), tile, first_row, sizes.seqlen_q)
    if cfg.OVERLAP_TILES:
        out = work.pipes.out.index(WARPGROUP)
        tma.store_wait(0)
    else:  # in the last parts of q: the next tile's scores need them last
        out = work.pipes.out.index(work.q_slot // cfg.PARTS_PER_SLICE + cfg.NUM_SLICES - 1)
    out.reshape([ROWS, cfg.OUT_COLUMNS]).store(acc.to(out_desc.dtype))
    fence_async_shared()
    tma.async_store(out_desc, [tile.batch, tile.head, first_row, tile.slice * cfg.OUT_COLUMNS], out)
    if not cfg.OVERLAP_TILES:
        tma.store_wait(0)
        release_q(work, cfg.NUM_PARTS - cfg.PARTS_PER_SLICE, cfg.NUM_PARTS)
    work.pipes.tiles.release(num_tiles & 1)


@gluon.jit
def consume(cfg, pipes, sizes, out_desc, lse, scale_log2, WARPGROUP: gl.constexpr):
    """A consumer: 64 rows of every tile that the producer publishes."""
    EARLY_PARTS: gl.constexpr = cfg.NUM_PARTS if cfg.OVERLAP_TILES else cfg.NUM_PARTS - cfg.PARTS_PER_SLICE
    num_tiles = 0
    block = 0  # key blocks so far, over all tiles
    turn_phase = 1 if WARPGROUP == 0 else 0  # consumer 0 has the first turn
    first_row = read_tile(cfg, pipes.tiles, num_tiles).first_row
    while first_row >= 0:
        work = take_work(cfg, pipes, sizes, scale_log2, first_row, num_tiles, WARPGROUP)
        num_masked = count_masked(cfg, sizes, first_row + WARPGROUP * ROWS, work.num_blocks)
        if cfg.SKIP_BLOCKS and WARPGROUP + 1 < cfg.NUM_CONSUMERS:
            block = skip_blocks(work, count_blocks(cfg, sizes, first_row + cfg.BLOCK_M) - work.num_blocks, block)
        row_max = gl.full([ROWS], INITIAL_MAX, gl.float32, gl.SliceLayout(1, cfg.SCORES))
        row_sum = quad_sum(gl.zeros([ROWS, cfg.BLOCK_N], gl.float32, cfg.SCORES))
        acc = gl.zeros([ROWS, cfg.OUT_COLUMNS], gl.float32, cfg.OUT)
        scores = first_scores(work, block)
        block += 1
        if cfg.ORDER == 0:
            if cfg.CAUSAL:
                scores, acc, row_max, row_sum, block = run_overlapping(
                    work, 1, num_masked, scores, acc, row_max, row_sum, block, True)
            scores, acc, row_max, row_sum, block = run_overlapping(
                work, num_masked, work.num_blocks, scores, acc, row_max, row_sum, block, False)
            p, row_max, row_sum, alpha = online_softmax(work, scores, row_max, row_sum)
            p = as_operand(work, p)
            acc = scale_rows(work, acc, alpha)
        else:
            p, row_max, row_sum, _ = online_softmax(work, scores, row_max, row_sum)
            p = as_operand(work, p)
            if cfg.CAUSAL:
                p, acc, row_max, row_sum, block, turn_phase = run_back_to_back(
                    work, 1, num_masked, p, acc, row_max, row_sum, block, turn_phase, True, WARPGROUP)
            p, acc, row_max, row_sum, block, turn_phase = run_back_to_back(
                work, num_masked, work.num_blocks, p, acc, row_max, row_sum, block, turn_phase, False, WARPGROUP)
        release_q(work, 0, EARLY_PARTS)
        acc = warpgroup_mma_wait(0, deps=[start_output(work, p, acc, block - 1)])
        release_v(work, block - 1)
        store_tile(work, sizes, out_desc, lse, acc, row_max, row_sum, num_tiles, WARPGROUP)
        num_tiles += 1
        first_row = read_tile(cfg, pipes.tiles, num_tiles).first_row
    tma.store_wait(0)


@gluon.jit
def attn_fwd_hopper(
    q_desc, k_desc, v_desc, out_desc,
    lse_ptr, counter_ptr,
    lse_stride_0, lse_stride_1,
    batch, heads_q, heads_k, seqlen_q, seqlen_k,
    scale_log2,
    bottom_right,
    HEAD_DIM: gl.constexpr, MASK: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, KV_STAGES: gl.constexpr,
    ORDER: gl.constexpr, PING_PONG: gl.constexpr, OVERLAP_TILES: gl.constexpr,
):
    """out = softmax(sm_scale * q @ k.T) @ v and the log-sum-exp of each row; a row without a key gives 0 and -inf.

    q_desc, out_desc  [batch, heads_q, seqlen_q, head_dim], bf16 or f16, boxes of 64 rows
    k_desc, v_desc    [batch, heads_k, seqlen_k, head_dim], boxes of BLOCK_N rows; seqlen_q and seqlen_k are at least 1
                      columns of a box: HEAD_DIM; at HEAD_DIM 512 those of q and k 128, of v and out 256
    lse_ptr           [batch, heads_q, seqlen_q] f32, natural log, last stride 1; or null
    counter_ptr       i32, zero before every launch
    scale_log2        sm_scale * log2(e), positive
    bottom_right      1: the causal diagonal ends at the last key; 0: it starts at the first (j <= i)
    MASK              "none" or "causal"
    BLOCK_M           rows of a tile: 64 for each consumer, of which there are two or three
    KV_STAGES         key blocks in flight, a power of two
    ORDER             0: step_overlapping, 1: run_back_to_back; PING_PONG: its consumers take turns
    OVERLAP_TILES     q has two buffers and out its own, so that loads and stores of neighbouring tiles overlap

    Compile with num_warps=4; launch min(multiprocessors, tiles) programs, one tile for each BLOCK_M rows (and each 256
    columns) of a head.
    """
    cfg = Config(HEAD_DIM, MASK, BLOCK_M, BLOCK_N, KV_STAGES, ORDER, PING_PONG, OVERLAP_TILES)
    diagonal = gl.where(bottom_right != 0, seqlen_k - seqlen_q, 0)
    sizes = Sizes(batch, heads_q, heads_k, seqlen_q, seqlen_k, diagonal)
    pipes = allocate_pipes(cfg, q_desc, k_desc, v_desc, out_desc)
    lse = Lse(lse_ptr, lse_stride_0, lse_stride_1)
    if cfg.NUM_CONSUMERS == 2:
        gl.warp_specialize([
            (consume, (cfg, pipes, sizes, out_desc, lse, scale_log2, gl.constexpr(0))),
            (consume, (cfg, pipes, sizes, out_desc, lse, scale_log2, gl.constexpr(1))),
            (produce, (cfg, pipes, sizes, q_desc, k_desc, v_desc, counter_ptr)),
        ], [4, 1], [240, 24])
    else:
        gl.warp_specialize([
            (consume, (cfg, pipes, sizes, out_desc, lse, scale_log2, gl.constexpr(0))),
            (consume, (cfg, pipes, sizes, out_desc, lse, scale_log2, gl.constexpr(1))),
            (consume, (cfg, pipes, sizes, out_desc, lse, scale_log2, gl.constexpr(2))),
            (produce, (cfg, pipes, sizes, q_desc, k_desc, v_desc, counter_ptr)),
        ], [4, 4, 1], [160, 160, 24])

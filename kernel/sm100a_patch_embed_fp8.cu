// The fused patch-embed GEMM for the B200: a persistent, warp-specialised kernel of CTA pairs. FP8
// (E4M3) operands, FP32 accumulation in tensor memory, BF16 output:
//
//   C[M, 768] = bf16(A[M, 768] x B[768, 768]^T) +bf16 comb[row % 196, 768]       M = images x 196
//
// A, B row-major, K contiguous; comb as [768 / 16][196][16], C row-major. Any images >= 1, any even
// grid. A pair computes tiles of 256 x BLOCK_N, 128 rows in the tensor memory of each CTA; B is
// split between the CTAs along N, and each CTA multiplies its rows by both halves. Rows past M are
// read as zero and never stored (TMA clips both). Never measured on a B200 so far.
//
// Tiles are numbered in snake order, columns fastest, so that consecutive tiles share A or B in L2;
// a pair takes one contiguous run of them. Warp roles:
//
//   W0   load      both CTAs: TMA loads of A and B into the ring, by one elected lane
//   W1   MMA       allocates tensor memory (both CTAs); one elected lane of the even CTA issues the
//                  MMAs of the pair
//   W2.. epilogue  reads back the accumulator of tile n-1 during the MMAs of tile n: converts to
//                  BF16, adds comb, stages with the swizzle, stores by TMA. Warp w can only read
//                  lanes 32 (w % 4).. of tensor memory; a fifth warp (W6) has the same lanes as W2
//                  and takes the upper half of its columns.
//
// Shared memory, bytes, at the defaults (BLOCK_N 256, LOAD_PIPE_DEPTH 4):
//
//        0  ring: 4 stages of A [128 rows][128 bytes] 16,384 + B the same 16,384   128B swizzle
//   131072  staging: 4 lane groups x 4 boxes of [32 rows][64 columns] BF16, 4,096  128B swizzle
//   196608  barriers, 8 each: 4 + 4 + 2 + 2
//   196704  the address of tensor memory, 4
//   196708  end; of 232,448: 35,740 to spare (a fifth stage takes 32,768 of them)
//
// Every stage and box starts on a 1024-byte boundary, where the swizzle pattern begins: from any
// other address TMA and the tensor core permute 16-byte units differently than the epilogue does.
//
// Barriers, the CTA that holds them, who arrives in a phase -> who waits:
//
//   inputs_arrived[stage]   even CTA    1: its W0 with expect_tx, + bytes of both CTAs' loads -> W1
//   inputs_released[stage]  each CTA    1: tcgen05.commit of W1, multicast                    -> W0
//   accum_ready[buffer]     each CTA    1: tcgen05.commit of W1, multicast              -> epilogue
//   accum_released[buffer]  even CTA    every epilogue warp of both CTAs, once each           -> W1
//
// inputs_arrived: bytes of the odd CTA's loads may arrive before the even CTA expects them (the
// tx-count is signed), but never a phase early: the odd W0 waits for inputs_released, which is
// committed after the MMAs of that phase. Cluster barriers: before tensor memory is allocated (the
// peer runs and sees initialised barriers), after it (no MMA into a peer without an allocation),
// before it is freed (no reads are left), before the exit (no CTA exits while its peer can access
// it). Each role first waits for the operations it started, so that none is in flight at the last
// two.

#include <cuda.h>

#include "memory_layout.cuh"
#include "phase_clock.cuh"
#include "ptx.cuh"
#include "tcgen05.cuh"
#include "wait.cuh"

// Tunables. The build passes all of them from kernels.yaml, which also lists the values to try;
// these defaults are for a compile by hand.
//
//   LOAD_PIPE_DEPTH      stages of the ring
//   BLOCK_N              columns of a tile
//   EPILOGUE_WARPS       4, or 5: the fifth has the lanes of the first
//   TMEM_LOAD_WIDTH      columns of one tcgen05.ld
//   TMEM_LOADS_IN_FLIGHT 2: the next load is in flight while one is converted
//   TABLE_AHEAD          1: comb is loaded before the accumulators of a pipeline; 0: with each load
//   READ_BACK_UNROLL     boxes of 64 columns read back as one software pipeline
//   STORE_INTERLEAVE     0: boxes are stored after the read-back; n: once n - 1 more are staged
//   EARLY_RELEASE        1: the accumulator is released before its last columns are staged
//   STAGGER_CYCLES       epilogue warp e starts each tile e times this many cycles later
//   CVT_ADD_FUSED        1: convert, add and stage 8 columns at a time; 0: a whole load by step
//   K_LOOP_UNROLL        K steps of 128 in one loop body
//   SNAKE_ORDER          1: every other row of tiles runs backwards
//   L2_PROMOTION         of the loads' maps: 0 none, 1 64, 2 128, 3 256 bytes
//   A_CACHE_HINT         A, B, C in L2: 0 no hint, 1 evict first, 2 evict last
//   B_CACHE_HINT
//   C_CACHE_HINT
#ifndef LOAD_PIPE_DEPTH
#define LOAD_PIPE_DEPTH 4
#endif
#ifndef BLOCK_N
#define BLOCK_N 256
#endif
#ifndef EPILOGUE_WARPS
#define EPILOGUE_WARPS 4
#endif
#ifndef TMEM_LOAD_WIDTH
#define TMEM_LOAD_WIDTH 32
#endif
#ifndef TMEM_LOADS_IN_FLIGHT
#define TMEM_LOADS_IN_FLIGHT 2
#endif
#ifndef TABLE_AHEAD
#define TABLE_AHEAD 1
#endif
#ifndef READ_BACK_UNROLL
#define READ_BACK_UNROLL 4
#endif
#ifndef STORE_INTERLEAVE
#define STORE_INTERLEAVE 1
#endif
#ifndef EARLY_RELEASE
#define EARLY_RELEASE 1
#endif
#ifndef STAGGER_CYCLES
#define STAGGER_CYCLES 64
#endif
#ifndef CVT_ADD_FUSED
#define CVT_ADD_FUSED 1
#endif
#ifndef K_LOOP_UNROLL
#define K_LOOP_UNROLL 6
#endif
#ifndef SNAKE_ORDER
#define SNAKE_ORDER 1
#endif
#ifndef L2_PROMOTION
#define L2_PROMOTION 2
#endif
#ifndef A_CACHE_HINT
#define A_CACHE_HINT 0
#endif
#ifndef B_CACHE_HINT
#define B_CACHE_HINT 2
#endif
#ifndef C_CACHE_HINT
#define C_CACHE_HINT 1
#endif

namespace {

using kernelrig::lie_apart;
using kernelrig::SharedRegion;
using kernelrig::TensorRegion;
using kernelrig::wait;
using kernelrig::wait_relaxed;
namespace ptx = kernelrig::ptx;
namespace tcgen05 = kernelrig::tcgen05;

struct Config {
  static constexpr int ROWS_PER_IMAGE = 196;
  static constexpr int N = 768;
  static constexpr int K = 768;
  static constexpr int CTAS = 2; // of a cluster: one pair
  static constexpr int CTA_ROWS = 128;
  static constexpr int TILE_ROWS = CTAS * CTA_ROWS;
  static constexpr int TILE_COLUMNS = BLOCK_N;
  static constexpr int TILES_ACROSS = N / TILE_COLUMNS;
  static constexpr int BLOCK_K = 128; // one swizzle row of bytes
  static constexpr int MMA_K = 32;
  static constexpr int K_STEPS = K / BLOCK_K;
  static constexpr int K_STEPS_PER_BODY = K_LOOP_UNROLL;
  static constexpr int COMB_BLOCK = 16; // columns of comb that a lane loads at once

  static constexpr int SWIZZLE_PERIOD = 1024;
  static constexpr int A_BOX_BYTES = CTA_ROWS * BLOCK_K;
  static constexpr int B_BOX_ROWS = TILE_COLUMNS / CTAS;
  static constexpr int B_BOX_BYTES = B_BOX_ROWS * BLOCK_K;
  static constexpr int STAGE_BYTES = (TILE_ROWS + TILE_COLUMNS) * BLOCK_K / CTAS;
  static constexpr int STAGES = LOAD_PIPE_DEPTH;

  static constexpr int LANE_GROUPS = 4;
  static constexpr int BOX_ROWS = CTA_ROWS / LANE_GROUPS;
  static constexpr int BOX_COLUMNS = 64; // 128 bytes of BF16
  static constexpr int BOX_BYTES = BOX_ROWS * BOX_COLUMNS * 2;
  static constexpr int BOXES = TILE_COLUMNS / BOX_COLUMNS;
  static constexpr int STAGING_BOXES = LANE_GROUPS * BOXES;

  static constexpr int ACCUMULATORS = 2;
  static constexpr int TMEM_COLUMNS = ACCUMULATORS * TILE_COLUMNS;

  static constexpr int LOAD_WARP = 0;
  static constexpr int MMA_WARP = 1;
  static constexpr int FIRST_EPILOGUE_WARP = 2;
  static constexpr int THREADS = 32 * (2 + EPILOGUE_WARPS);

  static constexpr int STAGING_OFFSET = STAGES * STAGE_BYTES;
  static constexpr int BARRIERS_OFFSET = STAGING_OFFSET + STAGING_BOXES * BOX_BYTES;
  static constexpr int INPUTS_ARRIVED = BARRIERS_OFFSET;
  static constexpr int INPUTS_RELEASED = INPUTS_ARRIVED + 8 * STAGES;
  static constexpr int ACCUM_READY = INPUTS_RELEASED + 8 * STAGES;
  static constexpr int ACCUM_RELEASED = ACCUM_READY + 8 * ACCUMULATORS;
  static constexpr int TMEM_ADDRESS = ACCUM_RELEASED + 8 * ACCUMULATORS;
  static constexpr int SMEM_BYTES = TMEM_ADDRESS + 4;

  static constexpr SharedRegion SHARED_LAYOUT[] = {
      SharedRegion::buffers("A", 0, A_BOX_BYTES, STAGES, STAGE_BYTES),
      SharedRegion::buffers("B", A_BOX_BYTES, B_BOX_BYTES, STAGES, STAGE_BYTES),
      SharedRegion::buffers("C_staging", STAGING_OFFSET, BOX_BYTES, STAGING_BOXES),
      SharedRegion::mbarriers("inputs_arrived", INPUTS_ARRIVED, STAGES),
      SharedRegion::mbarriers("inputs_released", INPUTS_RELEASED, STAGES),
      SharedRegion::mbarriers("accum_ready", ACCUM_READY, ACCUMULATORS),
      SharedRegion::mbarriers("accum_released", ACCUM_RELEASED, ACCUMULATORS),
      SharedRegion::word("tmem_address", TMEM_ADDRESS)};
  static constexpr TensorRegion TENSOR_LAYOUT[] = {{"accumulator", 0, TILE_COLUMNS, ACCUMULATORS}};

  static_assert(lie_apart(SHARED_LAYOUT, SMEM_BYTES) && lie_apart(TENSOR_LAYOUT, TMEM_COLUMNS),
                "what is declared of shared and tensor memory must fit it without overlap");
  static_assert(
      TILE_COLUMNS == 128 || TILE_COLUMNS == 256,
      "BLOCK_N is 128 or 256: an MMA has at most 256 columns, and two accumulators of more "
      "exceed the 512 of tensor memory");
  static_assert(TMEM_COLUMNS <= 512 && (TMEM_COLUMNS & (TMEM_COLUMNS - 1)) == 0,
                "two accumulators must fit the 512 columns of tensor memory, as a power of two");
  static_assert(N % TILE_COLUMNS == 0 && K % BLOCK_K == 0 && BLOCK_K % MMA_K == 0,
                "tiles must cover N and K exactly: only rows are clipped");
  static_assert(STAGES >= 3,
                "LOAD_PIPE_DEPTH is at least 3: with fewer stages no load is in flight "
                "while one stage is multiplied and one is released");
  static_assert(SMEM_BYTES <= 232448, "LOAD_PIPE_DEPTH stages, staging and barriers exceed the 227 "
                                      "KB of shared memory that a CTA may have");
  static_assert(STAGES <= 5, "LOAD_PIPE_DEPTH is at most 5: a tile has 6 K steps, and the drain of "
                             "the ring expects that every stage was used");
  static_assert(STAGE_BYTES % SWIZZLE_PERIOD == 0 && A_BOX_BYTES % SWIZZLE_PERIOD == 0 &&
                    STAGING_OFFSET % SWIZZLE_PERIOD == 0 && BOX_BYTES % SWIZZLE_PERIOD == 0,
                "every stage and box must start where the 128B swizzle pattern does: 1024 bytes");
  static_assert(A_BOX_BYTES + B_BOX_BYTES == STAGE_BYTES && CTAS * STAGE_BYTES < 1 << 20,
                "the expected bytes must be those of the boxes of A and B, and the tx-count of a "
                "barrier is at most 2^20 - 1");
  static_assert(EPILOGUE_WARPS == 4 || EPILOGUE_WARPS == 5,
                "EPILOGUE_WARPS is 4, a warp for each 32 lanes of tensor memory, or 5, where the "
                "fifth has the lanes of the first: fewer do not cover the rows");
  static_assert(TMEM_LOAD_WIDTH == 16 || TMEM_LOAD_WIDTH == 32 || TMEM_LOAD_WIDTH == 64,
                "TMEM_LOAD_WIDTH is 16, 32 or 64 columns: a box of 64 must be a whole number of "
                "loads, and two loads must fit the registers");
  static_assert(TMEM_LOADS_IN_FLIGHT == 1 || TMEM_LOADS_IN_FLIGHT == 2,
                "TMEM_LOADS_IN_FLIGHT is 1 or 2: tcgen05.wait::ld waits for all loads, so a third "
                "gains nothing");
  static_assert(STORE_INTERLEAVE >= 0 && STORE_INTERLEAVE <= 3,
                "STORE_INTERLEAVE is 0 (after the read-back) or 1 to 3 boxes behind it");
  static_assert(STORE_INTERLEAVE <= BOXES,
                "STORE_INTERLEAVE exceeds the boxes of a tile: nothing would be interleaved");
  static_assert(READ_BACK_UNROLL == 1 || READ_BACK_UNROLL == 2 || READ_BACK_UNROLL == 4,
                "READ_BACK_UNROLL is 1, 2 or 4 boxes: it must divide the boxes of a warp");
  static_assert(K_LOOP_UNROLL >= 1 && K_STEPS % K_LOOP_UNROLL == 0,
                "K_LOOP_UNROLL must divide the 6 K steps of a tile: 1, 2, 3 or 6");
  static_assert(STAGGER_CYCLES >= 0 && STAGGER_CYCLES <= 4096,
                "STAGGER_CYCLES is 0 to 4096: a start later than the MMAs of a tile gains nothing");
  static_assert((TABLE_AHEAD | EARLY_RELEASE | SNAKE_ORDER | CVT_ADD_FUSED | 1) == 1,
                "TABLE_AHEAD, EARLY_RELEASE, SNAKE_ORDER and CVT_ADD_FUSED are 0 or 1");
  static_assert(L2_PROMOTION >= 0 && L2_PROMOTION <= 3, "L2_PROMOTION is 0, 1, 2 or 3");
  static_assert(A_CACHE_HINT >= 0 && A_CACHE_HINT <= 2 && B_CACHE_HINT >= 0 && B_CACHE_HINT <= 2 &&
                    C_CACHE_HINT >= 0 && C_CACHE_HINT <= 2,
                "a cache hint is 0 (none), 1 (evict first) or 2 (evict last)");
};

// The phases that a timing build measures, one row per tile, in the even CTA.
constexpr int LOAD_PHASES = 2, MMA_PHASES = 3, EPILOGUE_PHASES = 3;
constexpr int PHASE_COUNT = LOAD_PHASES + MMA_PHASES + EPILOGUE_WARPS * EPILOGUE_PHASES;
enum LoadPhase { RING_WAIT, ISSUE };
enum MmaPhase { ACCUMULATOR_RELEASE_WAIT, STAGE_0_WAIT, K_LOOP };
enum EpiloguePhase { ACCUMULATOR_WAIT, READ_BACK, STORES };
using LoadClock = kernelrig::PhaseClock<LOAD_PHASES>;
using MmaClock = kernelrig::PhaseClock<MMA_PHASES>;
using EpilogueClock = kernelrig::PhaseClock<EPILOGUE_PHASES>;

// What a trace build records of a tile, behind the phases of its row: the first tiles of each pair.
constexpr int LOAD_MARKS = Config::K_STEPS * LOAD_PHASES;
constexpr int LOAD_TRACE = PHASE_COUNT;
constexpr int MMA_TRACE = LOAD_TRACE + kernelrig::trace_words(LOAD_MARKS);
constexpr int EPILOGUE_TRACE = MMA_TRACE + kernelrig::trace_words(MMA_PHASES);
constexpr int EPILOGUE_WORDS = kernelrig::trace_words(EPILOGUE_PHASES);
constexpr int ROW_WORDS = EPILOGUE_TRACE + EPILOGUE_WARPS * EPILOGUE_WORDS;

// The tiles of one pair: a contiguous run; the first tiles % pairs pairs have one tile more.
struct Run {
  int first, count;

  __host__ __device__ __forceinline__ Run(int tiles, int pairs, int pair) {
    const int left = tiles % pairs;
    first = pair * (tiles / pairs) + (pair < left ? pair : left);
    count = tiles / pairs + (pair < left ? 1 : 0);
  }
};

// What every role of a CTA needs.
struct Cta {
  uint32_t smem;
  uint32_t rank;
  Run run;
  unsigned long long *clocks;

  __device__ __forceinline__ unsigned long long *clocks_of(int tile, int first_phase) const {
    return clocks + static_cast<size_t>(tile) * ROW_WORDS + first_phase;
  }

  // Only the even CTA's first tiles are recorded; by one thread, which the caller chooses.
  template <class Clock>
  __device__ __forceinline__ void record(Clock &clock, int tile, int at, int marks) const {
    if (rank == 0 && tile - run.first < kernelrig::TRACE_TILES)
      clock.record(clocks_of(tile, at), marks);
  }
};

using Stage = kernelrig::PipelineState<Config::STAGES>;
using Accumulator = kernelrig::PipelineState<Config::ACCUMULATORS>;

struct Tile {
  int row, column; // of C

  __device__ __forceinline__ explicit Tile(int number) {
    const int down = number / Config::TILES_ACROSS;
    const int across = number % Config::TILES_ACROSS;
    const bool backwards = SNAKE_ORDER && down % 2 == 1;
    row = down * Config::TILE_ROWS;
    column = (backwards ? Config::TILES_ACROSS - 1 - across : across) * Config::TILE_COLUMNS;
  }
};

template <int HINT>
__device__ __forceinline__ void load_box(uint32_t to, const CUtensorMap &map, int k, int line,
                                         uint32_t barrier) {
  if constexpr (HINT == 0)
    tcgen05::tma_load_2d(to, &map, k, line, barrier);
  if constexpr (HINT == 1)
    tcgen05::tma_load_2d(to, &map, k, line, barrier, ptx::l2_evict_first());
  if constexpr (HINT == 2)
    tcgen05::tma_load_2d(to, &map, k, line, barrier, ptx::l2_evict_last());
}

__device__ __forceinline__ void store_box(const CUtensorMap &map, int column, int row,
                                          uint32_t from) {
  if constexpr (C_CACHE_HINT == 0)
    ptx::tma_store_2d(&map, column, row, from);
  if constexpr (C_CACHE_HINT == 1)
    ptx::tma_store_2d(&map, column, row, from, ptx::l2_evict_first());
  if constexpr (C_CACHE_HINT == 2)
    ptx::tma_store_2d(&map, column, row, from, ptx::l2_evict_last());
}

// W0, one lane: load each stage once it is released. The loads of both CTAs count on the even one's
// barrier.
__device__ __forceinline__ void load_inputs(const Cta &cta, const CUtensorMap &a_map,
                                            const CUtensorMap &b_map) {
  Stage stage;
  for (int tile = cta.run.first; tile < cta.run.first + cta.run.count; ++tile) {
    LoadClock clock;
    cta.record(clock, tile, LOAD_TRACE, LOAD_MARKS);
    clock.start();
    const Tile at(tile);
    const int a_row = at.row + cta.rank * Config::CTA_ROWS;
    const int b_row = at.column + cta.rank * Config::B_BOX_ROWS;
#pragma unroll 1
    for (int k = 0; k < Config::K; k += Config::BLOCK_K) {
      wait(cta.smem + Config::INPUTS_RELEASED + 8 * stage.index, stage.parity ^ 1,
           "inputs_released");
      clock.mark(RING_WAIT);
      const uint32_t arrived = cta.smem + Config::INPUTS_ARRIVED + 8 * stage.index;
      if (cta.rank == 0)
        ptx::mbarrier_arrive_expect_tx(arrived, Config::CTAS * Config::STAGE_BYTES);
      const uint32_t a_box = cta.smem + stage.index * Config::STAGE_BYTES;
      load_box<A_CACHE_HINT>(a_box, a_map, k, a_row, ptx::in_even_cta(arrived));
      load_box<B_CACHE_HINT>(a_box + Config::A_BOX_BYTES, b_map, k, b_row,
                             ptx::in_even_cta(arrived));
      clock.mark(ISSUE);
      stage.advance();
    }
    if (cta.rank == 0)
      clock.write(cta.clocks_of(tile, 0));
  }
  if (cta.run.count == 0)
    return;
  for (int i = 0; i < Config::STAGES; ++i) { // until the last commits have arrived in this CTA
    wait(cta.smem + Config::INPUTS_RELEASED + 8 * stage.index, stage.parity ^ 1, "inputs_released");
    stage.advance();
  }
}

// W1 of the even CTA, one lane: issue the MMAs of the pair.
__device__ __forceinline__ void multiply(const Cta &cta, uint32_t tmem) {
  constexpr uint32_t INSTRUCTION =
      tcgen05::instruction_descriptor(Config::TILE_ROWS, Config::TILE_COLUMNS);
  constexpr uint16_t BOTH_CTAS = 0x3;
  constexpr uint32_t STAGE_UNITS = Config::STAGE_BYTES / tcgen05::DESCRIPTOR_UNIT;
  const uint32_t a_ring = tcgen05::descriptor_address(cta.smem);
  const uint32_t b_ring = tcgen05::descriptor_address(cta.smem + Config::A_BOX_BYTES);
  Stage stage;
  Accumulator accumulator;
  for (int tile = cta.run.first; tile < cta.run.first + cta.run.count; ++tile) {
    MmaClock clock;
    cta.record(clock, tile, MMA_TRACE, MMA_PHASES);
    clock.start();
    wait_relaxed(cta.smem + Config::ACCUM_RELEASED + 8 * accumulator.index, accumulator.parity ^ 1,
                 "accum_released");
    tcgen05::fence_after_thread_sync();
    clock.mark(ACCUMULATOR_RELEASE_WAIT);
    const uint32_t d = tmem + accumulator.index * Config::TILE_COLUMNS;
#pragma unroll Config::K_STEPS_PER_BODY
    for (int step = 0; step < Config::K_STEPS; ++step) {
      wait(cta.smem + Config::INPUTS_ARRIVED + 8 * stage.index, stage.parity, "inputs_arrived");
      tcgen05::fence_after_thread_sync();
      if (step == 0)
        clock.mark(STAGE_0_WAIT);
      const uint32_t from = stage.index * STAGE_UNITS;
#pragma unroll
      for (uint32_t k = 0; k < Config::BLOCK_K; k += Config::MMA_K) {
        const uint32_t units = from + k / tcgen05::DESCRIPTOR_UNIT;
        tcgen05::mma_fp8(d, tcgen05::matrix_descriptor(a_ring + units),
                         tcgen05::matrix_descriptor(b_ring + units), INSTRUCTION,
                         step > 0 || k > 0);
      }
      tcgen05::commit_multicast(cta.smem + Config::INPUTS_RELEASED + 8 * stage.index, BOTH_CTAS);
      stage.advance();
    }
    tcgen05::commit_multicast(cta.smem + Config::ACCUM_READY + 8 * accumulator.index, BOTH_CTAS);
    clock.mark(K_LOOP);
    clock.write(cta.clocks_of(tile, LOAD_PHASES));
    accumulator.advance();
  }
  for (int i = 0; i < Config::ACCUMULATORS; ++i) { // until the peer's last arrivals are there
    wait_relaxed(cta.smem + Config::ACCUM_RELEASED + 8 * accumulator.index, accumulator.parity ^ 1,
                 "accum_released");
    accumulator.advance();
  }
}

// The epilogue of one warp: 32 rows of its CTA, COLUMNS columns of the tile.
template <int COLUMNS> struct Epilogue {
  static constexpr int LOADS_PER_BOX = Config::BOX_COLUMNS / TMEM_LOAD_WIDTH;
  static constexpr int BOXES = COLUMNS / Config::BOX_COLUMNS;
  static constexpr int PIPELINE_BOXES = READ_BACK_UNROLL < BOXES ? READ_BACK_UNROLL : BOXES;
  static constexpr int LOADS = PIPELINE_BOXES * LOADS_PER_BOX;
  static constexpr int BOXES_BEHIND = STORE_INTERLEAVE == 0 ? BOXES : STORE_INTERLEAVE - 1;
  // At least this many bulk groups are newer than the last store of the box that is staged next.
  static constexpr int GROUPS_PENDING =
      STORE_INTERLEAVE == 0 || STORE_INTERLEAVE > BOXES ? 0 : BOXES - STORE_INTERLEAVE;
  static constexpr int UNIT_COLUMNS = 8; // 16 bytes: one st.shared.v4, the unit of the swizzle

  static_assert(BOXES % PIPELINE_BOXES == 0,
                "the boxes of a warp must be a whole number of pipelines");
  static_assert(TMEM_LOAD_WIDTH % Config::COMB_BLOCK == 0,
                "a load must cover whole blocks of comb");

  // One tcgen05.ld: TMEM_LOAD_WIDTH columns of the lane's row.
  struct Load {
    uint32_t accumulators[TMEM_LOAD_WIDTH];
  };

  // comb for the loads of one pipeline, as pairs of BF16.
  static constexpr int BLOCKS_PER_LOAD = TMEM_LOAD_WIDTH / Config::COMB_BLOCK;
  struct Table {
    uint32_t pairs[LOADS * BLOCKS_PER_LOAD][Config::COMB_BLOCK / 2];
  };

  const Cta &cta;
  const CUtensorMap &c_map;
  int warp;         // in the epilogue, from 0
  int lane_group;   // of tensor memory
  int first_column; // in the tile
  uint32_t staging; // this warp's first box
  uint32_t own_row; // the lane's row in it, with the swizzle of that row

  __device__ __forceinline__ Epilogue(const Cta &cta, const CUtensorMap &c_map, int warp,
                                      int lane_group, int first_column)
      : cta(cta), c_map(c_map), warp(warp), lane_group(lane_group), first_column(first_column) {
    const int first_box = lane_group * Config::BOXES + first_column / Config::BOX_COLUMNS;
    const int lane = threadIdx.x % 32;
    staging = cta.smem + Config::STAGING_OFFSET + first_box * Config::BOX_BYTES;
    own_row = (staging + lane * 128) ^ (lane % 8 * 16);
  }

  __device__ __forceinline__ void run(uint32_t tmem, const uint16_t *comb) const {
    Accumulator accumulator;
    const int cta_row = cta.rank * Config::CTA_ROWS + lane_group * Config::BOX_ROWS;
    for (int tile = cta.run.first; tile < cta.run.first + cta.run.count; ++tile) {
      EpilogueClock clock;
      if (threadIdx.x % 32 == 0)
        cta.record(clock, tile, EPILOGUE_TRACE + warp * EPILOGUE_WORDS, EPILOGUE_PHASES);
      clock.start();
      const Tile at(tile);
      const int row = at.row + cta_row;
      const int column = at.column + first_column;
      const int position = (row + threadIdx.x % 32) % Config::ROWS_PER_IMAGE;
      // [columns / COMB_BLOCK][position][COMB_BLOCK]: the rows of a warp's lanes are adjacent
      const uint16_t *own_comb =
          comb + column * Config::ROWS_PER_IMAGE + position * Config::COMB_BLOCK;
      Table table;
      if (TABLE_AHEAD)
        load_table(table, own_comb, 0, LOADS);
      wait(cta.smem + Config::ACCUM_READY + 8 * accumulator.index, accumulator.parity,
           "accum_ready");
      clock.mark(ACCUMULATOR_WAIT);
      stagger();
      __syncwarp();
      tcgen05::fence_after_thread_sync();
      const uint32_t from =
          tmem + (lane_group * 32 << 16) + accumulator.index * Config::TILE_COLUMNS + first_column;
      const uint32_t released =
          ptx::in_even_cta(cta.smem + Config::ACCUM_RELEASED + 8 * accumulator.index);
      if (STORE_INTERLEAVE == 0)
        wait_for_staging();
#pragma unroll 1
      for (int box = 0; box < BOXES; box += PIPELINE_BOXES) {
        const uint16_t *box_comb = own_comb + box * Config::BOX_COLUMNS * Config::ROWS_PER_IMAGE;
        if (TABLE_AHEAD && box > 0)
          load_table(table, box_comb, 0, LOADS);
        read_back(from, table, box_comb, box, row, column, released);
      }
      clock.mark(READ_BACK);
      store_rest(row, column);
      if (!EARLY_RELEASE)
        release(released);
      clock.mark(STORES);
      if (cta.rank == 0 && ptx::elect_one())
        clock.write(cta.clocks_of(tile, LOAD_PHASES + MMA_PHASES + warp * EPILOGUE_PHASES));
      accumulator.advance();
    }
    if (ptx::elect_one())
      ptx::bulk_wait_group_read<0>(); // the CTA must not exit while TMA reads its shared memory
  }

  // Start later than the other warps: warps that start together queue for tensor memory.
  __device__ __forceinline__ void stagger() const {
    if constexpr (STAGGER_CYCLES > 0) {
      const uint32_t begin = ptx::clock();
      while (ptx::clock() - begin < static_cast<uint32_t>(warp * STAGGER_CYCLES)) {
      }
    }
  }

  // Read back PIPELINE_BOXES boxes from `box` on. The next load is issued before the current one is
  // staged; the __syncwarp() after it keeps ptxas from moving it down to its own wait.
  __device__ __forceinline__ void read_back(uint32_t from, Table &table, const uint16_t *box_comb,
                                            int box, int row, int column, uint32_t released) const {
    constexpr int AHEAD = TMEM_LOADS_IN_FLIGHT - 1;
    Load loads[TMEM_LOADS_IN_FLIGHT];
    const uint32_t box_from = from + box * Config::BOX_COLUMNS;
    load(loads[0], box_from, table, box_comb, 0);
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      const int current = box + i / LOADS_PER_BOX;
      tcgen05::wait_load();
      if (i + 1 < LOADS && AHEAD == 1) {
        load(loads[(i + 1) % TMEM_LOADS_IN_FLIGHT], box_from, table, box_comb, i + 1);
        __syncwarp();
      }
      if (i + 1 == LOADS && EARLY_RELEASE && box + PIPELINE_BOXES == BOXES)
        release(released);
      if (STORE_INTERLEAVE > 0 && i % LOADS_PER_BOX == 0)
        wait_for_staging();
      stage(loads[i % TMEM_LOADS_IN_FLIGHT], table, i, current);
      if (i % LOADS_PER_BOX == LOADS_PER_BOX - 1 && current >= BOXES_BEHIND) {
        publish();
        if (ptx::elect_one()) {
          store(current - BOXES_BEHIND, row, column);
          ptx::bulk_commit_group();
        }
      }
      if (i + 1 < LOADS && AHEAD == 0)
        load(loads[0], box_from, table, box_comb, i + 1);
    }
  }

  __device__ __forceinline__ static void load(Load &load, uint32_t from, Table &table,
                                              const uint16_t *box_comb, int number) {
    tcgen05::load_columns(load.accumulators, from + number * TMEM_LOAD_WIDTH);
    if (!TABLE_AHEAD)
      load_table(table, box_comb, number, 1);
  }

  // comb for `count` loads of a pipeline, from number `first` on.
  __device__ __forceinline__ static void load_table(Table &table, const uint16_t *box_comb,
                                                    int first, int count) {
#pragma unroll
    for (int i = first * BLOCKS_PER_LOAD; i < (first + count) * BLOCKS_PER_LOAD; ++i)
      ptx::load_read_only(table.pairs[i],
                          box_comb + i * Config::COMB_BLOCK * Config::ROWS_PER_IMAGE);
  }

  // Two roundings: bf16(acc), then the sum with comb. Columns 2 i and 2 i + 1 are pair i.
  __device__ __forceinline__ static uint32_t rounded(const Load &load, int pair) {
    return ptx::pack_bf16(load.accumulators[2 * pair], load.accumulators[2 * pair + 1]);
  }

  __device__ __forceinline__ static uint32_t added(const Table &table, int number, int pair,
                                                   uint32_t acc) {
    constexpr int PAIRS = Config::COMB_BLOCK / 2;
    return ptx::add_bf16(acc, table.pairs[number * BLOCKS_PER_LOAD + pair / PAIRS][pair % PAIRS]);
  }

  // Convert and stage load `number` of a pipeline, which belongs to `box`.
  __device__ __forceinline__ void stage(const Load &load, const Table &table, int number,
                                        int box) const {
    constexpr int UNIT_PAIRS = UNIT_COLUMNS / 2;
    const int column = number % LOADS_PER_BOX * TMEM_LOAD_WIDTH; // in the box
    uint32_t pairs[TMEM_LOAD_WIDTH / 2];
    if constexpr (!CVT_ADD_FUSED) {
#pragma unroll
      for (int i = 0; i < TMEM_LOAD_WIDTH / 2; ++i)
        pairs[i] = rounded(load, i);
#pragma unroll
      for (int i = 0; i < TMEM_LOAD_WIDTH / 2; ++i)
        pairs[i] = added(table, number, i, pairs[i]);
    }
#pragma unroll
    for (int unit = 0; unit < TMEM_LOAD_WIDTH / UNIT_COLUMNS; ++unit) {
      uint32_t words[UNIT_PAIRS];
#pragma unroll
      for (int i = 0; i < UNIT_PAIRS; ++i) {
        const int pair = unit * UNIT_PAIRS + i;
        words[i] = CVT_ADD_FUSED ? added(table, number, pair, rounded(load, pair)) : pairs[pair];
      }
      // bits 4 to 6 of own_row hold the swizzle; in the address of a box they are zero
      ptx::store_shared((own_row ^ (column + unit * UNIT_COLUMNS) * 2) + box * Config::BOX_BYTES,
                        words);
    }
  }

  // Wait until the oldest store of this warp has read the box that is staged next. Only the elected
  // lane has bulk groups; all lanes execute the wait, because at a branch ptxas would wait for the
  // loads in flight.
  __device__ __forceinline__ static void wait_for_staging() {
    ptx::bulk_wait_group_read<GROUPS_PENDING>();
    __syncwarp();
  }

  // Make what every lane staged visible to a TMA store of the elected one.
  __device__ __forceinline__ static void publish() {
    ptx::fence_proxy_async_shared();
    __syncwarp();
  }

  __device__ __forceinline__ void store(int box, int row, int column) const {
    store_box(c_map, column + box * Config::BOX_COLUMNS, row, staging + box * Config::BOX_BYTES);
  }

  // Store the boxes that read_back has staged and not stored.
  __device__ __forceinline__ void store_rest(int row, int column) const {
    constexpr int LEFT = BOXES_BEHIND < BOXES ? BOXES_BEHIND : BOXES;
    if constexpr (LEFT > 0) {
      publish();
      if (ptx::elect_one()) {
#pragma unroll
        for (int box = BOXES - LEFT; box < BOXES; ++box) {
          store(box, row, column);
          if (STORE_INTERLEAVE > 0 || box == BOXES - 1)
            ptx::bulk_commit_group();
        }
      }
    }
  }

  // After the wait for all loads of this warp: the next MMAs may overwrite the accumulator.
  __device__ __forceinline__ static void release(uint32_t barrier) {
    tcgen05::fence_before_thread_sync();
    __syncwarp();
    if (ptx::elect_one())
      ptx::mbarrier_arrive_relaxed_cluster(barrier);
  }
};

// W2 to W5 have a lane group each; with five warps W2 and W6 have the same one and half of the
// columns each.
template <int WARPS>
__device__ __forceinline__ void run_epilogue(const Cta &cta, const CUtensorMap &c_map, int warp,
                                             uint32_t tmem, const uint16_t *comb) {
  const int number = warp - Config::FIRST_EPILOGUE_WARP;
  const int lane_group = warp % Config::LANE_GROUPS;
  if constexpr (WARPS > Config::LANE_GROUPS) {
    constexpr int SHARE = Config::TILE_COLUMNS * Config::LANE_GROUPS / (WARPS - 1) / 2;
    if (number % Config::LANE_GROUPS == 0) {
      const int first_column = number == 0 ? 0 : SHARE;
      Epilogue<SHARE>(cta, c_map, number, lane_group, first_column).run(tmem, comb);
      return;
    }
  }
  Epilogue<Config::TILE_COLUMNS>(cta, c_map, number, lane_group, 0).run(tmem, comb);
}

__device__ __forceinline__ void init_barriers(uint32_t smem) {
  for (int stage = 0; stage < Config::STAGES; ++stage) {
    ptx::mbarrier_init(smem + Config::INPUTS_ARRIVED + 8 * stage, 1);
    ptx::mbarrier_init(smem + Config::INPUTS_RELEASED + 8 * stage, 1);
  }
  for (int accumulator = 0; accumulator < Config::ACCUMULATORS; ++accumulator) {
    ptx::mbarrier_init(smem + Config::ACCUM_READY + 8 * accumulator, 1);
    ptx::mbarrier_init(smem + Config::ACCUM_RELEASED + 8 * accumulator,
                       Config::CTAS * EPILOGUE_WARPS);
  }
  ptx::fence_mbarrier_init();
}

__device__ __forceinline__ void cluster_sync_relaxed() {
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
}

extern "C" __global__ void __cluster_dims__(Config::CTAS, 1, 1)
    __launch_bounds__(Config::THREADS, 1)
        patch_embed_gemm(const __grid_constant__ CUtensorMap a_map,
                         const __grid_constant__ CUtensorMap b_map,
                         const __grid_constant__ CUtensorMap c_map, const uint16_t *comb, int m,
                         unsigned long long *phase_clocks) {
  extern __shared__ __align__(Config::SWIZZLE_PERIOD) uint8_t dynamic_smem[];
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0); // uniform for the compiler too
  const int pairs = gridDim.x / Config::CTAS;
  const int pair = blockIdx.x / Config::CTAS;
  const int tiles = (m + Config::TILE_ROWS - 1) / Config::TILE_ROWS * Config::TILES_ACROSS;
  const Cta cta{ptx::shared_address(dynamic_smem), ptx::cluster_rank(), Run(tiles, pairs, pair),
                phase_clocks};

  if (warp == Config::LOAD_WARP && ptx::elect_one()) {
    ptx::prefetch_tensor_map(&a_map);
    ptx::prefetch_tensor_map(&b_map);
    ptx::prefetch_tensor_map(&c_map);
    init_barriers(cta.smem);
  }
  __syncwarp();
  cluster_sync_relaxed();
  if (warp == Config::MMA_WARP) {
    tcgen05::alloc<Config::TMEM_COLUMNS>(cta.smem + Config::TMEM_ADDRESS);
    tcgen05::relinquish_alloc_permit();
  }
  tcgen05::fence_before_thread_sync();
  ptx::cluster_arrive_release(); // publishes the address in shared memory
  ptx::cluster_wait();
  tcgen05::fence_after_thread_sync();
  const uint32_t tmem = ptx::load_shared(cta.smem + Config::TMEM_ADDRESS);

  if (warp == Config::LOAD_WARP) {
    if (ptx::elect_one())
      load_inputs(cta, a_map, b_map);
  } else if (warp == Config::MMA_WARP) {
    if (cta.rank == 0 && ptx::elect_one())
      multiply(cta, tmem);
  } else {
    run_epilogue<EPILOGUE_WARPS>(cta, c_map, warp, tmem, comb);
  }

  __syncwarp();
  tcgen05::fence_before_thread_sync();
  cluster_sync_relaxed();
  if (warp == Config::MMA_WARP) {
    tcgen05::fence_after_thread_sync();
    tcgen05::dealloc<Config::TMEM_COLUMNS>(tmem);
  }
  cluster_sync_relaxed();
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include <algorithm>

#include "harness.cuh"

namespace {

using kernelrig::Argument;
using kernelrig::Buffers;
using kernelrig::encode;
using kernelrig::Geometry;
using kernelrig::LaunchArgs;
using kernelrig::list_of;
using kernelrig::PhaseTable;
using kernelrig::Problem;
using kernelrig::RoleCounts;
using kernelrig::TensorMap;
using kernelrig::TraceRole;
using kernelrig::UsageError;

struct Params {
  CUtensorMap a_map, b_map, c_map;
  const uint16_t *comb;
  int m;
  unsigned long long *phase_clocks;
};

TensorMap operand_map(const char *name, const char *buffer, int rows, int box_rows) {
  TensorMap map;
  map.name = name;
  map.buffer = buffer;
  map.dtype = "u8";
  map.dims = {Config::K, static_cast<uint64_t>(rows)};
  map.strides_bytes = {Config::K};
  map.box = {Config::BLOCK_K, static_cast<uint32_t>(box_rows)};
  map.element_strides = {1, 1};
  map.swizzle = "128B";
  map.l2_promotion = kernelrig::L2_PROMOTIONS[L2_PROMOTION];
  return map;
}

TensorMap a_map_of(const Problem &problem) {
  return operand_map("A_map", "A", problem.m, Config::CTA_ROWS);
}

TensorMap b_map_of() { return operand_map("B_map", "B", Config::N, Config::B_BOX_ROWS); }

TensorMap c_map_of(const Problem &problem) {
  TensorMap map;
  map.name = "C_map";
  map.buffer = "C";
  map.dtype = "bf16";
  map.dims = {Config::N, static_cast<uint64_t>(problem.m)};
  map.strides_bytes = {Config::N * 2};
  map.box = {Config::BOX_COLUMNS, Config::BOX_ROWS};
  map.element_strides = {1, 1};
  map.swizzle = "128B";
  return map;
}

struct Gemm {
  using Params = ::Params;
  static constexpr char ENTRY[] = "patch_embed_gemm";
  static constexpr int ROWS_PER_IMAGE = Config::ROWS_PER_IMAGE;
  static constexpr int N = Config::N;
  static constexpr int K = Config::K;
  static constexpr int COMB_BLOCK = Config::COMB_BLOCK;
  static constexpr const char *PHASES[] = {
      "W0: ring wait",        "W0: issue",     "W1: accumulator wait",
      "W1: stage-0 wait",     "W1: K loop",    "W2: accumulator wait",
      "W2: read-back",        "W2: stores",    "W3: accumulator wait",
      "W3: read-back",        "W3: stores",    "W4: accumulator wait",
      "W4: read-back",        "W4: stores",    "W5: accumulator wait",
      "W5: read-back",        "W5: stores",
#if EPILOGUE_WARPS == 5
      "W6: accumulator wait", "W6: read-back", "W6: stores",
#endif
  };
  static_assert(std::size(PHASES) == PHASE_COUNT);
  static constexpr TraceRole TRACE_ROLES[] = {
      {0, LOAD_MARKS},
      {LOAD_PHASES, MMA_PHASES},
      {LOAD_PHASES + MMA_PHASES, EPILOGUE_PHASES},
      {LOAD_PHASES + MMA_PHASES + EPILOGUE_PHASES, EPILOGUE_PHASES},
      {LOAD_PHASES + MMA_PHASES + 2 * EPILOGUE_PHASES, EPILOGUE_PHASES},
      {LOAD_PHASES + MMA_PHASES + 3 * EPILOGUE_PHASES, EPILOGUE_PHASES},
#if EPILOGUE_WARPS == 5
      {LOAD_PHASES + MMA_PHASES + 4 * EPILOGUE_PHASES, EPILOGUE_PHASES},
#endif
  };

  static int tiles(const Problem &problem) {
    return (problem.m + Config::TILE_ROWS - 1) / Config::TILE_ROWS * Config::TILES_ACROSS;
  }

  static size_t workspace_bytes(const Problem &) { return 0; }

  static Geometry geometry(const Problem &problem, int sm_count) {
    const int most = problem.ctas == 0 ? sm_count : problem.ctas;
    if (most < Config::CTAS)
      throw UsageError{"ctas=" + std::to_string(most) +
                       " leaves no cluster of two; give 0 or 2 and more"};
    Geometry geometry;
    geometry.grid = dim3(Config::CTAS * std::min(tiles(problem), most / Config::CTAS));
    geometry.block = dim3(Config::THREADS);
    geometry.cluster = dim3(Config::CTAS);
    geometry.dynamic_smem_bytes = Config::SMEM_BYTES;
    return geometry;
  }

  static Params prepare(const Problem &problem, const Buffers &buffers) {
    KERNELRIG_CUDA(cudaFuncSetAttribute(
        patch_embed_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, Config::SMEM_BYTES));
    return {encode(a_map_of(problem), buffers.a),
            encode(b_map_of(), buffers.b),
            encode(c_map_of(problem), buffers.c),
            buffers.comb,
            problem.m,
            buffers.phase_clocks};
  }

  static void launch(const Params &params, const Geometry &geometry, cudaStream_t stream) {
    cudaLaunchConfig_t config{}; // __cluster_dims__ of the kernel sets the cluster
    config.gridDim = geometry.grid;
    config.blockDim = geometry.block;
    config.dynamicSmemBytes = geometry.dynamic_smem_bytes;
    config.stream = stream;
    KERNELRIG_CUDA(cudaLaunchKernelEx(&config, patch_embed_gemm, params.a_map, params.b_map,
                                      params.c_map, params.comb, params.m, params.phase_clocks));
  }

  static LaunchArgs arguments(const Problem &problem) {
    return {{Argument::tensor_map("A_map"), Argument::tensor_map("B_map"),
             Argument::tensor_map("C_map"), Argument::buffer("comb"), Argument::i32(problem.m),
             Argument::phase_clocks()},
            {a_map_of(problem), b_map_of(), c_map_of(problem)},
            list_of(Config::SHARED_LAYOUT),
            list_of(Config::TENSOR_LAYOUT)};
  }

  static int phase_rows(const Problem &problem, const Geometry &) { return tiles(problem); }

  static RoleCounts role_counts(const Problem &problem, const Geometry &geometry) {
    RoleCounts counts;
    counts.clusters = geometry.ctas() / Config::CTAS;
    counts.k_steps = Config::K_STEPS;
    counts.mmas_per_k_step = Config::BLOCK_K / Config::MMA_K;
    counts.epilogue_warps = EPILOGUE_WARPS;
    for (int pair = 0; pair < counts.clusters; ++pair) {
      const Run run(tiles(problem), counts.clusters, pair);
      counts.last_rows.push_back(run.first + run.count - 1);
    }
    return counts;
  }

  static std::string phase_report(const PhaseTable &table, const Problem &problem,
                                  const Geometry &geometry, double sm_ghz) {
    return kernelrig::role_report(table, role_counts(problem, geometry), sm_ghz);
  }
};

} // namespace

int main(int argc, char **argv) { return harness_main<Gemm>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY

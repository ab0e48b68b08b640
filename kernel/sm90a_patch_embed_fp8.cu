// The fused patch-embed GEMM for Hopper: a persistent kernel that keeps its part of B in shared
// memory and its part of comb in registers, so that only A and C move.
//
//   C[M, 768] = bf16(A[M, 768] x B[768, 768]^T) +bf16 comb[row % 196, 768]       M = images x 196
//
// A, B: E4M3, row-major, K contiguous; comb, C: BF16, row-major. Any images >= 1, a grid that is a
// multiple of the slices. Rows past M are read as zero and never stored.
//
// A CTA computes one of four slices of 192 columns; it loads B's slice (144 KB) once. Its two
// consumer warpgroups alternate (ping-pong): one issues the MMAs of a tile of 64 rows while the
// other stores its tile. The four CTAs of a group process the same rows at the same time: A is
// read from DRAM once and from L2 three times. (Three slices of 256 columns read A once less, but
// leave room for a ring of 4 stages: slower on an H100, NOTES.md.)
//
// Rows r and r + 196 x 16 have the same rows of comb, and 64 x 49 = 196 x 16: tiles whose numbers
// are equal modulo 49 add the same 64 rows of comb. A CTA's tiles are sorted by that class, and
// its consumers take every second one, so that a thread loads its 96 entries of comb two or three
// times in 220 tiles.
//
// The wgmma accumulators of a thread in one row are 2 columns out of every 8. The rows of B are
// permuted in shared memory so that these are 8 adjacent columns of C: stores of 16 bytes, whole
// sectors, no staging. (With STAGED_BOXES C is staged and stored by TMA.)
//
// Compared with a tile loop that reads both operands again for each tile (128 x 256), this saves
// 4.3 GB of B and 1.4 GB of comb per launch from L2 to the SMs, for 0.7 GB more of A: 2.9 GB. The
// card is limited by power, so bytes that do not move become clock, and so do cycles without MMAs.
// NOTES.md has the figures.
//
// Roles: W0 loads (one elected lane) and prefetches into L2 what each consumer takes next;
// warpgroups 1 and 2 issue the MMAs and store. In a cluster W1 tells the CTA that loads a stage
// next that this CTA's consumers have released it.
//
// Shared memory, bytes, at the defaults (SLICE_COLUMNS 192, LOAD_PIPE_DEPTH 8):
//
//        0  B slice: 6 K steps of [192 rows][128 bytes], 24,576 each          128B swizzle
//   147456  ring: 8 stages of A [64 rows][128 bytes], 8,192 each              128B swizzle
//   212992  with STAGED_BOXES: C, per warp 1 or 2 boxes of [16 rows][64 bytes], 1,024 each
//   212992  barriers, 8 each: 1 + 8 + 8 + 2
//   213144  end; of 232,448: 19,304 to spare
//
// Barriers, who arrives in a phase -> who waits:
//
//   weights_arrived          1: W0 with expect_tx, + bytes of B's slice       -> consumers, once
//   inputs_arrived[stage]    1: W0 with expect_tx, + bytes of the stage       -> its consumer
//   inputs_released[stage]   4: the warps of the tile's consumer              -> W0
//   turn[consumer]           4: the warps of the other consumer, once all MMAs of their tile are
//                               issued                                        -> the consumer
//   shared_released[stage]   with CLUSTER: W1 of each CTA that shares A       -> W0 of the CTA that
//                               loads the stage for all; W1 waits for its inputs_released first
//
// W1 arrives relaxed, behind a fence that orders shared memory alone: .release.cluster costs a
// MEMBAR.ALL.GPU a stage, and two thirds of the time. Consumers that arrive in other CTAs
// themselves are no faster, and spill.
//
// The turn is needed for correctness: without it a consumer that skips the other one's stages could
// be two phases ahead of a barrier, which parity cannot distinguish from being in step. With 8
// stages, more than a tile has, that takes copies that complete out of order.
//
// FP32 accumulation as wgmma does it for FP8: about 13 fractional bits of the largest addend are
// kept ("fast accumulation"), all 768 products in one sum.

#include <cuda.h>

#include "memory_layout.cuh"
#include "phase_clock.cuh"
#include "ptx.cuh"
#include "wait.cuh"
#include "wgmma.cuh"

// Tunables. The build passes all of them from kernels.yaml, which also lists the values to try;
// these defaults are for a compile by hand.
//
//   LOAD_PIPE_DEPTH   stages of the ring
//   PREFETCH_TILES    how many of its tiles ahead a consumer's inputs are prefetched into L2; 0: no
//   A_CACHE_HINT      A in L2: 0 no hint, 1 evict first, 2 evict last
//   L2_PROMOTION      of the loads' maps: 0 none, 1 64, 2 128, 3 256 bytes
//   STAGED_BOXES      boxes of C, 16 rows x 32 columns, staged per warp and stored by TMA; 0: the
//                     threads store C themselves. 1 leaves room for 9 stages, 2 for 8; of slices
//                     of 256 columns for 3 and 2
//   SLICE_COLUMNS     192: four slices, A is read four times, room for 10 stages; or 256: three
//                     slices, room for 4
//   CLUSTER           CTAs of a cluster: those of them that process the same rows load A once, by
//                     multicast. 1: no clusters; 2 of 3 slices: the third CTAs are in pairs of
//                     their own
//   TILE_ORDER        0 runs of tiles, one for each consumer; 1 those of odd groups run backwards;
//                     2 one run for each CTA, of which its consumers take every second tile
//   C_CACHE_HINT      C in L2, where threads store it: 0 no hint, 1 evict first
#ifndef LOAD_PIPE_DEPTH
#define LOAD_PIPE_DEPTH 8
#endif
#ifndef PREFETCH_TILES
#define PREFETCH_TILES 1
#endif
#ifndef A_CACHE_HINT
#define A_CACHE_HINT 0
#endif
#ifndef L2_PROMOTION
#define L2_PROMOTION 3
#endif
#ifndef STAGED_BOXES
#define STAGED_BOXES 0
#endif
#ifndef SLICE_COLUMNS
#define SLICE_COLUMNS 192
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif
#ifndef TILE_ORDER
#define TILE_ORDER 2
#endif
#ifndef C_CACHE_HINT
#define C_CACHE_HINT 0
#endif

namespace {

using kernelrig::lie_apart;
using kernelrig::PhaseClock;
using kernelrig::PipelineState;
using kernelrig::SharedRegion;
using kernelrig::wait;
namespace ptx = kernelrig::ptx;
namespace wgmma = kernelrig::wgmma;

struct Config {
  static constexpr int ROWS_PER_IMAGE = 196;
  static constexpr int N = 768;
  static constexpr int K = 768;
  static constexpr int COLUMNS = SLICE_COLUMNS; // of C in a CTA
  static constexpr int SLICES = N / COLUMNS;
  static constexpr int TILE_ROWS = 64;
  static constexpr int CLASSES = 49; // 64 * 49 is the first multiple of 196
  static constexpr int BLOCK_K = 128;
  static constexpr int MMA_K = 32;
  static constexpr int K_STEPS = K / BLOCK_K;
  static constexpr int STAGES = LOAD_PIPE_DEPTH;

  static constexpr int CONSUMERS = 2; // warpgroups
  static constexpr int WARPGROUP = 128;
  static constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
#if defined(KERNELRIG_WATCHDOG_NS) // its assertion is a call, which needs more registers than 24
  static constexpr int LOAD_REGISTERS = 96;
  static constexpr int CONSUMER_REGISTERS = 208;
#elif defined(KERNELRIG_TRACE) // so does what a clock records
  static constexpr int LOAD_REGISTERS = 56;
  static constexpr int CONSUMER_REGISTERS = 224;
#elif CLUSTER > 1
  // with cache hints W0 needs more, too
  static constexpr int LOAD_REGISTERS = 40;
  static constexpr int CONSUMER_REGISTERS = 232;
#else
  static constexpr int LOAD_REGISTERS = 24;
  static constexpr int CONSUMER_REGISTERS = 240;
#endif

  static constexpr int B_STEP_BYTES = COLUMNS * BLOCK_K;
  static constexpr int STAGE_BYTES = TILE_ROWS * BLOCK_K;
  static constexpr int C_BOX_ROWS = 16;
  static constexpr int C_BOX_COLUMNS = 32;
  static constexpr int C_BOX_BYTES = C_BOX_ROWS * C_BOX_COLUMNS * 2;
  static constexpr int WARP_STAGING_BYTES = STAGED_BOXES * C_BOX_BYTES;
  static constexpr int RING_OFFSET = K_STEPS * B_STEP_BYTES;
  static constexpr int STAGING_OFFSET = RING_OFFSET + STAGES * STAGE_BYTES;
  static constexpr int WEIGHTS_ARRIVED = STAGING_OFFSET + 4 * CONSUMERS * WARP_STAGING_BYTES;
  static constexpr int INPUTS_ARRIVED = WEIGHTS_ARRIVED + 8;
  static constexpr int INPUTS_RELEASED = INPUTS_ARRIVED + 8 * STAGES;
  static constexpr int TURN = INPUTS_RELEASED + 8 * STAGES;
  static constexpr int SHARED_RELEASED = TURN + 8 * CONSUMERS;
  static constexpr int SHARED_STAGES = CLUSTER > 1 ? STAGES : 0;
  static constexpr int SMEM_BYTES = SHARED_RELEASED + 8 * SHARED_STAGES;

  static constexpr SharedRegion SHARED_LAYOUT[] = {
      SharedRegion::buffers("B", 0, B_STEP_BYTES, K_STEPS),
      SharedRegion::buffers("A", RING_OFFSET, STAGE_BYTES, STAGES),
      SharedRegion::buffers("C_staging", STAGING_OFFSET, C_BOX_BYTES, 4 * CONSUMERS * STAGED_BOXES),
      SharedRegion::mbarriers("weights_arrived", WEIGHTS_ARRIVED, 1),
      SharedRegion::mbarriers("inputs_arrived", INPUTS_ARRIVED, STAGES),
      SharedRegion::mbarriers("inputs_released", INPUTS_RELEASED, STAGES),
      SharedRegion::mbarriers("turn", TURN, CONSUMERS),
      SharedRegion::mbarriers("shared_released", SHARED_RELEASED, SHARED_STAGES)};

  static_assert(lie_apart(SHARED_LAYOUT, SMEM_BYTES),
                "what is declared of shared memory must fit it without overlap");
  static_assert(CLASSES * TILE_ROWS % ROWS_PER_IMAGE == 0,
                "the tiles of a class must have the same rows of comb");
  static_assert(SMEM_BYTES <= 232448,
                "the slice of B, the ring, staging and barriers must fit 227 KB");
  static_assert(STAGES >= 2, "LOAD_PIPE_DEPTH is at least 2: one stage is loaded, one multiplied");
  static_assert(RING_OFFSET % 1024 == 0 && STAGE_BYTES % 1024 == 0 && B_STEP_BYTES % 1024 == 0,
                "every step of B and stage must start where the 128B swizzle pattern does");
  static_assert(LOAD_REGISTERS + CONSUMERS * CONSUMER_REGISTERS <= 65536 / WARPGROUP,
                "the warpgroups' registers must fit the SM's 65,536");
  static_assert(STAGED_BOXES >= 0 && STAGED_BOXES <= 2, "STAGED_BOXES is 0, 1 or 2");
  static_assert(PREFETCH_TILES >= 0 && A_CACHE_HINT >= 0 && A_CACHE_HINT <= 2 &&
                    L2_PROMOTION >= 0 && L2_PROMOTION <= 3,
                "PREFETCH_TILES is 0 or more, A_CACHE_HINT 0 to 2, L2_PROMOTION 0 to 3");
  static_assert(COLUMNS == 256 || COLUMNS == 192, "SLICE_COLUMNS is 256 or 192: an MMA's columns");
  static_assert(CLUSTER >= 1 && (SLICES % CLUSTER == 0 || (SLICES == 3 && CLUSTER == 2)),
                "CLUSTER divides the slices, or is 2 of 3: its CTAs share the rows of A");
  static_assert(TILE_ORDER >= 0 && TILE_ORDER <= 2 && C_CACHE_HINT >= 0 && C_CACHE_HINT <= 1,
                "TILE_ORDER is 0 to 2, C_CACHE_HINT 0 or 1");
  static_assert(STAGED_BOXES == 0 || C_CACHE_HINT == 0,
                "C_CACHE_HINT is of the stores by threads, STAGED_BOXES 0");
};

// B's rows in shared memory, 8 at a time: row 8 (4 j + i) + 2 q + e of the slice holds row
// 8 (4 j + q) + 2 i + e of B's slice. One TMA box has the rows e, q of one (j, i).
constexpr int BOX_ROWS = 8, BOX_PAIR = 2, BOX_PAIRS = 4;

// The phases that a timing build measures, one row per CTA.
constexpr int LOAD_PHASES = 2, CONSUMER_PHASES = 3;
constexpr int PHASE_COUNT = LOAD_PHASES + Config::CONSUMERS * CONSUMER_PHASES;
enum LoadPhase { RING_WAIT, ISSUE };
enum ConsumerPhase { TURN_WAIT, MULTIPLY, STORE };
using LoadClock = PhaseClock<LOAD_PHASES>;
using ConsumerClock = PhaseClock<CONSUMER_PHASES>;

// What a trace build records of the first tiles of each consumer, behind the phases of the row.
constexpr int LOAD_MARKS =
    kernelrig::TRACE_TILES * Config::CONSUMERS * Config::K_STEPS * LOAD_PHASES;
constexpr int CONSUMER_MARKS = kernelrig::TRACE_TILES * CONSUMER_PHASES;
constexpr int LOAD_TRACE = PHASE_COUNT;
constexpr int CONSUMER_TRACE = LOAD_TRACE + kernelrig::trace_words(LOAD_MARKS);
constexpr int CONSUMER_WORDS = kernelrig::trace_words(CONSUMER_MARKS);
constexpr int ROW_WORDS = CONSUMER_TRACE + Config::CONSUMERS * CONSUMER_WORDS;

// What a CTA computes: a slice of the columns, in all rows of its group of SLICES CTAs. Those CTAs
// of its cluster that are of its group share A: `sharers` of them, from rank `first` on.
struct Place {
  int slice, group, groups, rank, first, sharers;

  __device__ __forceinline__ Place(uint32_t block, uint32_t blocks)
      : slice(block % Config::SLICES), group(block / Config::SLICES),
        groups(blocks / Config::SLICES), rank(block % CLUSTER), first(0), sharers(CLUSTER) {
    if constexpr (Config::SLICES % CLUSTER != 0) { // slices 0 and 1 in a cluster, 2 and 2
      const int cluster = block / CLUSTER;
      const bool shared = cluster < groups;
      slice = shared ? rank : CLUSTER;
      group = shared ? cluster : CLUSTER * (cluster - groups) + rank;
      first = shared ? 0 : rank;
      sharers = shared ? CLUSTER : 1;
    }
  }

  // The rank of the CTA that loads a stage for all sharers.
  __device__ __forceinline__ int loader(int stage) const { return first + stage % sharers; }

  __device__ __forceinline__ uint16_t mask() const {
    return static_cast<uint16_t>(((1 << sharers) - 1) << first);
  }
};

// The tiles of one consumer: a contiguous run of all tiles sorted by class, or with TILE_ORDER 2
// every second one of the CTA's.
struct Run {
  int tiles, first, count, step;

  __host__ __device__ __forceinline__ Run(int tiles, int consumers, int consumer) : tiles(tiles) {
    constexpr int SHARED = TILE_ORDER == 2 ? Config::CONSUMERS : 1; // consumers of one run
    const int run = consumer / SHARED, runs = consumers / SHARED;
    const int left = tiles % runs;
    first = run * (tiles / runs) + (run < left ? run : left);
    count = tiles / runs + (run < left ? 1 : 0);
    step = SHARED;
    if constexpr (TILE_ORDER == 1) {
      if (consumer / Config::CONSUMERS % 2 == 1) {
        first += count - 1;
        step = -1;
      }
    }
    if constexpr (TILE_ORDER == 2) {
      first += consumer % SHARED;
      count = (count + SHARED - 1 - consumer % SHARED) / SHARED;
    }
  }

  // The first tiles % CLASSES classes have one tile more than the rest.
  __host__ __device__ __forceinline__ int tile(int i) const {
    const int each = tiles / Config::CLASSES, more = tiles % Config::CLASSES;
    const int at = first + step * i, wide = more * (each + 1);
    if (at < wide)
      return at / (each + 1) + Config::CLASSES * (at % (each + 1));
    return more + (at - wide) / each + Config::CLASSES * ((at - wide) % each);
  }
};

using Stage = PipelineState<Config::STAGES>;

__device__ __forceinline__ void load_weights(uint32_t smem, const CUtensorMap &b_map, int slice) {
  const uint32_t arrived = smem + Config::WEIGHTS_ARRIVED;
  ptx::mbarrier_arrive_expect_tx(arrived, Config::K_STEPS * Config::B_STEP_BYTES);
  const int first_group = slice * Config::COLUMNS / BOX_ROWS;
  uint32_t to = smem;
#pragma unroll 1
  for (int k = 0; k < Config::K; k += Config::BLOCK_K) {
#pragma unroll 1
    for (int group = 0; group < Config::COLUMNS / BOX_ROWS; ++group) {
      ptx::tma_load_3d(to, &b_map, k, group % BOX_PAIRS * BOX_PAIR,
                       first_group + group / BOX_PAIRS * BOX_PAIRS, arrived);
      to += BOX_ROWS * Config::BLOCK_K;
    }
  }
}

// Until the consumers of the stage have released it: of all CTAs that share it, if this one loads
// it.
__device__ __forceinline__ void wait_released(uint32_t smem, const Stage &stage, bool loads,
                                              const Place &place) {
  const uint32_t at = 8 * stage.index, parity = stage.parity ^ 1;
  if (CLUSTER > 1 && loads && place.sharers > 1)
    kernelrig::wait_in_cluster(smem + Config::SHARED_RELEASED + at, parity, "shared_released");
  else
    wait(smem + Config::INPUTS_RELEASED + at, parity, "inputs_released");
}

// W1: hands on every release of a stage to the CTA that loads it next.
__device__ __forceinline__ void hand_on_releases(uint32_t smem, int tiles, int consumers,
                                                 const Place &place) {
  int uses = 0;
  for (int consumer = 0; consumer < Config::CONSUMERS; ++consumer)
    uses += Run(tiles, consumers, Config::CONSUMERS * place.group + consumer).count;
  uses *= Config::K_STEPS;
  Stage stage;
#pragma unroll 1
  for (int i = 0; i < uses; ++i) {
    wait(smem + Config::INPUTS_RELEASED + 8 * stage.index, stage.parity, "inputs_released");
    const uint32_t released = smem + Config::SHARED_RELEASED + 8 * stage.index;
    ptx::fence_release_shared();
    ptx::mbarrier_arrive_relaxed_cluster(ptx::in_cta(released, place.loader(stage.index)));
    stage.advance();
  }
}

// A box of A, to the CTAs of `mask`.
__device__ __forceinline__ void load_box(uint32_t to, const CUtensorMap &a_map, int k, int row,
                                         uint32_t arrived, [[maybe_unused]] uint16_t mask) {
  if constexpr (CLUSTER == 1) {
    if constexpr (A_CACHE_HINT == 0)
      ptx::tma_load_2d(to, &a_map, k, row, arrived);
    if constexpr (A_CACHE_HINT == 1)
      ptx::tma_load_2d(to, &a_map, k, row, arrived, ptx::l2_evict_first());
    if constexpr (A_CACHE_HINT == 2)
      ptx::tma_load_2d(to, &a_map, k, row, arrived, ptx::l2_evict_last());
  } else {
    if constexpr (A_CACHE_HINT == 0)
      ptx::tma_load_2d_multicast(to, &a_map, k, row, arrived, mask);
    if constexpr (A_CACHE_HINT == 1)
      ptx::tma_load_2d_multicast(to, &a_map, k, row, arrived, mask, ptx::l2_evict_first());
    if constexpr (A_CACHE_HINT == 2)
      ptx::tma_load_2d_multicast(to, &a_map, k, row, arrived, mask, ptx::l2_evict_last());
  }
}

__device__ __forceinline__ void load_inputs(uint32_t smem, const CUtensorMap &a_map, int tiles,
                                            int consumers, const Place &place, LoadClock &clock) {
  const int group = place.group, slice = place.slice;
  const Run runs[Config::CONSUMERS] = {Run(tiles, consumers, Config::CONSUMERS * group),
                                       Run(tiles, consumers, Config::CONSUMERS * group + 1)};
  Stage stage;
  for (int i = 0; i < runs[0].count; ++i) { // the first run is never the shorter one
#pragma unroll
    for (int consumer = 0; consumer < Config::CONSUMERS; ++consumer) {
      if (i >= runs[consumer].count)
        continue;
      const int row = runs[consumer].tile(i) * Config::TILE_ROWS;
      const int ahead = i + PREFETCH_TILES < runs[consumer].count
                            ? runs[consumer].tile(i + PREFETCH_TILES) * Config::TILE_ROWS
                            : -1;
#pragma unroll 1
      for (int k = 0; k < Config::K; k += Config::BLOCK_K) {
        // of those that share A each loads its part of the stages, for all of them
        const bool loads = CLUSTER == 1 || place.loader(stage.index) == place.rank;
        wait_released(smem, stage, loads, place);
        clock.mark(RING_WAIT);
        const uint32_t arrived = smem + Config::INPUTS_ARRIVED + 8 * stage.index;
        ptx::mbarrier_arrive_expect_tx(arrived, Config::STAGE_BYTES);
        const uint32_t to = smem + Config::RING_OFFSET + stage.index * Config::STAGE_BYTES;
        if (loads)
          load_box(to, a_map, k, row, arrived, place.mask());
        // the CTAs of a group load the same boxes: each prefetches its part
        if (PREFETCH_TILES > 0 && ahead >= 0 && k / Config::BLOCK_K % Config::SLICES == slice)
          ptx::tma_prefetch_2d(&a_map, k, ahead);
        clock.mark(ISSUE);
        stage.advance();
      }
    }
  }
}

// A consumer warpgroup and its tiles.
struct Consumer {
  uint32_t smem;
  int number; // in the CTA
  int column; // of the thread's first output
  int row;    // of the thread's first output, in a tile
  int m;
  const uint16_t *comb;
  uint16_t *c;
  const CUtensorMap *c_map;
  uint32_t staging; // of the warp

  static constexpr int BLOCKS = Config::COLUMNS / 32; // of 32 columns: 8 per thread
  static constexpr int ROWS = 2;                      // of a thread, 8 apart
  static constexpr int BOXES = STAGED_BOXES > 0 ? STAGED_BOXES : 1;
  using Table = uint32_t[ROWS][BLOCKS][4];
  using Sums = float[Config::COLUMNS / 2];

  __device__ __forceinline__ void load_table(Table &table, int tile) const {
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
      const int position = (tile * Config::TILE_ROWS + row + 8 * h) % Config::ROWS_PER_IMAGE;
      const uint16_t *from = comb + position * Config::N + column;
#pragma unroll
      for (int block = 0; block < BLOCKS; ++block)
        ptx::load_read_only(table[h][block], from + 32 * block);
    }
  }

  __device__ __forceinline__ void release(int stage) const {
    if (ptx::elect_one())
      ptx::mbarrier_arrive(smem + Config::INPUTS_RELEASED + 8 * stage);
  }

  __device__ __forceinline__ void multiply(Sums &acc, Stage &stage, uint64_t a_ring,
                                           uint64_t b_slice) const {
    int before = 0;
#pragma unroll
    for (int step = 0; step < Config::K_STEPS; ++step) {
      wait(smem + Config::INPUTS_ARRIVED + 8 * stage.index, stage.parity, "inputs_arrived");
      wgmma::fence();
#pragma unroll
      for (int k = 0; k < Config::BLOCK_K; k += Config::MMA_K) {
        wgmma::mma_k32_fp8(acc, a_ring + stage.index * (Config::STAGE_BYTES / 16) + k / 16,
                           b_slice + step * (Config::B_STEP_BYTES / 16) + k / 16,
                           step > 0 || k > 0);
      }
      wgmma::commit_group();
      if (step == Config::K_STEPS - 1 && ptx::elect_one())
        ptx::mbarrier_arrive(smem + Config::TURN + 8 * (1 - number));
      if (step > 0) {
        wgmma::wait_group<1>();
        release(before);
      }
      before = stage.index;
      stage.advance();
    }
    wgmma::wait_group<0>();
    release(before);
  }

  // Row `h` of the thread, its 8 columns of `block`.
  __device__ __forceinline__ static void add_table(uint32_t (&words)[4], const Sums &acc,
                                                   const Table &table, int h, int block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float *pair = &acc[16 * block + 4 * i + 2 * h];
      words[i] = ptx::add_bf16(ptx::pack_bf16(pair[0], pair[1]), table[h][block][i]);
    }
  }

  __device__ __forceinline__ void store(const Sums &acc, const Table &table, int tile) const {
#pragma unroll
    for (int h = 0; h < ROWS; ++h) {
      const int at = tile * Config::TILE_ROWS + row + 8 * h;
      uint16_t *to = c + static_cast<size_t>(at) * Config::N + column;
#pragma unroll
      for (int block = 0; block < BLOCKS; ++block) {
        uint32_t words[4];
        add_table(words, acc, table, h, block);
        if (at < m) {
          if constexpr (C_CACHE_HINT == 0)
            ptx::store_global(to + 32 * block, words);
          else
            ptx::store_global(to + 32 * block, words, ptx::l2_evict_first());
        }
      }
    }
  }

  // A block of the warp's 16 rows is a box; TMA clips it at row m. Lanes 0 to 31 write 512
  // consecutive bytes: no bank conflicts.
  __device__ __forceinline__ void store_staged(const Sums &acc, const Table &table,
                                               int tile) const {
    const int box_row = tile * Config::TILE_ROWS + row / Config::C_BOX_ROWS * Config::C_BOX_ROWS;
    const int box_column = column / Config::C_BOX_COLUMNS * Config::C_BOX_COLUMNS;
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
      const uint32_t box = staging + block % BOXES * Config::C_BOX_BYTES;
      if (ptx::elect_one())
        ptx::bulk_wait_group_read<BOXES - 1>();
      __syncwarp();
#pragma unroll
      for (int h = 0; h < ROWS; ++h) {
        uint32_t words[4];
        add_table(words, acc, table, h, block);
        ptx::store_shared(box + 512 * h + threadIdx.x % 32 * 16, words);
      }
      ptx::fence_proxy_async_shared();
      __syncwarp();
      if (ptx::elect_one()) {
        ptx::tma_store_2d(c_map, box_column + 32 * block, box_row, box);
        ptx::bulk_commit_group();
      }
    }
  }

  __device__ __forceinline__ void run(const Run &own, ConsumerClock &clock) const {
    const uint64_t a_ring = wgmma::matrix_descriptor(smem + Config::RING_OFFSET);
    const uint64_t b_slice = wgmma::matrix_descriptor(smem);
    Sums acc;
    Table table;
    int table_class = -1;
    uint32_t turn = number == 0 ? 1 : 0; // consumer 0 starts: parity 1 of a fresh barrier is over
    Stage stage;
    wait(smem + Config::WEIGHTS_ARRIVED, 0, "weights_arrived");
    if (number == 1)
      skip(stage);
    for (int i = 0; i < own.count; ++i) {
      const int tile = own.tile(i);
      if (tile % Config::CLASSES != table_class) {
        table_class = tile % Config::CLASSES;
        load_table(table, tile);
      }
      // The other consumer has waited for its stages, so that this one skips no phase of a barrier.
      wait(smem + Config::TURN + 8 * number, turn, "turn");
      turn ^= 1;
      clock.mark(TURN_WAIT);
      multiply(acc, stage, a_ring, b_slice);
      clock.mark(MULTIPLY);
      if constexpr (STAGED_BOXES > 0)
        store_staged(acc, table, tile);
      else
        store(acc, table, tile);
      clock.mark(STORE);
      skip(stage); // the other warpgroup's tile
    }
    if (STAGED_BOXES > 0 && ptx::elect_one())
      ptx::bulk_wait_group_read<0>(); // the CTA must not exit while TMA reads its shared memory
  }

  __device__ __forceinline__ static void skip(Stage &stage) {
#pragma unroll
    for (int i = 0; i < Config::K_STEPS; ++i)
      stage.advance();
  }
};

__device__ __forceinline__ void cluster_sync() {
  ptx::cluster_arrive_release();
  ptx::cluster_wait();
}

#if CLUSTER > 1
#define CLUSTER_DIMS __cluster_dims__(CLUSTER, 1, 1)
#else
#define CLUSTER_DIMS
#endif

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(Config::THREADS, 1)
    patch_embed_gemm(const __grid_constant__ CUtensorMap a_map,
                     const __grid_constant__ CUtensorMap b_map, const uint16_t *comb, uint16_t *c,
                     int m, unsigned long long *phase_clocks,
                     const __grid_constant__ CUtensorMap c_map) {
  extern __shared__ __align__(1024) uint8_t dynamic_smem[];
  const uint32_t smem = ptx::shared_address(dynamic_smem);
  const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
  const int warpgroup = warp / 4;
  const Place place(blockIdx.x, gridDim.x);
  const int consumers = Config::CONSUMERS * place.groups;
  int tiles = (m + Config::TILE_ROWS - 1) / Config::TILE_ROWS;
  if (Config::SLICES % CLUSTER != 0 && place.group >= place.groups)
    tiles = 0; // of an odd number of groups the last cluster has a CTA without one
  unsigned long long *const clocks = phase_clocks + static_cast<size_t>(blockIdx.x) * ROW_WORDS;

  if (warp == 0 && ptx::elect_one()) {
    ptx::prefetch_tensor_map(&a_map);
    ptx::prefetch_tensor_map(&b_map);
    ptx::mbarrier_init(smem + Config::WEIGHTS_ARRIVED, 1);
    for (int stage = 0; stage < Config::STAGES; ++stage) {
      ptx::mbarrier_init(smem + Config::INPUTS_ARRIVED + 8 * stage, 1);
      ptx::mbarrier_init(smem + Config::INPUTS_RELEASED + 8 * stage, 4);
      if constexpr (CLUSTER > 1)
        ptx::mbarrier_init(smem + Config::SHARED_RELEASED + 8 * stage, place.sharers);
    }
    for (int consumer = 0; consumer < Config::CONSUMERS; ++consumer)
      ptx::mbarrier_init(smem + Config::TURN + 8 * consumer, 4);
    ptx::fence_mbarrier_init();
  }
  if constexpr (CLUSTER == 1)
    __syncthreads();
  else
    cluster_sync();

  if (warpgroup == 0) {
    wgmma::release_registers<Config::LOAD_REGISTERS>();
    if (warp == 0 && ptx::elect_one()) {
      LoadClock clock;
      load_weights(smem, b_map, place.slice);
      clock.record(clocks + LOAD_TRACE, LOAD_MARKS);
      clock.start();
      load_inputs(smem, a_map, tiles, consumers, place, clock);
      clock.write(clocks);
    }
    if (CLUSTER > 1 && warp == 1 && place.sharers > 1 && ptx::elect_one())
      hand_on_releases(smem, tiles, consumers, place);
  } else {
    wgmma::take_registers<Config::CONSUMER_REGISTERS>();
    const int number = warpgroup - 1;
    const int lane = threadIdx.x % 32;
    Consumer consumer;
    consumer.smem = smem;
    consumer.number = number;
    consumer.column = place.slice * Config::COLUMNS + lane % 4 * 8;
    consumer.row = warp % 4 * 16 + lane / 4;
    consumer.m = m;
    consumer.comb = comb;
    consumer.c = c;
    consumer.c_map = &c_map;
    consumer.staging = smem + Config::STAGING_OFFSET + (warp - 4) * Config::WARP_STAGING_BYTES;
    ConsumerClock clock;
    if (threadIdx.x % Config::WARPGROUP == 0)
      clock.record(clocks + CONSUMER_TRACE + number * CONSUMER_WORDS, CONSUMER_MARKS);
    clock.start();
    consumer.run(Run(tiles, consumers, Config::CONSUMERS * place.group + number), clock);
    if (threadIdx.x % Config::WARPGROUP == 0)
      clock.write(clocks + LOAD_PHASES + number * CONSUMER_PHASES);
  }
  if constexpr (CLUSTER > 1) {
    __syncwarp();
    cluster_sync(); // no CTA exits while another one still arrives at its barriers
  }
}

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include <algorithm>

#include "harness.cuh"

namespace {

using kernelrig::Argument;
using kernelrig::Buffers;
using kernelrig::clusters_at_once;
using kernelrig::encode;
using kernelrig::Geometry;
using kernelrig::LaunchArgs;
using kernelrig::list_of;
using kernelrig::PhaseTable;
using kernelrig::Problem;
using kernelrig::TensorMap;
using kernelrig::TraceRole;
using kernelrig::UsageError;

struct Params {
  CUtensorMap a_map, b_map;
  const uint16_t *comb;
  uint16_t *c;
  int m;
  unsigned long long *phase_clocks;
  CUtensorMap c_map;
};

TensorMap a_map_of(const Problem &problem) {
  TensorMap map;
  map.name = "A_map";
  map.buffer = "A";
  map.dtype = "u8";
  map.dims = {Config::K, static_cast<uint64_t>(problem.m)};
  map.strides_bytes = {Config::K};
  map.box = {Config::BLOCK_K, Config::TILE_ROWS};
  map.element_strides = {1, 1};
  map.swizzle = "128B";
  map.l2_promotion = kernelrig::L2_PROMOTIONS[L2_PROMOTION];
  return map;
}

// B as [768 / 8][8][768].
TensorMap b_map_of() {
  TensorMap map;
  map.name = "B_map";
  map.buffer = "B";
  map.dtype = "u8";
  map.dims = {Config::K, BOX_ROWS, Config::N / BOX_ROWS};
  map.strides_bytes = {Config::K, Config::K * BOX_ROWS};
  map.box = {Config::BLOCK_K, BOX_PAIR, BOX_PAIRS};
  map.element_strides = {1, 1, 1};
  map.swizzle = "128B";
  map.l2_promotion = kernelrig::L2_PROMOTIONS[L2_PROMOTION];
  return map;
}

// Used with STAGED_BOXES only.
TensorMap c_map_of(const Problem &problem) {
  TensorMap map;
  map.name = "C_map";
  map.buffer = "C";
  map.dtype = "bf16";
  map.dims = {Config::N, static_cast<uint64_t>(problem.m)};
  map.strides_bytes = {Config::N * 2};
  map.box = {Config::C_BOX_COLUMNS, Config::C_BOX_ROWS};
  map.element_strides = {1, 1};
  return map;
}

struct Gemm {
  using Params = ::Params;
  static constexpr char ENTRY[] = "patch_embed_gemm";
  static constexpr int ROWS_PER_IMAGE = Config::ROWS_PER_IMAGE;
  static constexpr int N = Config::N;
  static constexpr int K = Config::K;
  static constexpr int COMB_BLOCK = N;
  static constexpr const char *PHASES[PHASE_COUNT] = {
      "W0: ring wait", "W0: issue",           "WG1: table and turn", "WG1: MMAs",
      "WG1: store",    "WG2: table and turn", "WG2: MMAs",           "WG2: store"};
  static constexpr TraceRole TRACE_ROLES[] = {{0, LOAD_MARKS},
                                              {LOAD_PHASES, CONSUMER_MARKS},
                                              {LOAD_PHASES + CONSUMER_PHASES, CONSUMER_MARKS}};

  static size_t workspace_bytes(const Problem &) { return 0; }

  static Geometry geometry(const Problem &problem, int sm_count) {
    const int tiles = (problem.m + Config::TILE_ROWS - 1) / Config::TILE_ROWS;
    const int most = problem.ctas == 0 ? sm_count : problem.ctas;
    const int least = blocks_of(1);
    if (most < least)
      throw UsageError{"ctas=" + std::to_string(most) + " leaves no group; give 0 or " +
                       std::to_string(least) + " and more"};
    int groups = std::min((tiles + 1) / 2, most / Config::SLICES);
    while (blocks_of(groups) > most)
      --groups;
    Geometry geometry;
    geometry.block = dim3(Config::THREADS);
    geometry.cluster = dim3(CLUSTER);
    geometry.dynamic_smem_bytes = Config::SMEM_BYTES;
    geometry.grid = dim3(blocks_of(groups));
    if constexpr (CLUSTER > 2) { // an SM of a GPC may be left over: what waits for another's end
      const int at_once = CLUSTER * clusters_at_once(patch_embed_gemm, geometry);
      while (groups > 1 && at_once > 0 && blocks_of(groups) > at_once)
        --groups;
      geometry.grid = dim3(blocks_of(groups));
    }
    return geometry;
  }

  // Of so many groups; whole clusters.
  static int blocks_of(int groups) {
    return (Config::SLICES * groups + CLUSTER - 1) / CLUSTER * CLUSTER;
  }

  static Params prepare(const Problem &problem, const Buffers &buffers) {
    KERNELRIG_CUDA(cudaFuncSetAttribute(
        patch_embed_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, Config::SMEM_BYTES));
    return {encode(a_map_of(problem), buffers.a),
            encode(b_map_of(), buffers.b),
            buffers.comb,
            buffers.c,
            problem.m,
            buffers.phase_clocks,
            encode(c_map_of(problem), buffers.c)};
  }

  static void launch(const Params &params, const Geometry &geometry, cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = geometry.grid;
    config.blockDim = geometry.block;
    config.dynamicSmemBytes = geometry.dynamic_smem_bytes;
    config.stream = stream;
    KERNELRIG_CUDA(cudaLaunchKernelEx(&config, patch_embed_gemm, params.a_map, params.b_map,
                                      params.comb, params.c, params.m, params.phase_clocks,
                                      params.c_map));
  }

  static LaunchArgs arguments(const Problem &problem) {
    return {{Argument::tensor_map("A_map"), Argument::tensor_map("B_map"), Argument::buffer("comb"),
             Argument::buffer("C"), Argument::i32(problem.m), Argument::phase_clocks(),
             Argument::tensor_map("C_map")},
            {a_map_of(problem), b_map_of(), c_map_of(problem)},
            list_of(Config::SHARED_LAYOUT),
            {}};
  }

  static int phase_rows(const Problem &, const Geometry &geometry) { return geometry.ctas(); }

  static std::string phase_report(const PhaseTable &table, const Problem &, const Geometry &,
                                  double) {
    return kernelrig::phase_table_text(table);
  }
};

} // namespace

int main(int argc, char **argv) { return harness_main<Gemm>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY

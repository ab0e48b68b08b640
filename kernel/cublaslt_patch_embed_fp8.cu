// The baseline: the patch-embed GEMM by cuBLASLt, in three ways. A build is one of them;
// kernels.yaml says which function a variant computes, and the way follows from it.
//
//   PRODUCT         gemm        the GEMM alone: a lower bound for a fused kernel, another function
//   BIAS_THEN_ADD   bias_add    the GEMM with the bias in its epilogue, then add_table below: the
//                               best that a framework does
//   ADD_THEN_ROUND  table_as_c  comb as C, beta 1: batches of whole images that all read one comb
//                               (stride 0). The 196 rows of an image fill tiles of 128 badly, so a
//                               batch may have more images, with as many copies of comb: made once
//                               for given weights, as comb is, and never timed
//
// E4M3 x E4M3 -> BF16, TN, FP32 compute with fast accumulation (CUBLASLT_MATMUL_DESC_FAST_ACCUM:
// about 13 fractional bits on Hopper), no scales, one workspace of 256 MiB.
//
// Candidates for the algorithm have three sources, each candidate counted once: the heuristics for
// this problem (asked for 128 per layout, they returned 8); the heuristics for the same GEMM with
// other numbers of rows, where the library supports the algorithm here too; and all algorithms of
// the library in all configurations of tile, stages, cluster and order that it supports here. All
// are timed on random data of this problem, under load and including the add kernel; the best eight
// are timed again, interleaved; for bias_add the best one also with other numbers of images per
// thread of its add. The fastest candidate whose outputs are all right by the device reference, on
// random data and bit for bit on integers, is chosen; the harness verifies again after timing. The
// label of the result has the choice and its time.
//
// KERNELRIG_CHOICE_FILE=FILE: use the choice in FILE without trying any; if there is no such file,
// write it after choosing, so that later processes run the same algorithm. cuBLASLt documents that
// the 64 bytes of an algorithm are valid for the same library version.
// KERNELRIG_CUBLASLT_CHECKS=N limits the configurations of the third source; 0 leaves it out.
// KERNELRIG_CUBLASLT_CHOICE=INDEX selects a candidate by its index. Mode once uses one of these two
// or the first heuristic result, as it allows no other launch.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

struct Config {
  static constexpr int ROWS_PER_IMAGE = 196;
  static constexpr int N = 768;
  static constexpr int K = 768;
  static constexpr int COLUMNS_PER_VECTOR = 8;                            // one 128-bit access
  static constexpr int VECTORS = ROWS_PER_IMAGE * N / COLUMNS_PER_VECTOR; // of an image
  static constexpr int THREADS = 192;

  static_assert(N % COLUMNS_PER_VECTOR == 0, "a vector lies in one row");
  static_assert(VECTORS % THREADS == 0, "no thread is beyond the image");
};

// A thread loads its vector of comb once and adds it to several images, with all loads in flight.
// The last images come first: the GEMM before has left them in L2.
template <int IMAGES_PER_THREAD>
__global__ void __launch_bounds__(Config::THREADS)
    add_table(uint4 *c, const uint4 *table, int images) {
  const int vector = blockIdx.x * Config::THREADS + threadIdx.x;
  const int first = (gridDim.y - 1 - blockIdx.y) * IMAGES_PER_THREAD;
  uint4 *const at = c + static_cast<size_t>(first) * Config::VECTORS + vector;
  const uint4 added = __ldg(table + vector);
  uint4 sums[IMAGES_PER_THREAD];
#pragma unroll
  for (int i = 0; i < IMAGES_PER_THREAD; ++i) {
    if (first + i < images)
      sums[i] = __ldcs(at + static_cast<size_t>(i) * Config::VECTORS);
  }
#pragma unroll
  for (int i = 0; i < IMAGES_PER_THREAD; ++i) {
    if (first + i >= images)
      break;
    __nv_bfloat162 *pairs = reinterpret_cast<__nv_bfloat162 *>(&sums[i]);
    const __nv_bfloat162 *add = reinterpret_cast<const __nv_bfloat162 *>(&added);
#pragma unroll
    for (int pair = 0; pair < Config::COLUMNS_PER_VECTOR / 2; ++pair)
      pairs[pair] = __hadd2(pairs[pair], add[pair]);
    __stcs(at + static_cast<size_t>(i) * Config::VECTORS, sums[i]);
  }
}

using Add = void (*)(uint4 *, const uint4 *, int);
struct AddForm {
  int images_per_thread;
  Add kernel;
};
// The first one is used while GEMM candidates are timed.
const AddForm ADD_FORMS[] = {{4, add_table<4>},
                             {1, add_table<1>},
                             {2, add_table<2>},
                             {8, add_table<8>},
                             {16, add_table<16>}};

} // namespace

#ifndef KERNELRIG_DEVICE_ONLY

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cublaslt.cuh"
#include "harness.cuh"

// The build passes both (function and kernel_regex of kernels.yaml).
#ifndef KERNELRIG_FUNCTION
#define KERNELRIG_FUNCTION PRODUCT
#endif
#ifndef KERNELRIG_KERNEL_REGEX
#define KERNELRIG_KERNEL_REGEX ".*"
#endif

namespace {

using kernelrig::Buffers;
using kernelrig::Cublaslt;
using kernelrig::DeviceMemory;
using kernelrig::EXIT_CUDA;
using kernelrig::Failure;
using kernelrig::Function;
using kernelrig::Geometry;
using kernelrig::LaunchArgs;
using kernelrig::Operation;
using kernelrig::Pattern;
using kernelrig::PhaseTable;
using kernelrig::Problem;
using kernelrig::ProblemMemory;
using kernelrig::source_place;
using kernelrig::UsageError;

constexpr Function FUNCTION = Function::KERNELRIG_FUNCTION;
constexpr bool HAS_BIAS = FUNCTION == Function::BIAS_THEN_ADD;
constexpr bool HAS_C = FUNCTION == Function::ADD_THEN_ROUND;

static_assert(FUNCTION != Function::ROUND_THEN_ADD, "no way of the library's rounds before C");
static_assert(!kernelrig::TIMING_BUILD, "there are no clocks in a library's kernels");

constexpr size_t WORKSPACE_BYTES = size_t{256} << 20;
constexpr int MOST_HEURISTICS = 128; // requested per layout
constexpr int MOST_BATCH_IMAGES = 64;
constexpr int MOST_CHECKS = 16000;   // configurations checked; KERNELRIG_CUBLASLT_CHECKS=N
constexpr int MOST_CANDIDATES = 768; // timed; of more, every n-th
constexpr double LOAD_S = 0.5;       // before the first candidate: from then on clocks under load
// Before the finalists: a power limiter takes seconds to settle; until then a GEMM was measured at
// 0.983 ms that takes 1.043.
constexpr double FINAL_LOAD_S = 4.0;
constexpr int TRY_LAUNCHES = 2;
constexpr double TRY_S = 20.0; // for all: a bad tile takes twenty times as long as a good one
constexpr int FINALISTS = 8, FINAL_ROUNDS = 7, FINAL_LAUNCHES = 20;

// One way to run the whole GEMM: an algorithm and the number of images per batch.
struct Candidate {
  int batch_images;
  cublasLtMatmulAlgo_t algo;
  double ms = 0.0;
  int index = 0; // in the list of all, the same in every process
  const AddForm *add = ADD_FORMS;

  bool is_as(const Candidate &other) const {
    return batch_images == other.batch_images &&
           std::memcmp(algo.data, other.algo.data, sizeof algo.data) == 0;
  }
};

// All candidates, in the order of their sources, and how many each source gave.
struct Known {
  std::vector<Candidate> candidates;
  size_t named = 0, named_elsewhere = 0, listed = 0, left_out = 0;
  int checks = 0;

  // Returns false if it is known already.
  bool add(int batch_images, const cublasLtMatmulAlgo_t &algo) {
    Candidate candidate{batch_images, algo};
    candidate.index = static_cast<int>(candidates.size());
    for (const Candidate &other : candidates) {
      if (candidate.is_as(other))
        return false;
    }
    candidates.push_back(candidate);
    return true;
  }

  std::string text() const {
    std::string text = std::to_string(candidates.size()) + " algorithms: " + std::to_string(named) +
                       " from heuristics, " + std::to_string(named_elsewhere) +
                       " from heuristics for other sizes, " + std::to_string(listed) + " of " +
                       std::to_string(checks) + " configurations checked";
    return left_out == 0 ? text : text + " (" + std::to_string(left_out) + " more left out)";
  }
};

// How many images a batch may have: all of them unless comb is C.
std::vector<int> batch_sizes(const Problem &problem) {
  if (!HAS_C)
    return {problem.images};
  std::vector<int> sizes;
  for (int images = 1; images <= std::min(MOST_BATCH_IMAGES, problem.images); ++images) {
    const bool is_power = (images & (images - 1)) == 0;
    if (problem.images % images == 0 && (is_power || images == problem.images))
      sizes.push_back(images);
  }
  return sizes;
}

// What a launch needs of one set of buffers.
struct Prepared {
  Problem problem;
  Buffers buffers;
  std::map<int, std::unique_ptr<Operation>> operations; // by images a batch
  std::unique_ptr<DeviceMemory> tables;                 // copies of comb, one per image of a batch

  Prepared(const Problem &problem, const Buffers &buffers, const std::vector<int> &sizes)
      : problem(problem), buffers(buffers) {
    for (const int images : sizes) {
      operations[images] =
          std::make_unique<Operation>(problem.images / images, images * Config::ROWS_PER_IMAGE,
                                      Config::N, Config::K, HAS_BIAS ? buffers.bias : nullptr);
    }
    if (HAS_C)
      tables = std::make_unique<DeviceMemory>(sizes.back() * table_bytes());
  }

  static size_t table_bytes() { return sizeof(uint16_t) * Config::ROWS_PER_IMAGE * Config::N; }

  void copy_tables(cudaStream_t stream) const {
    for (size_t at = 0; tables != nullptr && at < tables->bytes(); at += table_bytes()) {
      KERNELRIG_CUDA(cudaMemcpyAsync(tables->as<uint8_t>() + at, buffers.comb, table_bytes(),
                                     cudaMemcpyDeviceToDevice, stream));
    }
  }
};

// One workspace for all sets of buffers: all launches are on one stream.
void *workspace() {
  static const auto *const memory = new DeviceMemory(WORKSPACE_BYTES); // until the process ends
  return memory->as<void>();
}

cublasStatus_t run(const Prepared &on, const Candidate &candidate, cudaStream_t stream) {
  const Buffers &buffers = on.buffers;
  const uint16_t *c = HAS_C ? on.tables->as<uint16_t>() : nullptr;
  const cublasStatus_t status = on.operations.at(candidate.batch_images)
                                    ->run(buffers.a, buffers.b, c, buffers.c, candidate.algo,
                                          workspace(), WORKSPACE_BYTES, stream);
  if (!HAS_BIAS || status != CUBLAS_STATUS_SUCCESS)
    return status;
  const int images = on.problem.images, per_thread = candidate.add->images_per_thread;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(Config::VECTORS / Config::THREADS, (images + per_thread - 1) / per_thread);
  config.blockDim = dim3(Config::THREADS);
  config.stream = stream;
  KERNELRIG_CUDA(cudaLaunchKernelEx(&config, candidate.add->kernel,
                                    reinterpret_cast<uint4 *>(buffers.c),
                                    reinterpret_cast<const uint4 *>(buffers.comb), images));
  return status;
}

std::string variable(const char *name) {
  const char *given = std::getenv(name);
  return given == nullptr ? "" : given;
}

void add_named(Known &known, size_t &count, int batch_images, const Operation &of,
               const Operation &operation) {
  for (const auto &found : of.heuristics(HAS_C, WORKSPACE_BYTES, MOST_HEURISTICS)) {
    const bool runs = found.state == CUBLAS_STATUS_SUCCESS &&
                      found.workspaceSize <= WORKSPACE_BYTES &&
                      (&of == &operation || operation.takes(found.algo, HAS_C, WORKSPACE_BYTES));
    if (runs && known.add(batch_images, found.algo))
      ++count;
  }
}

// The results of the heuristics are first, so that their indices do not depend on the rest.
Known known_for(const Prepared &on) {
  Known known;
  for (const auto &[images, operation] : on.operations)
    add_named(known, known.named, images, *operation, *operation);
  for (const auto &[images, operation] : on.operations) {
    const int batches = on.problem.images / images;
    for (int rows = 128; rows < on.problem.m / batches; rows *= 2) {
      const Operation other(batches, rows, Config::N, Config::K,
                            HAS_BIAS ? on.buffers.bias : nullptr);
      add_named(known, known.named_elsewhere, images, other, *operation);
    }
  }
  std::vector<std::pair<int, cublasLtMatmulAlgo_t>> listed;
  const std::string given = variable("KERNELRIG_CUBLASLT_CHECKS");
  const int most_checks = (given.empty() ? MOST_CHECKS : std::atoi(given.c_str())) /
                          static_cast<int>(on.operations.size());
  for (const auto &[images, operation] : on.operations) {
    for (const auto &algo : operation->enumerate(HAS_C, WORKSPACE_BYTES, most_checks, known.checks))
      listed.emplace_back(images, algo);
  }
  const size_t room = MOST_CANDIDATES - std::min<size_t>(MOST_CANDIDATES, known.candidates.size());
  const size_t step = room == 0 ? listed.size() + 1 : (listed.size() + room - 1) / room;
  for (size_t i = 0; i < listed.size(); ++i) {
    if (step != 0 && i % step != 0)
      ++known.left_out;
    else if (known.add(listed[i].first, listed[i].second))
      ++known.listed;
  }
  if (known.candidates.empty()) {
    throw Failure{EXIT_CUDA, "cublasLtNoAlgorithm", CUBLAS_STATUS_NOT_SUPPORTED,
                  Cublaslt::get().version() + " has no algorithm for this product",
                  source_place(__FILE__, __LINE__)};
  }
  return known;
}

// Queue `launches` of a candidate between two events; false if the library rejects them.
bool queue(const Prepared &on, const Candidate &candidate, int launches, kernelrig::Event &begin,
           kernelrig::Event &end, cudaStream_t stream) {
  begin.record(stream);
  for (int i = 0; i < launches; ++i) {
    if (run(on, candidate, stream) != CUBLAS_STATUS_SUCCESS)
      return false;
  }
  end.record(stream);
  return true;
}

void load(const Prepared &on, const std::vector<Candidate> &candidates, double load_s,
          cudaStream_t stream) {
  const auto begin = std::chrono::steady_clock::now();
  while (kernelrig::seconds_since(begin) < load_s) {
    for (int i = 0; i < FINAL_LAUNCHES; ++i)
      run(on, candidates.front(), stream);
    KERNELRIG_CUDA(cudaStreamSynchronize(stream));
  }
}

// Time each candidate: one launch to warm up, then the mean of a few. Rejected candidates are
// dropped, as are those after TRY_S. The next candidate is queued before this one is waited for, so
// that the GPU stays under load.
std::vector<Candidate> try_all(const Prepared &on, const std::vector<Candidate> &candidates,
                               cudaStream_t stream) {
  std::vector<kernelrig::Event> begins(candidates.size()), ends(candidates.size());
  std::vector<bool> ran(candidates.size());
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < candidates.size() && kernelrig::seconds_since(begin) < TRY_S; ++i) {
    ran[i] = run(on, candidates[i], stream) == CUBLAS_STATUS_SUCCESS &&
             queue(on, candidates[i], TRY_LAUNCHES, begins[i], ends[i], stream);
    if (i > 0 && ran[i - 1])
      ends[i - 1].wait();
  }
  KERNELRIG_CUDA(cudaStreamSynchronize(stream));
  std::vector<Candidate> tried;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!ran[i])
      continue;
    tried.push_back(candidates[i]);
    tried.back().ms = ends[i].ms_since(begins[i]) / TRY_LAUNCHES;
  }
  return tried;
}

// Time the finalists interleaved, so that a drift of the clocks affects all alike; each gets the
// median of its rounds.
void time_interleaved(const Prepared &on, std::vector<Candidate> &finalists, cudaStream_t stream) {
  std::vector<std::vector<float>> rounds(finalists.size());
  std::vector<kernelrig::Event> begins(finalists.size()), ends(finalists.size());
  for (int round = 0; round < FINAL_ROUNDS; ++round) {
    for (size_t i = 0; i < finalists.size(); ++i)
      queue(on, finalists[i], FINAL_LAUNCHES, begins[i], ends[i], stream);
    KERNELRIG_CUDA(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < finalists.size(); ++i)
      rounds[i].push_back(ends[i].ms_since(begins[i]) / FINAL_LAUNCHES);
  }
  for (size_t i = 0; i < finalists.size(); ++i)
    finalists[i].ms = kernelrig::median(rounds[i]);
}

// Fill the inputs with a pattern, launch, and return whether every element is right.
bool is_right(const ProblemMemory &memory, const Prepared &on, const Candidate &candidate,
              Pattern pattern, cudaStream_t stream) {
  kernelrig::fill_on_device(memory, on.problem, pattern, 0, stream);
  on.copy_tables(stream);
  kernelrig::fill_with_nan(memory.c, stream);
  if (run(on, candidate, stream) != CUBLAS_STATUS_SUCCESS)
    return false;
  KERNELRIG_CUDA(cudaStreamSynchronize(stream));
  return kernelrig::compare_all(on.problem, pattern, 0, static_cast<float>(KERNELRIG_ACCUM_TOL),
                                memory.c.as<uint16_t>(), stream)
             .mismatches == 0;
}

// The choice of this process, which has one problem.
struct Chosen {
  bool made = false;
  Candidate candidate{};
  std::string note;
};

Chosen &chosen() {
  static Chosen chosen;
  return chosen;
}

std::string note_of(const Candidate &candidate, const std::string &how) {
  std::string way = "product alone";
  if (HAS_BIAS) {
    way = "product with bias, then add_table of " +
          std::to_string(candidate.add->images_per_thread) + " images a thread";
  }
  if (HAS_C) {
    way = "table as C, beta 1, " + std::to_string(candidate.batch_images) + " image" +
          (candidate.batch_images == 1 ? "" : "s") + " a batch";
  }
  return Cublaslt::get().version() + ", fast accumulation, 256 MiB workspace; " + way +
         "; algorithm " + std::to_string(candidate.index) + ", " + how;
}

std::string milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f ms", ms);
  return text;
}

[[noreturn]] void refuse_choice(const std::string &sentence) {
  throw Failure{EXIT_CUDA, "cublasLtChoice", 0, sentence, source_place(__FILE__, __LINE__)};
}

std::string choice_file() { return variable("KERNELRIG_CHOICE_FILE"); }

// What a choice is valid for: the program, the library version and the problem.
std::string choice_head(const Problem &problem) {
  return std::string("kernelrig-choice ") + KERNELRIG_PROGRAM + ' ' +
         std::to_string(Cublaslt::get().get_version()) + " images " +
         std::to_string(problem.images);
}

void write_choice(const Problem &problem) {
  const Candidate &candidate = chosen().candidate;
  std::string text = choice_head(problem) + "\nbatch " + std::to_string(candidate.batch_images) +
                     " index " + std::to_string(candidate.index) + " add " +
                     std::to_string(candidate.add->images_per_thread) + "\nalgorithm";
  char word[24];
  for (const uint64_t part : candidate.algo.data) {
    std::snprintf(word, sizeof word, " %016llx", static_cast<unsigned long long>(part));
    text += word;
  }
  text += "\n" + chosen().note + "\n";
  const std::string error = kernelrig::write_whole(choice_file(), text.data(), text.size());
  if (!error.empty())
    refuse_choice(error);
}

// Use the choice in the file, if there is one.
bool choose_by_file(const Prepared &on) {
  if (choice_file().empty())
    return false;
  std::ifstream file(choice_file());
  if (!file)
    return false;
  std::string head, word;
  std::getline(file, head);
  if (head != choice_head(on.problem))
    refuse_choice(choice_file() + " is for '" + head + "', expected '" + choice_head(on.problem) +
                  "': remove it");
  Candidate candidate{};
  int images_per_thread = 0;
  file >> word >> candidate.batch_images >> word >> candidate.index >> word >> images_per_thread;
  file >> word >> std::hex;
  for (auto &part : candidate.algo.data)
    file >> part;
  std::string note;
  file >> std::ws;
  std::getline(file, note);
  const auto form = std::find_if(std::begin(ADD_FORMS), std::end(ADD_FORMS), [&](const auto &one) {
    return one.images_per_thread == images_per_thread;
  });
  const auto operation = on.operations.find(candidate.batch_images);
  if (!file || form == std::end(ADD_FORMS) || operation == on.operations.end() ||
      !operation->second->takes(candidate.algo, HAS_C, WORKSPACE_BYTES))
    refuse_choice(choice_file() + " has no algorithm that this library supports: remove it");
  candidate.add = form;
  chosen() = {true, candidate, note};
  return true;
}

void choose_without_timing(const Prepared &on) {
  if (choose_by_file(on))
    return;
  const std::string given = variable("KERNELRIG_CUBLASLT_CHOICE");
  // the first heuristic result is always the first of the list
  const std::vector<Candidate> candidates = known_for(on).candidates;
  char *end = nullptr;
  const long index = given.empty() ? 0 : std::strtol(given.c_str(), &end, 10);
  if (!given.empty() &&
      (*end != '\0' || index < 0 || index >= static_cast<long>(candidates.size()))) {
    refuse_choice("KERNELRIG_CUBLASLT_CHOICE is '" + given + "': there are " +
                  std::to_string(candidates.size()) + " algorithms here, counted from 0");
  }
  const Candidate &candidate = candidates[index];
  chosen() = {true, candidate,
              note_of(candidate, given.empty() ? "the first heuristic result, not timed"
                                               : "from KERNELRIG_CUBLASLT_CHOICE, not timed")};
}

// The same GEMM with each form of the add.
std::vector<Candidate> with_each_add(const Candidate &candidate) {
  std::vector<Candidate> forms;
  for (const AddForm &form : ADD_FORMS) {
    forms.push_back(candidate);
    forms.back().add = &form;
  }
  return forms;
}

bool is_faster(const Candidate &a, const Candidate &b) { return a.ms < b.ms; }

void choose_by_time(const Problem &problem, cudaStream_t stream) {
  const ProblemMemory memory(problem, 0, 0);
  const Prepared on(problem, memory.buffers(), batch_sizes(problem));
  if (choose_by_file(on))
    return;
  kernelrig::fill_on_device(memory, problem, Pattern::RANDOM, 0, stream);
  on.copy_tables(stream);
  const Known known = known_for(on);
  load(on, known.candidates, LOAD_S, stream);
  std::vector<Candidate> best = try_all(on, known.candidates, stream);
  const size_t tried = best.size();
  std::sort(best.begin(), best.end(), is_faster);
  best.resize(std::min<size_t>(best.size(), FINALISTS));
  if (!best.empty())
    load(on, best, FINAL_LOAD_S, stream);
  time_interleaved(on, best, stream);
  std::sort(best.begin(), best.end(), is_faster);
  if (HAS_BIAS && !best.empty()) {
    std::vector<Candidate> forms = with_each_add(best.front());
    time_interleaved(on, forms, stream);
    std::sort(forms.begin(), forms.end(), is_faster);
    best.insert(best.begin(), forms.begin(), forms.end());
  }
  for (size_t passed_over = 0; passed_over < best.size(); ++passed_over) {
    const Candidate &candidate = best[passed_over];
    if (!is_right(memory, on, candidate, Pattern::RANDOM, stream) ||
        !is_right(memory, on, candidate, Pattern::INTEGER, stream))
      continue;
    std::string how = milliseconds(candidate.ms) + ", the best of " + std::to_string(tried) +
                      " that ran of " + known.text();
    if (passed_over > 0)
      how += ", " + std::to_string(passed_over) + " faster ones gave wrong outputs";
    chosen() = {true, candidate, note_of(candidate, how)};
    if (!choice_file().empty())
      write_choice(problem);
    return;
  }
  throw Failure{EXIT_CUDA, "cublasLtNoAlgorithm", CUBLAS_STATUS_NOT_SUPPORTED,
                "the outputs of the " + std::to_string(best.size()) + " fastest of " +
                    std::to_string(tried) + " algorithms that ran are wrong",
                source_place(__FILE__, __LINE__)};
}

struct Gemm {
  using Params = std::shared_ptr<Prepared>;
  static constexpr Function FUNCTION = ::FUNCTION;
  static constexpr char ENTRY[] = KERNELRIG_KERNEL_REGEX;
  static constexpr int ROWS_PER_IMAGE = Config::ROWS_PER_IMAGE;
  static constexpr int N = Config::N;
  static constexpr int K = Config::K;
  static constexpr int COMB_BLOCK = Config::N;
  static constexpr const char *PHASES[] = {"none"};

  // Not the harness's, which is one for each set of inputs.
  static size_t workspace_bytes(const Problem &) { return 0; }

  static Geometry geometry(const Problem &problem, int) {
    if (problem.ctas != 0) {
      throw UsageError{"ctas is " + std::to_string(problem.ctas) +
                       ": the library chooses its own grids; leave it out"};
    }
    Geometry geometry;
    geometry.grid = dim3(0, 0, 0);
    return geometry;
  }

  static int phase_rows(const Problem &, const Geometry &) { return 0; }

  static std::string phase_report(const PhaseTable &, const Problem &, const Geometry &, double) {
    return "";
  }

  static void tune(const Problem &problem, cudaStream_t stream) {
    if (variable("KERNELRIG_CUBLASLT_CHOICE").empty())
      choose_by_time(problem, stream);
  }

  static Params prepare(const Problem &problem, const Buffers &buffers) {
    if (!chosen().made)
      choose_without_timing(Prepared(problem, buffers, batch_sizes(problem)));
    workspace(); // not within the first timed launch
    return std::make_shared<Prepared>(problem, buffers,
                                      std::vector<int>{chosen().candidate.batch_images});
  }

  static void derive(const Params &params, cudaStream_t stream) { params->copy_tables(stream); }

  static std::string note() { return chosen().note; }

  static void launch(const Params &params, const Geometry &, cudaStream_t stream) {
    KERNELRIG_CUBLASLT_CALL(run(*params, chosen().candidate, stream));
  }

  static LaunchArgs arguments(const Problem &) {
    throw UsageError{"nothing to describe: the library chooses its kernels and their launches"};
  }
};

} // namespace

int main(int argc, char **argv) { return harness_main<Gemm>(argc, argv); }

#endif // KERNELRIG_DEVICE_ONLY

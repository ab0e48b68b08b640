// Our CUDA runtime and driver for the host side of a program whose kernels are emulated.
//
// How it works. The program is a child process of the emulator and loads this library under the
// names of CUDA's. Device memory is one file that both map: here at the addresses that kernels see,
// where the program may touch no more than it could on a GPU (managed and pinned memory), and once
// more at `Memory::view`, where copies are made. A second file has a mark for each byte of it that
// was written. What only the emulator knows is asked for over a socket, one request at a time: a
// launch returns when it has been emulated. `Request` and the layout of messages are those of
// cudart/messages.py.
//
// Everything here happens in the order of the calls. What streams, events and graphs leave without an
// order is found by vector clocks (order.hpp).
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

// CUDA's functions are the library's only names.
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "include/cudaProfiler.h"
#include "include/cuda_profiler_api.h"
#pragma GCC visibility pop

namespace cudart {

constexpr uint64_t DEVICE_BASE = 0x7F0000000000;  // machine.state_spaces.GLOBAL_BASE
constexpr uint64_t PAGE = 4096;

enum class Request : uint32_t {
  RESERVE = 32,  // bytes, alignment -> address
  MAP,           // address, bytes, callers: reserved memory that kernels may access from now on
  UNMAP,         // address, bytes
  HELLO = 0,  // where the executable was loaded -> Device, then (attribute, value) pairs of int32
  MODULE,     // a fat binary, or PTX -> number
  FUNCTION,   // module, name -> Function, then (offset, bytes) of each parameter
  VARIABLE,   // module, name, managed -> address, bytes
  ALLOCATE,   // bytes, kind, callers -> address
  FREE,       // address
  LAUNCH,     // Launch, then the parameters -> Launched, its ranges, what goes to stdout and stderr
  NOTE,       // Note, then a text: something for the report
  TENSOR_MAP, // TensorMap -> 128 bytes
  LINKED,     // number of a module or ~0 for a new one, a fat binary that is linked to it -> number
  RACE,       // Race: two pieces of work that nothing orders
};

// What an allocation is; the numbers of cudart/device_memory.py. HEAP: how large malloc's is to be.
// MAPPED: of reserved addresses, by cuMemMap.
enum class Kind : uint32_t { DEVICE, MANAGED, HOST, VARIABLE, CONSTANT, PARAMETERS, HEAP, MAPPED };

enum class Noted : uint32_t {
  FAILED_CALL,
  UNWRITTEN_COPY,
  HOST_ACCESS,
  TENSOR_MAP,      // the emulator's own
  REFUSED_LAUNCH,  // nothing ran: an error of the run unless the program reads the code
  ERROR_READ,      // the program read the code of what failed
  UNSUPPORTED,     // the run ends: what is asked for cannot be emulated
  ORDER_NOT_JUDGED,  // of streams, in part: a text says why
  REFUSED_COPY,  // nothing was copied or filled: an error unless the program reads the code, or fails
};

#pragma pack(push, 1)
// Where the program made a call, and what called that, innermost first, 0 for none: CUDA's headers
// have functions of their own.
struct Callers {
  uint64_t at, behind[23];
};

struct Device {
  char name[64];
  uint64_t memory_bytes;
  uint64_t capacity_bytes;  // of device memory that can be had here
  int32_t clustered_sms;    // SMs that clusters of 4 CTAs and more can use
  int32_t attributes;       // how many follow
};

struct FunctionFacts {
  uint32_t number;
  int32_t registers, shared_bytes, local_bytes, constant_bytes;
  int32_t max_threads;       // of a CTA; by .maxntid or .reqntid too
  int32_t required_block[3]; // .reqntid, 0 without
  int32_t required_cluster[3];
  int32_t ptx_version, binary_version;
  uint32_t dependencies;  // WAITS_FOR_GRIDS, LETS_GRIDS_BEGIN
  uint32_t param_bytes;
  uint32_t params;
};

// A launch may begin while the one before it in its stream still runs (programmatic serialisation).
constexpr uint32_t COOPERATIVE = 1, BESIDE_THE_ONE_BEFORE = 2;

// griddepcontrol of a kernel: .wait, .launch_dependents; and whether it has fences of .sys.
constexpr uint32_t WAITS_FOR_GRIDS = 1, LETS_GRIDS_BEGIN = 2, FENCES_FOR_SYSTEM = 4;

struct Launch {
  uint32_t function;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t dynamic_shared_bytes;
  uint32_t flags;  // COOPERATIVE, BESIDE_THE_ONE_BEFORE
  Callers callers;
};

// How a launch went: `ranges` of AccessedRange follow, then `printed` bytes for stdout.
struct Launched {
  uint32_t number, ranges, printed;
};

// Flat bytes of device memory that a launch accessed; `use` as in accesses.hpp.
struct AccessedRange {
  uint64_t start, end, use;
};

// A piece of work as messages name it.
enum class What : uint32_t { KERNEL, COPY, FILL, ALLOCATION, FREE, HOST_FUNCTION, HOST_ACCESS, OTHER };
struct Described {
  What what;
  uint32_t launch;  // of a kernel: its number
  uint32_t graph;   // the number of the launch of a graph that it is a node of, 0 for none
  uint64_t stream;  // its number, in the order in which they were made
  Callers stream_made, callers;
};
constexpr uint64_t DEFAULT_STREAM = 0, THREAD_STREAM = ~1ull, HOST_THREAD = ~0ull;

// `usual`: drivers usually order them, and no rule says so. `strong`: both are kernels that access
// other bytes by strong operations, by which they may order themselves.
struct Race {
  Described first, second;
  uint32_t first_use, second_use;
  uint64_t address, bytes;
  uint32_t usual, strong;
};

struct Note {
  Noted kind;
  uint32_t code;
  uint64_t address, bytes;
  Callers callers;
};

// The arguments of cuTensorMapEncodeTiled or, `im2col`, cuTensorMapEncodeIm2col; what the other has,
// or `rank` does not reach, is 0.
struct TensorMap {
  uint32_t im2col, type, rank;
  uint64_t address;
  uint64_t dims[5], strides[5];
  uint32_t box[5], steps[5];
  int32_t lower[3], upper[3];
  uint32_t channels, pixels;
  uint32_t interleave, swizzle, promotion, fill;
  Callers callers;
};
#pragma pack(pop)

struct Param {
  uint32_t offset, bytes;
};

// A kernel, as the program launches it.
struct Kernel {
  uint32_t module = 0;
  std::string name;
  bool known = false;
  FunctionFacts facts{};
  std::vector<Param> params;
  int dynamic_limit = 0;  // cudaFuncAttributeMaxDynamicSharedMemorySize
  int carveout = -1;
  bool any_cluster_size = false;
};

struct Allocation {
  uint64_t bytes;
  Kind kind;
  bool of_graph = false;  // each launch of a graph has it anew, at this address
  uint64_t id = 0;        // no other allocation of the process has it
  bool of_stream = false;  // cudaMallocAsync: to free it waits for nothing
};

// Pages of the host's that are those of an allocation at `device`; `pointer` is what was registered.
struct Pinned {
  uint64_t bytes, device, pointer;
};

struct Answer {
  cudaError_t error;
  std::string data;
};

// What a call that frees memory waits for: what goes on with that memory, and usually all else; or
// usually all; or nothing. UNJUDGED is memory of ours.
//
// CUDA's documents: cudaFree "may perform implicit synchronization", but of memory of pools, whose
// accesses "callers must ensure" to be complete. On an H100 it waited for all streams, of pools' memory
// and of graphs' memory for none; cudaFreeHost, cudaHostUnregister and cudaFreeArray, of which they
// say nothing, waited too.
enum class Frees { WAITING, USUALLY_WAITING, AT_ONCE, UNJUDGED };

// Sends a request and waits for its answer; the process ends where nobody answers any more.
Answer ask(Request request, const std::string& body);

template <class T> std::string packed(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class... T> std::string packed(const T&... values) {
  std::string all;
  ((all += packed<T>(values)), ...);
  return all;
}

// The first bytes of an answer, which holds as many.
template <class T> T unpacked(const std::string& data, size_t at = 0) {
  T value{};
  if (data.size() >= at + sizeof value)
    data.copy(reinterpret_cast<char*>(&value), sizeof value, at);
  return value;
}

Callers callers_of(const void* caller);

// What a call returns: notes a failure for the report, and for cudaGetLastError.
cudaError_t finished(const char* call, cudaError_t code, const void* caller);
#define FINISHED(code) return ::cudart::finished(__func__, (code), __builtin_return_address(0))

// The state of the process; `lock` is held by every call that looks at it.
struct Process {
  std::recursive_mutex lock;
  Device device{};
  std::map<int, int> attributes;
  std::map<uint64_t, Allocation> allocations;  // by address
  uint8_t* view = nullptr;   // device memory, readable and writable, from DEVICE_BASE
  uint8_t* marks = nullptr;  // one for each byte of it that was written
  uint64_t span = 0;         // of both
  int memory_file = -1;
  std::map<uint64_t, Pinned> pinned;  // by the first page of the host's
  cudaError_t sticky = cudaSuccess;   // a kernel that failed: no call succeeds after it
  cudaError_t failing = cudaSuccess;  // what the call that launched it leaves to the next
  uint64_t heap_bytes = 8 << 20;  // of malloc in kernels
  bool forked = false;
  bool called = false;         // CUDA was called: a child that is forked from now on has none on a GPU either
  std::string refusal;  // the kernel's name and why, if the call that now ends was refused a launch
};
Process& process();

extern thread_local cudaError_t last_error;

// The program has read an error: a launch that was refused with it is not overlooked.
void error_was_read(cudaError_t code);

// A warning of the report: a call that did not do what was asked of it, with its code.
void note_failed(const std::string& what, int code, const void* caller);

// Ends the run: `what` names the thing and why it cannot be emulated.
[[noreturn]] void unsupported(const std::string& what, const void* caller);

inline bool is_device_address(uint64_t address) {
  return address >= DEVICE_BASE && address < DEVICE_BASE + process().span;
}

// The allocation that holds `address`, or end().
std::map<uint64_t, Allocation>::iterator allocation_of(uint64_t address);

// Makes an allocation of the emulator's known: its pages are the program's where it may touch them.
void adopt(uint64_t address, uint64_t bytes, Kind kind);

// `captured`: while a stream is captured too, where CUDA makes a node of it.
cudaError_t allocate(void** out, uint64_t bytes, Kind kind, const void* caller,
                     bool captured = false);
cudaError_t release(void* pointer, bool host, const void* caller, Frees how = Frees::WAITING);
cudaError_t pin(void* pointer, size_t bytes, const void* caller);
cudaError_t unpin(void* pointer, const void* caller);

// Copies between any two places; `kind` is checked against them.
cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, const void* caller);
cudaError_t copy_3d(const cudaMemcpy3DParms& how, const void* caller);
// The driver's parameters of a copy, as the runtime has them.
CUresult runtime_copy(const CUDA_MEMCPY3D& how, cudaMemcpy3DParms* out);
cudaError_t fill(void* to, int value, size_t bytes);
cudaError_t fill_halves(uint64_t to, uint16_t value, size_t count);
cudaError_t fill_words(uint64_t to, uint32_t value, size_t count);

// Makes what was written there as if nothing had written it.
cudaError_t unwrite(void* at, size_t bytes);
cudaError_t keep_for_graph(void* at);

struct Geometry {
  dim3 grid, block, cluster{0, 0, 0};  // 0: no cluster is asked for
  size_t shared = 0;
  bool cooperative = false;
  cudaEvent_t event = nullptr;  // that the launch records
  cudaStream_t stream = nullptr;
  bool programmatic = false;  // it may begin while the launch before it still runs
};

// The arguments that `args` points to, as the kernel gets them.
cudaError_t keep_arguments(Kernel& kernel, void** args, std::string* out);

// A launch with such arguments, whatever its stream does.
cudaError_t launch_now(Kernel& kernel, const Geometry& geometry, const std::string& arguments,
                       const void* caller);

// Launches a kernel: `args` points to each argument, or `buffer` holds them all.
cudaError_t launch(Kernel& kernel, const Geometry& geometry, void** args, const void* caller,
                   const std::string* buffer = nullptr);
void take_attributes(Geometry& geometry, const cudaLaunchAttribute* attributes, unsigned count,
                     const void* caller);

// A module that is loaded as the program runs, and kernels and variables of it.
cudaError_t load_module(const void* image, uint32_t* out);
// One of several that are linked to one module, whose number is `*out`; ~0 makes a new one.
cudaError_t link_module(const void* image, uint32_t* out);
// What cuLinkComplete made: this word, how many inputs there are, then the bytes and text of each.
constexpr uint32_t LINKED_IMAGE = 0x4B4C494E;
cudaError_t load_linked_image(const char* image, uint32_t* out);
// A fat binary or PTX as it is, of which a wrapper may be given.
std::string image_of(const void* data, size_t bytes);
// What a compiler that has nothing to say writes into logs and their sizes.
void answer_jit_options(unsigned count, CUjit_option* options, void** values);
Kernel* kernel_named(uint32_t module, const char* name);
cudaError_t variable_named(uint32_t module, const char* name, uint64_t* address, uint64_t* bytes);

cudaError_t occupancy(int* out, Kernel* kernel, int threads, size_t dynamic);
cudaError_t set_attribute(Kernel& kernel, cudaFuncAttribute which, int value);
int attribute(int which);

// The device variable of a host symbol, or null.
const std::pair<const uint64_t, Allocation>* variable_of(const void* symbol);
Kernel* kernel_of(const void* stub);
cudaError_t learn(Kernel& kernel);

const char* error_name(int code);
const char* error_text(int code);

}  // namespace cudart

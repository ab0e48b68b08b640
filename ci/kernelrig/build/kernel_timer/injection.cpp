// Loaded into a program by CUDA's driver (CUDA_INJECTION64_PATH): measures each kernel by CUPTI's
// activity records, and writes the durations of each kernel by name when the program ends.
//
// The driver calls InitializeInjection at the program's cuInit. KERNELRIG_KERNEL_TIMES is the path
// that the files' names begin with: NAME.1.json, and for each further process that uses CUDA
// NAME.2.json and on. A file is made empty at the start: one that stays empty says that its process
// ended without exit handlers. CUPTI's library lies beside this one and is loaded from there, so
// that its absence is a sentence in the file, and never the end of the program.

#include <cupti.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int MOST_PROCESSES = 16;
constexpr size_t MOST_KERNELS = 1000;      // by name; launches of further ones are counted
constexpr size_t MOST_DURATIONS = 1000000; // of all kernels together
constexpr size_t BUFFER_BYTES = 1 << 20;

struct Kernel {
  uint64_t launches = 0;
  std::vector<uint64_t> durations_ns;
};

struct Times {
  std::mutex mutex;
  std::map<std::string, Kernel> kernels;
  size_t durations = 0;
  uint64_t left_out = 0;   // launches beyond the limits above
  uint64_t unmeasured = 0; // launches whose record has no times
  uint64_t dropped = 0;    // records that CUPTI dropped
  std::string error;
  std::string path;
  pid_t process = 0;
};

Times &times() {
  static Times *held = new Times; // never destroyed: CUPTI's thread may still deliver
  return *held;
}

// CUPTI's functions, by their own types.
struct Functions {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records;
  decltype(&cuptiGetResultString) result_string;
  decltype(&cuptiGetVersion) version;
  decltype(&cuptiSubscribe) subscribe;
  decltype(&cuptiEnableCallback) enable_callback;
} cupti;

uint32_t cupti_version = 0;

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\' || c < 0x20 || c >= 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

// Writes the file whole: under another name first.
void write_file() {
  Times &all = times();
  const std::string part = all.path + ".part";
  FILE *file = std::fopen(part.c_str(), "w");
  if (!file)
    return;
  std::fprintf(file, "{\"schema\": 1, \"cupti\": %" PRIu32 ", \"error\": %s,\n", cupti_version,
               quoted(all.error).c_str());
  std::fprintf(file,
               " \"dropped\": %" PRIu64 ", \"unmeasured\": %" PRIu64 ", \"left_out\": %" PRIu64
               ",\n \"kernels\": [",
               all.dropped, all.unmeasured, all.left_out);
  const char *between = "\n";
  for (const auto &[name, kernel] : all.kernels) {
    std::fprintf(file, "%s  {\"name\": %s, \"launches\": %" PRIu64 ", \"durations_ns\": [", between,
                 quoted(name).c_str(), kernel.launches);
    const char *comma = "";
    for (uint64_t ns : kernel.durations_ns) {
      std::fprintf(file, "%s%" PRIu64, comma, ns);
      comma = ",";
    }
    std::fputs("]}", file);
    between = ",\n";
  }
  std::fputs("]}\n", file);
  const bool whole = std::fflush(file) == 0 && !std::ferror(file);
  if (std::fclose(file) == 0 && whole)
    std::rename(part.c_str(), all.path.c_str());
}

bool is_good(CUptiResult result, const char *call) {
  if (result == CUPTI_SUCCESS)
    return true;
  const char *text = nullptr;
  if (cupti.result_string)
    cupti.result_string(result, &text);
  std::lock_guard<std::mutex> hold(times().mutex);
  if (times().error.empty())
    times().error = std::string(call) + ": " + (text ? text : "error " + std::to_string(result));
  return false;
}

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records) {
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, BUFFER_BYTES));
  *size = *buffer ? BUFFER_BYTES : 0;
  *most_records = 0;
}

void note(const CUpti_ActivityKernel10 &record) {
  Times &all = times();
  std::lock_guard<std::mutex> hold(all.mutex);
  if (!record.start || !record.end || record.end < record.start) {
    ++all.unmeasured;
    return;
  }
  const std::string name = record.name ? record.name : "";
  auto found = all.kernels.find(name);
  if (found == all.kernels.end() && all.kernels.size() >= MOST_KERNELS) {
    ++all.left_out;
    return;
  }
  Kernel &kernel = found == all.kernels.end() ? all.kernels[name] : found->second;
  ++kernel.launches;
  if (all.durations >= MOST_DURATIONS) {
    ++all.left_out;
    return;
  }
  ++all.durations;
  kernel.durations_ns.push_back(record.end - record.start);
}

void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t,
                          size_t valid) {
  CUpti_Activity *record = nullptr;
  while (valid && cupti.next_record(buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
        record->kind == CUPTI_ACTIVITY_KIND_KERNEL)
      note(*reinterpret_cast<CUpti_ActivityKernel10 *>(record));
  size_t dropped = 0;
  if (cupti.dropped_records(context, stream, &dropped) == CUPTI_SUCCESS && dropped) {
    std::lock_guard<std::mutex> hold(times().mutex);
    times().dropped += dropped;
  }
  std::free(buffer);
}

void flush() { is_good(cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll"); }

// What a context holds is fetched before the program destroys it.
void CUPTIAPI before_reset(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *data) {
  if (static_cast<const CUpti_CallbackData *>(data)->callbackSite == CUPTI_API_ENTER)
    flush();
}

void at_exit() {
  if (getpid() != times().process) // a child that was forked has no records of its own
    return;
  flush();
  std::lock_guard<std::mutex> hold(times().mutex);
  write_file();
}

std::string beside_this(const char *name) {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void *>(&beside_this), &info) || !info.dli_fname)
    return name;
  const std::string own = info.dli_fname;
  return own.substr(0, own.rfind('/') + 1) + name;
}

template <class Function> bool find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    times().error = std::string("libcupti.so.13 has no ") + name;
  return function;
}

bool load() {
  void *library = dlopen(beside_this("libcupti.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    times().error = why ? why : "libcupti.so.13 cannot be loaded";
    return false;
  }
  return find(library, "cuptiActivityRegisterCallbacks", cupti.register_callbacks) &&
         find(library, "cuptiActivityEnable", cupti.enable) &&
         find(library, "cuptiActivityFlushAll", cupti.flush_all) &&
         find(library, "cuptiActivityGetNextRecord", cupti.next_record) &&
         find(library, "cuptiActivityGetNumDroppedRecords", cupti.dropped_records) &&
         find(library, "cuptiGetResultString", cupti.result_string) &&
         find(library, "cuptiGetVersion", cupti.version) &&
         find(library, "cuptiSubscribe", cupti.subscribe) &&
         find(library, "cuptiEnableCallback", cupti.enable_callback);
}

bool start() {
  if (!load() || !is_good(cupti.version(&cupti_version), "cuptiGetVersion"))
    return false;
  if (!is_good(cupti.register_callbacks(give_buffer, take_buffer),
               "cuptiActivityRegisterCallbacks") ||
      !is_good(cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable"))
    return false;
  CUpti_SubscriberHandle handle;
  if (!is_good(cupti.subscribe(&handle, before_reset, nullptr), "cuptiSubscribe"))
    return false;
  constexpr CUpti_CallbackId driver[] = {
      CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy, CUPTI_DRIVER_TRACE_CBID_cuCtxDestroy_v2,
      CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset,
      CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxReset_v2};
  for (CUpti_CallbackId id : driver)
    if (!is_good(cupti.enable_callback(1, handle, CUPTI_CB_DOMAIN_DRIVER_API, id),
                 "cuptiEnableCallback"))
      return false;
  return is_good(cupti.enable_callback(1, handle, CUPTI_CB_DOMAIN_RUNTIME_API,
                                       CUPTI_RUNTIME_TRACE_CBID_cudaDeviceReset_v3020),
                 "cuptiEnableCallback");
}

// Takes the first free name; no file, if the processes are too many.
bool take_name(const std::string &name) {
  char folder[4096] = "";
  std::string base = name;
  if (base[0] != '/' && getcwd(folder, sizeof folder)) // the program may go elsewhere
    base = std::string(folder) + "/" + base;
  for (int number = 1; number <= MOST_PROCESSES; ++number) {
    times().path = base + "." + std::to_string(number) + ".json";
    const int file = open(times().path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file >= 0) {
      close(file);
      return true;
    }
  }
  return false;
}

} // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  static bool begun = false;
  const char *name = std::getenv("KERNELRIG_KERNEL_TIMES");
  if (begun || !name || !*name)
    return 1;
  begun = true;
  if (!take_name(name))
    return 1;
  times().process = getpid();
  if (start())
    std::atexit(at_exit);
  else
    write_file();
  return 1;
}

// In place of libnvidia-ml.so.1: a GPU for which time goes on by two samples each time it is asked,
// and whose kernels run while a file exists (NVML_BUSY).
#include <cstdlib>
#include <cstring>
#include <map>
#include <unistd.h>

namespace {
struct Sample {
  unsigned long long time_us;
  unsigned long long value;
};
const unsigned long long kPeriod = 200000;
std::map<unsigned long long, unsigned> seen{{1000 * kPeriod, 0}};

void note() {
  const char *busy = std::getenv("NVML_BUSY");
  const bool runs = busy && access(busy, F_OK) == 0;
  for (int i = 0; i < 2; ++i)
    seen[seen.rbegin()->first + kPeriod] = runs ? 80 : 0;
}
} // namespace

extern "C" {
int nvmlInit_v2() { return std::getenv("NVML_FAILS") ? 999 : 0; }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  *handle = const_cast<char *>("gpu");
  return std::strncmp(uuid, "GPU-", 4) ? 6 : 0;
}

int nvmlDeviceGetSamples(void *, int type, unsigned long long after, int *kind, unsigned *count,
                         Sample *into) {
  if (type != 1 || std::getenv("NVML_UNSUPPORTED"))
    return 3;
  if (!into)
    note();
  *kind = 1;
  unsigned found = 0;
  for (const auto &[time, percent] : seen) {
    if (time <= after)
      continue;
    if (into && found < *count)
      // The other half of the union is not to be read.
      into[found] = {time, percent | 0xdeadbeef00000000ull};
    ++found;
  }
  *count = found;
  return found ? 0 : 6;
}
}

// A stand-in for a CUDA program: it loads the library as CUDA's driver does, and "launches".
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

int main(int argc, char **argv) {
  void *library = dlopen(std::getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return 3;
  reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))();
  void *cupti = dlopen(std::getenv("STAND_IN_CUPTI"), RTLD_NOW | RTLD_NOLOAD);
  auto launch = cupti ? reinterpret_cast<void (*)(const char *, uint64_t, uint64_t)>(
                            dlsym(cupti, "stand_in_launch"))
                      : nullptr;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "away") && chdir("/"))
      return 4;
    if (!std::strcmp(argv[i], "abrupt"))
      _exit(0);
    if (!std::strcmp(argv[i], "reset"))
      reinterpret_cast<void (*)()>(dlsym(cupti, "stand_in_reset"))();
    if (!std::strcmp(argv[i], "fork")) {
      if (!fork())
        return 0;
      wait(nullptr);
    }
    if (!std::strcmp(argv[i], "untimed"))
      launch("untimed", 0, 0);
    if (!std::strcmp(argv[i], "twenty-thousand"))
      for (int n = 0; n < 20000; ++n)
        launch("many", 100, 200);
    if (!std::strcmp(argv[i], "launch") && launch) {
      launch("_Z3sumPfi", 1000, 1000 + 32 * static_cast<uint64_t>(i));
      launch("_Z4fillPf", 5000, 9000);
    }
  }
}

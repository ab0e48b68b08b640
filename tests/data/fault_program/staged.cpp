// The program of the fault suite. It logs that it ran, makes the files that its stage owes, and then
// does what the test's script for its stage says, if there is one: /bin/sh takes its place.
//
// FAULTS names the test's folder, outside of everything that a run owns:
//   FAULTS/executions   gets one line per start: run, stage, pid, nanoseconds since boot
//   FAULTS/STAGE.sh     what happens in this stage, after its files were made
//
// Exit codes of its own: 0 done, 1 a file could not be written.

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace {

constexpr size_t MADE_BYTES = 128 << 10;

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "staged: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

void append(const std::string &path, const std::string &text, int flags) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | flags, 0644);
  if (file < 0)
    fail(path);
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n < 0)
      fail(path);
    done += static_cast<size_t>(n);
  }
  close(file);
}

// The folder of a stage is NN-NAME.
std::string stage() {
  char cwd[4096];
  if (!getcwd(cwd, sizeof cwd))
    fail("cwd");
  const std::string path = cwd;
  return path.substr(path.find('-', path.rfind('/')) + 1);
}

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

} // namespace

int main() {
  const std::string folder = variable("FAULTS"), name = stage();
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::string ns = std::to_string(now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
  append(folder + "/executions",
         variable("KERNELRIG_RUN") + " " + name + " " + std::to_string(getpid()) + " " + ns + "\n",
         O_APPEND);
  std::string made;
  for (uint32_t x = 2463534242u; made.size() < MADE_BYTES; x ^= x << 13, x ^= x >> 17, x ^= x << 5)
    made += static_cast<char>(x + name[0]);
  append("made.bin", made, O_TRUNC);
  std::printf("%s is done\nall is well\n", name.c_str());
  std::fflush(stdout);
  const std::string script = folder + "/" + name + ".sh";
  if (access(script.c_str(), F_OK) == 0) {
    execl("/bin/sh", "sh", script.c_str(), static_cast<char *>(nullptr));
    fail("/bin/sh");
  }
  return 0;
}

// Measurement slots on one GPU for several processes: each has its inputs in place and waits; the
// next slot begins as soon as the one before has ended. So the GPU stays under load between two
// builds, and the start of a process costs no measuring time.
//
// The processes share a file with one byte per slot, created by the client: 0 at first, 1 once the
// process of that slot is ready, 2 once the slot is over. Only slot 0 may begin before all
// processes are ready: its process puts load on the GPU while the others start. A file of another
// size means that a process has failed; then all others fail too.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "failure.cuh"

namespace kernelrig {

class Relay {
public:
  // Throws UsageError if the file does not exist or has too few bytes for one of `own`.
  Relay(const std::string &path, const std::vector<int> &own) : path_(path), own_(own) {
    file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file_ < 0)
      throw UsageError{"--relay " + path + ": " + std::strerror(errno)};
    size_ = size_now();
    const int last = *std::max_element(own.begin(), own.end());
    if (last >= size_) {
      close(file_);
      throw UsageError{"--relay " + path + " has " + std::to_string(size_) +
                       " bytes, one per slot: there is no slot " + std::to_string(last)};
    }
  }
  Relay(const Relay &) = delete;
  Relay &operator=(const Relay &) = delete;
  ~Relay() { close(file_); }

  void ready() const {
    for (const int slot : own_)
      put(slot, READY);
  }

  bool all_ready() const { return read().find('\0') == std::string::npos; }

  // Returns once every process is ready and every earlier slot is over.
  void wait_for(int slot) const {
    wait([slot](const std::string &state) {
      return state.find('\0') == std::string::npos &&
             state.find_first_not_of(OVER) >= static_cast<size_t>(slot);
    });
  }

  void over(int slot) const { put(slot, OVER); }

  void wait_for_all() const { wait_for(size_); }

private:
  static constexpr char READY = 1, OVER = 2;
  static constexpr auto POLL = std::chrono::microseconds(50);

  int size_now() const {
    struct stat seen {};
    return fstat(file_, &seen) == 0 ? static_cast<int>(seen.st_size) : 0;
  }

  void put(int slot, char what) const {
    if (pwrite(file_, &what, 1, slot) != 1)
      give_up(std::strerror(errno));
  }

  template <class Done> void wait(Done done) const {
    while (!done(read()))
      std::this_thread::sleep_for(POLL);
  }

  std::string read() const {
    std::string state(size_, '\0');
    const ssize_t got = pread(file_, state.data(), state.size(), 0);
    if (got != size_ || size_now() != size_)
      give_up("another process has failed");
    return state;
  }

  [[noreturn]] void give_up(const std::string &why) const {
    throw Failure{EXIT_CUDA, "relayGivenUp", 0, "relay " + path_ + ": " + why,
                  source_place(__FILE__, __LINE__)};
  }

  const std::string path_;
  const std::vector<int> own_;
  int file_ = -1;
  int size_ = 0;
};

} // namespace kernelrig

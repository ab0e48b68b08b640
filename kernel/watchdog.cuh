// A limit for a kernel that does not end: the process writes its result and exits with code 73. The
// agent on the host has a limit of its own; this one is for runs without an agent.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "result.cuh"

namespace kernelrig {

class Watchdog {
public:
  explicit Watchdog(double limit_s) : limit_s_(limit_s) {
    if (limit_s_ > 0.0)
      thread_ = std::thread([this] { wait(); });
  }

  ~Watchdog() { stop(); }

  // Record what begins now and the result so far; the file written at the limit has both.
  void doing(const std::string &what, const Result &so_far) {
    const std::lock_guard<std::mutex> lock(mutex_);
    what_ = what;
    record_ = so_far;
  }

  // After this the watchdog writes nothing: the caller can write the result.
  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable())
      thread_.join();
  }

private:
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto limit = std::chrono::duration<double>(limit_s_);
    if (wake_.wait_for(lock, limit, [this] { return stopped_; }))
      return;
    char text[160];
    std::snprintf(text, sizeof text, "not done after %g s, busy with: %s", limit_s_, what_.c_str());
    record_.exit_code = EXIT_WATCHDOG;
    record_.failed = true;
    record_.failure = {EXIT_WATCHDOG, "watchdog", EXIT_WATCHDOG, text,
                       source_place(__FILE__, __LINE__)};
    write_result(record_);
    std::fprintf(stderr, "watchdog: %s\n", text);
    std::fflush(nullptr);
    _exit(EXIT_WATCHDOG); // the main thread is blocked in a CUDA call
  }

  const double limit_s_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
  std::string what_ = "start";
  Result record_;
  bool stopped_ = false;
};

} // namespace kernelrig

// The connection to the emulator, the memory that is shared with it, and how a call ends.

#include "watched_pages.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <ucontext.h>
#include <unwind.h>

namespace cudart {

thread_local cudaError_t last_error = cudaSuccess;

namespace {

constexpr char VARIABLE_NAME[] = "KERNELRIG_CUDART";
constexpr int NO_EMULATOR = 112;  // exit status; program_session.py knows it
int connection = -1;
// Of refused launches and copies, until one of them is read.
thread_local std::set<cudaError_t> refused_with;

// Whether the program named bytes, or a kind of copy, that cannot be.
bool is_refused_copy(const std::string& call, cudaError_t code) {
  bool moves = call.find("Memcpy") != std::string::npos || call.find("Memset") != std::string::npos;
  return moves && (code == cudaErrorInvalidValue || code == cudaErrorInvalidPitchValue ||
                   code == cudaErrorInvalidSymbol || code == cudaErrorInvalidMemcpyDirection);
}

[[noreturn]] void leave(const char* why) {
  fprintf(stderr, "kernelrig: %s\n", why);
  _exit(NO_EMULATOR);
}

// The emulator has said why it ended, if it has.
[[noreturn]] void end_without_emulator() {
  if (errno == EBADF || errno == ENOTSOCK)
    leave("the program closed a descriptor that is not its own, by which it reaches the emulator");
  _exit(NO_EMULATOR);
}

bool send_all(const void* data, size_t size) {
  auto at = static_cast<const char*>(data);
  while (size) {
    ssize_t sent = send(connection, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    at += sent, size -= sent;
  }
  return true;
}

bool receive_all(void* data, size_t size) {
  auto at = static_cast<char*>(data);
  while (size) {
    ssize_t got = recv(connection, at, size, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    at += got, size -= got;
  }
  return true;
}

struct sigaction of_program {};  // its handler of faults

// The host touches pages that were closed to it, or memory that cudaMalloc made: a fault on a GPU as
// well.
void touched(int number, siginfo_t* info, void* context) {
  auto address = reinterpret_cast<uint64_t>(info->si_addr);
  const auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  constexpr long long BY_WRITE = 2;  // of the processor's code for a page fault
  if (host_touched(address, registers[REG_ERR] & BY_WRITE, uint64_t(registers[REG_RIP])))
    return;
  if (is_device_address(address)) {
    struct {
      uint32_t request, size;
      Note note;
    } message{static_cast<uint32_t>(Request::NOTE), sizeof(Note),
              {Noted::HOST_ACCESS, 0, address, 0, {0, 0}}};
    send_all(&message, sizeof message);
  }
  if (of_program.sa_flags & SA_SIGINFO)
    of_program.sa_sigaction(number, info, context);
  else if (of_program.sa_handler != SIG_DFL && of_program.sa_handler != SIG_IGN)
    of_program.sa_handler(number);
  else
    signal(number, SIG_DFL);  // the instruction is tried again, and ends the process by the signal
}

// A handler of the program's own, made since, is called behind ours: else it would hide what the host
// touches.
void handle_faults() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == touched)
    return;
  of_program = now;
  now.sa_flags |= SA_SIGINFO;
  now.sa_sigaction = touched;
  sigaction(SIGSEGV, &now, nullptr);
}

void in_forked_child() {
  process().forked = true;
  close(connection);
  connection = -1;
}

void* map_shared(int file, uint64_t span, void* at, int protection, int flags) {
  return mmap(at, span, protection, MAP_SHARED | MAP_NORESERVE | flags, file, 0);
}

// Where the executable's addresses begin: what its debug information counts from.
uint64_t loaded_at() {
  uint64_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<uint64_t*>(out) = info->dlpi_addr;
        return 1;  // the executable comes first
      },
      &base);
  return base;
}

struct Start {
  Start() {
    const char* said = getenv(VARIABLE_NAME);
    int memory = -1, marks = -1;
    unsigned long long span = 0;
    if (!said || sscanf(said, "%d,%d,%d,%llu", &connection, &memory, &marks, &span) != 4)
      leave("this program is linked with the emulator's CUDA runtime: start it with `kernelrig run`");
    unsetenv(VARIABLE_NAME);
    fcntl(connection, F_SETFD, FD_CLOEXEC);
    Process& p = process();
    p.span = span;
    auto base = reinterpret_cast<void*>(DEVICE_BASE);
    void* mapped = map_shared(memory, span, base, PROT_NONE, MAP_FIXED_NOREPLACE);
    if (mapped != base)
      leave("the addresses of device memory are taken in this process");
    int both = PROT_READ | PROT_WRITE;
    p.view = static_cast<uint8_t*>(map_shared(memory, span, nullptr, both, 0));
    p.marks = static_cast<uint8_t*>(map_shared(marks, span, nullptr, both, 0));
    if (p.view == MAP_FAILED || p.marks == MAP_FAILED)
      leave("device memory cannot be mapped");
    close(marks);
    p.memory_file = memory;
    fcntl(memory, F_SETFD, FD_CLOEXEC);
    pthread_atfork(nullptr, nullptr, in_forked_child);
    handle_faults();
    Answer hello = ask(Request::HELLO, packed(loaded_at()));
    p.device = unpacked<Device>(hello.data);
    for (int i = 0; i < p.device.attributes; i++) {
      size_t at = sizeof(Device) + 8 * i;
      p.attributes[unpacked<int32_t>(hello.data, at)] = unpacked<int32_t>(hello.data, at + 4);
    }
  }
} start __attribute__((init_priority(200)));

struct Search {
  Callers found{};  // `at` is what is looked for
  size_t behind = 0;
  bool reached = false;
};

_Unwind_Reason_Code look(_Unwind_Context* frame, void* out) {
  auto* search = static_cast<Search*>(out);
  uint64_t at = _Unwind_GetIP(frame);
  if (search->reached) {
    if (search->behind == std::size(search->found.behind))
      return _URC_END_OF_STACK;
    search->found.behind[search->behind++] = at;
  }
  if (at == search->found.at)
    search->reached = true;
  return _URC_NO_REASON;
}

}  // namespace

Callers callers_of(const void* caller) {
  Search search;
  search.found.at = reinterpret_cast<uint64_t>(caller);
  _Unwind_Backtrace(look, &search);
  return search.found;
}

Process& process() {
  static Process* one = new Process;  // never freed: destructors of the program may still call
  return *one;
}

// A forked process has no emulator. On a GPU it has CUDA where it was forked before the first call:
// the emulator hears of that by a mark where nothing is ever allocated, as a child that fails unheard
// must not look like one whose kernels were observed.
cudaError_t refused_to_child() {
  if (!process().called)
    process().marks[0] = 1;
  return cudaErrorInitializationError;
}

Answer ask(Request request, const std::string& body) {
  Process& p = process();
  std::lock_guard held(p.lock);
  if (p.forked)
    return {refused_to_child(), ""};
  handle_faults();
  uint32_t head[2] = {static_cast<uint32_t>(request), static_cast<uint32_t>(body.size())};
  uint32_t answer[2];
  if (!send_all(head, sizeof head) || !send_all(body.data(), body.size()) ||
      !receive_all(answer, sizeof answer))
    end_without_emulator();
  Answer got{static_cast<cudaError_t>(answer[0]), std::string(answer[1], '\0')};
  if (!receive_all(got.data.data(), got.data.size()))
    _exit(NO_EMULATOR);
  return got;
}

cudaError_t finished(const char* call, cudaError_t code, const void* caller) {
  Process& p = process();
  if (p.forked)
    code = refused_to_child();
  else
    p.called = true, handle_faults();
  if (p.failing) {  // a launch returns before its kernel fails
    p.sticky = p.failing;
    p.failing = cudaSuccess;
    return code;
  }
  if (code == cudaSuccess && p.sticky != cudaSuccess)
    code = p.sticky;
  if (code == cudaSuccess || code == cudaErrorNotReady)
    return code;
  last_error = code;
  if (!p.forked) {
    std::lock_guard held(p.lock);
    bool refused = !p.refusal.empty();
    bool copy = !refused && !p.sticky && is_refused_copy(call, code);
    Noted kind = refused ? Noted::REFUSED_LAUNCH : copy ? Noted::REFUSED_COPY : Noted::FAILED_CALL;
    Note note{kind, static_cast<uint32_t>(code), 0, 0, callers_of(caller)};
    std::string text = refused ? p.refusal + ": " : std::string(call) + " returned ";
    ask(Request::NOTE, packed(note) + text + error_name(code));
    if (refused || copy)
      refused_with.insert(code);
    p.refusal.clear();
  }
  return code;
}

void error_was_read(cudaError_t code) {
  Process& p = process();
  if (!refused_with.count(code) || p.forked)
    return;
  refused_with.clear();
  ask(Request::NOTE, packed(Note{Noted::ERROR_READ, static_cast<uint32_t>(code), 0, 0, {0, 0}}));
}

void note_failed(const std::string& what, int code, const void* caller) {
  if (!process().forked)
    ask(Request::NOTE, packed(Note{Noted::FAILED_CALL, static_cast<uint32_t>(code), 0, 0,
                                   callers_of(caller)}) +
                           what);
}

void unsupported(const std::string& what, const void* caller) {
  Note note{Noted::UNSUPPORTED, 0, 0, 0, callers_of(caller)};
  ask(Request::NOTE, packed(note) + what);  // it ends the connection: the process ends in there
  leave(what.c_str());
}

}  // namespace cudart

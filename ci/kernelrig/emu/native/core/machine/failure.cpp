// Exceptions that leave the core: above it is the C of Python, where no one catches them.
#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <typeinfo>

namespace emu {
namespace {

constexpr int OUT_OF_MEMORY = 86;  // as in library.py: the parent process says it in words

std::terminate_handler before;

[[noreturn]] void end_process() {
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  if (thrown && *thrown == typeid(std::bad_alloc)) _exit(OUT_OF_MEMORY);
  before();  // says what was thrown, and aborts
  std::abort();
}

const bool installed = (before = std::set_terminate(end_process), true);

}  // namespace
}  // namespace emu

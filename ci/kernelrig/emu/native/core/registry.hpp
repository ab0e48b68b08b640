// The handlers of instructions, by name: what `Step.native` says in Python.
//
// How it works. Each file that has handlers registers them itself, by a constant of namespace scope:
//
//     namespace emu { namespace {
//     template <class T> Result add(Context& context, const Instruction& instruction) { ... }
//     const Handlers handlers{{"add.u32", add<uint32_t>}, {"add.u64", add<uint64_t>}};
//     }}
//
// Functions of one lane are registered by the templates of lanes.hpp, which make their names.
// A new file needs no line elsewhere: core_build.py compiles every .cpp of this folder and below, those
// of one folder together: the constant is called FILE_handlers there.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "core.hpp"

namespace emu {

struct NamedHandler {
  std::string name;
  Handler run;
};

using NamedHandlers = std::vector<NamedHandler>;

// Registers handlers as the library is loaded. A name that is taken is kept for `core_duplicate`.
struct Handlers {
  Handlers(std::initializer_list<NamedHandler> named);
  explicit Handlers(const NamedHandlers& named);
};

// The handler of a number that `core_find` gave.
Handler handler(int number);

// Registers who may run instructions that wait, by the names of their handlers.
struct NamedCondition {
  std::string name;
  Condition asks;
};
struct Conditions {
  Conditions(std::initializer_list<NamedCondition> named);
};

// The condition of a handler, null for none.
Condition condition(int number);

}  // namespace emu

extern "C" {

// The number of a handler, -1 where there is none of that name.
int core_find(const char* name);

// Name the handlers: `number` from 0 on, null behind the last.
const char* core_handler_name(int number);

// A name that was registered twice, null if there is none.
const char* core_duplicate();

// The instruction that `core_apply` runs: operands are the results, then what is read.
struct Applied {
  int handler;
  int outs, ins;
  const int32_t* operands;
  const int64_t* immediates;
  const uint8_t* constants;
  uint8_t* files;       // the register files of the rows, one behind the other
  int64_t file_bytes;   // of each
  const uint32_t* lanes;  // of each row, which is the warp of that number
  int rows;
  emu::Memory* memory;  // null for instructions that need none
  int at;
  int elected;
};

// Run one handler of a plain instruction (one that needs no more of the machine than its operands)
// on the rows given, and return its result: what tests compare with the Python step.
int core_apply(const Applied* applied);
}

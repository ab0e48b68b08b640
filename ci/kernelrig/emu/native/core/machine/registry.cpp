#include "registry.hpp"

#include "machine.hpp"

#include <string>
#include <unordered_map>

namespace emu {
namespace {

struct Registry {
  std::vector<NamedHandler> handlers;
  std::unordered_map<std::string, int> numbers;
  std::unordered_map<std::string, Condition> conditions;
  std::string duplicate;
};

// Made on first use: the constants that register handlers are initialised in any order.
Registry& registry() {
  static Registry made;
  return made;
}

}  // namespace

Handlers::Handlers(std::initializer_list<NamedHandler> named)
    : Handlers(NamedHandlers(named)) {}

Handlers::Handlers(const NamedHandlers& named) {
  Registry& known = registry();
  for (const NamedHandler& one : named) {
    if (!known.numbers.emplace(one.name, int(known.handlers.size())).second)
      known.duplicate = one.name;
    known.handlers.push_back(one);
  }
}

Conditions::Conditions(std::initializer_list<NamedCondition> named) {
  for (const NamedCondition& one : named)
    registry().conditions.emplace(one.name, one.asks);
}

Condition condition(int number) {
  const auto& known = registry().conditions;
  const auto found = known.find(registry().handlers[size_t(number)].name);
  return found == known.end() ? nullptr : found->second;
}

Handler handler(int number) { return registry().handlers[size_t(number)].run; }

}  // namespace emu

extern "C" {

int core_find(const char* name) {
  const auto& numbers = emu::registry().numbers;
  const auto found = numbers.find(name);
  return found == numbers.end() ? -1 : found->second;
}

const char* core_handler_name(int number) {
  const auto& handlers = emu::registry().handlers;
  return number >= 0 && size_t(number) < handlers.size() ? handlers[size_t(number)].name.c_str()
                                                         : nullptr;
}

const char* core_duplicate() {
  const std::string& name = emu::registry().duplicate;
  return name.empty() ? nullptr : name.c_str();
}

int core_apply(const Applied* applied) {
  using namespace emu;
  // A machine of which nothing is made: a plain handler looks at what it shares with Python alone.
  alignas(Core) static unsigned char no_machine[sizeof(Core)];
  reinterpret_cast<Core&>(no_machine).shared.elected = applied->elected;
  Batch batch{};
  std::vector<Row> rows;
  for (int row = 0; row < applied->rows; row++) {
    batch.warps.push_back(row);
    batch.lanes.push_back(applied->lanes[row]);
    if (applied->lanes[row])
      rows.push_back({applied->files + row * applied->file_bytes, applied->lanes[row], row, row});
  }
  Context context{reinterpret_cast<Core&>(no_machine), batch, applied->constants, rows.data(),
                  int(rows.size()), applied->memory};
  const Instruction instruction{handler(applied->handler), applied->at, NO_GUARD, false,
                                uint8_t(applied->outs), uint8_t(applied->ins), applied->operands,
                                applied->immediates};
  return instruction.run(context, instruction);
}
}

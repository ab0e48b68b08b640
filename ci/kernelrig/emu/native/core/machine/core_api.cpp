// The functions that Python calls, through ctypes: core_calls.py declares them.
#include "machine.hpp"
#include "memory.hpp"
#include "registry.hpp"

#include <algorithm>
#include <cstring>

using namespace emu;

extern "C" {

// One instruction as encode.py writes it. `handler`: a number of the registry, or one of these.
enum : int32_t { PYTHON = -1, CHECK = -2, LOOK = -3 };

struct InstructionWords {
  int32_t handler, at, guard, negated, effect, outs, ins, operands, immediates, sets, setting,
      behind;
};

struct SegmentWords {
  int32_t first, last, end, reconvergence, condition, collective, waits;
  int32_t guard, guard_checked, guard_negated, leaves, leaves_checked, leaves_negated;
  int32_t code, code_count, targets, target_count, sets, set_count, asking, asking_count;
  int32_t naming, naming_count;
};

// A program as encode.py writes it: tables of words, those above refer into the others.
struct ProgramWords {
  const SegmentWords* segments;
  int64_t segment_count;
  const InstructionWords* code;
  const int32_t* targets;
  const int32_t* operands;
  int64_t operand_count;
  const int64_t* immediates;
  int64_t immediate_count;
  const int32_t* sets;
  int64_t set_count;
  const uint8_t* constants;
  int64_t constant_bytes;
  int64_t registers;
};

static Instruction instruction_of(const Core& core, const InstructionWords& word) {
  Instruction made{};
  made.run = word.handler == PYTHON  ? python_step
             : word.handler == CHECK ? check_register
             : word.handler == LOOK  ? check_lanes
                                     : handler(word.handler);
  made.at = word.at;
  made.guard = word.guard;
  made.negated = word.negated;
  made.outs = uint8_t(word.outs);
  made.ins = uint8_t(word.ins);
  made.operands = core.operands.data() + word.operands;
  made.immediates = core.immediates.data() + word.immediates;
  made.effect = word.effect;
  made.sets = core.sets.data() + word.sets;
  made.setting = word.setting;
  made.behind = word.behind;
  return made;
}

Core* core_new(const ProgramWords* words) {
  Core* core = new Core;
  core->registers = int(words->registers);
  core->operands.assign(words->operands, words->operands + words->operand_count);
  core->immediates.assign(words->immediates, words->immediates + words->immediate_count);
  core->sets.assign(words->sets, words->sets + words->set_count);
  core->constants.assign(words->constants, words->constants + words->constant_bytes);
  for (int64_t n = 0; n < words->segment_count; n++) {
    const SegmentWords& one = words->segments[n];
    Segment made;
    made.first = one.first;
    made.last = one.last;
    made.end = End(one.end);
    made.targets.assign(words->targets + one.targets,
                        words->targets + one.targets + one.target_count);
    made.reconvergence = one.reconvergence;
    made.condition = one.condition;
    made.collective = Collective(one.collective);
    made.waits = one.waits;
    made.guard = {one.guard, one.guard_checked, one.guard_negated != 0};
    made.leaves = {one.leaves, one.leaves_checked, one.leaves_negated != 0};
    made.sets.assign(core->sets.begin() + one.sets, core->sets.begin() + one.sets + one.set_count);
    for (int32_t at = one.code; at < one.code + one.code_count; at++)
      made.code.push_back(instruction_of(*core, words->code[at]));
    // The last one of those that make a question is the question.
    for (int32_t at = one.asking; at < one.asking + one.asking_count; at++)
      made.asking.push_back(instruction_of(*core, words->code[at]));
    if (one.asking_count) {
      made.may_pass = condition(words->code[one.asking + one.asking_count - 1].handler);
      made.question = made.asking.back();
      made.asking.pop_back();
    }
    // The last one of those that make member masks only says where they are.
    for (int32_t at = one.naming; at < one.naming + one.naming_count; at++)
      made.naming.push_back(instruction_of(*core, words->code[at]));
    if (one.naming_count) {
      made.members = made.naming.back().operands[0];
      made.naming.pop_back();
    }
    core->segments.push_back(std::move(made));
  }
  return core;
}

void core_callbacks(Core* core, const Callbacks* callbacks) { core->call = *callbacks; }

void core_delete(Core* core) { delete core; }

Shared* core_shared(Core* core) { return &core->shared; }

void core_policy(Core* core, int kind) { core->policy.kind = Kind(kind); }

void core_progress(Core* core, int64_t* cells) { core->progress = cells; }

// The state of the generator: 624 words and the position.
void core_set_random(Core* core, const uint32_t* state) { core->random.set(state); }
void core_get_random(Core* core, uint32_t* state) { core->random.get(state); }
uint32_t core_random_word(Core* core) { return core->random.word(); }
double core_random_uniform(Core* core) { return core->random.uniform(); }

// The memory of the machine, which Python keeps.
void core_memory(Core* core, Memory* memory) {
  core->memory = memory;
  memory->draw = [](Context& context, int64_t n) { return context.core.random.below(n); };
}

// A wave of `count` warps. The arrays stay Python's: `files` has `file_bytes` a warp.
void core_start(Core* core, int count, const int64_t* slot_of, Mask* alive, uint8_t* files,
                int64_t file_bytes, int64_t* visits) {
  core->slot_of = slot_of;
  core->alive = alive;
  core->files = files;
  core->file_bytes = file_bytes;
  core->visits = visits;
  std::vector<int32_t> warps;
  std::vector<Mask> lanes;
  for (int32_t warp = 0; warp < count; warp++) {
    warps.push_back(warp);
    lanes.push_back(alive[warp]);
  }
  core->start(warps.data(), lanes.data(), count);
}

// By number of a register and warp, the lanes that have not written it: Python's too.
void core_unwritten(Core* core, Mask* left) { core->unwritten = left; }

// What instructions Python is told of: native/followed_registers.py.
void core_follow(Core* core, int how, const uint64_t* holding, int64_t words, const int32_t* starts,
                 const int32_t* touched, const uint64_t* dead) {
  core->shared.following = how;
  core->followed = {holding, words, starts, touched, dead};
}

void core_run(Core* core) { core->run(); }

// The keys under which `ready` lets warps wait.
void core_blocked(Core* core, const int64_t* keys, int count) {
  core->blocked_by.assign(keys, keys + count);
}

void core_wake(Core* core, int64_t key) { core->wake(key); }

int64_t core_issue(Core* core, int at, int64_t stream, int leaves_stream, int64_t clock) {
  Op* op = core->make_op();
  op->python = true;
  op->at = at;
  op->stream = stream;
  op->leaves_stream = leaves_stream;
  op->clock = clock;
  core->issue(op);
  return op->id;
}

void core_set_leaves_stream(Core* core, int64_t op) { core->ops.at(op)->leaves_stream = true; }
void core_leave_stream(Core* core, int64_t op) { core->leave_stream(*core->ops.at(op)); }
void core_finish(Core* core, int64_t op) { core->finish(*core->ops.at(op)); }

// Lists for reports: up to `limit` entries, the number of all is returned.
int64_t core_parked(Core* core, Batch** into, int64_t limit) {
  std::vector<const Parked*> keys;
  for (const auto& one : core->parked)
    keys.push_back(&one.second);
  std::sort(keys.begin(), keys.end(),
            [](const Parked* a, const Parked* b) { return a->order < b->order; });
  std::vector<Batch*> found;
  for (const Parked* one : keys)
    for (Batch* batch : one->batches)
      if (batch->view.keys && std::find(found.begin(), found.end(), batch) == found.end())
        found.push_back(batch);
  std::copy_n(found.begin(), std::min(int64_t(found.size()), limit), into);
  return int64_t(found.size());
}

int64_t core_waiters(Core* core, Batch** into, int64_t limit) {
  int64_t count = 0;
  for (const Waiter& one : core->waiters)
    if (count++ < limit)
      into[count - 1] = one.batch;
  return count;
}

// Lets a batch that waits for other lanes go on behind the instruction.
void core_pass(Core* core, Batch* batch) {
  auto& waiters = core->waiters;
  waiters.erase(std::find_if(waiters.begin(), waiters.end(),
                             [batch](const Waiter& one) { return one.batch == batch; }));
  batch->segment()++;
  core->ready.push_back(batch);
}

int64_t core_ready(Core* core, Batch** into, int64_t limit) {
  std::copy_n(core->ready.begin(), std::min(int64_t(core->ready.size()), limit), into);
  return int64_t(core->ready.size());
}

// Segments that a warp has run, as far as its turns show: at least so many.
int64_t core_segments_run(Core* core, int warp) {
  const Policy& policy = core->policy;
  return policy.used_up[size_t(warp)] * (TURN >> SHORTEN) + policy.yielded[size_t(warp)];
}

int core_point_segment(const Point* point) { return point->segment; }

int64_t core_point_missing(const Point* point, int32_t* warps, Mask* lanes, int64_t limit) {
  int64_t count = 0;
  for (const auto& [warp, missing] : point->missing)
    if (count++ < limit) {
      warps[count - 1] = warp;
      lanes[count - 1] = missing;
    }
  return count;
}
}

// The race detector as plain functions, for ctypes (native/races.py). Whoever calls checks that
// numbers of warps and operations are those of the run.
#include "races.hpp"

using emu::Threads;
using namespace emu::races;

extern "C" {

// Who accessed, for a report.
struct RacesActor {
  int32_t operation;  // its number, -1 of a warp
  int32_t cluster, cluster_lanes, column, cta, number, place_cta, place_warp, at;
  int32_t asynchronous, by_lanes;
  uint32_t bits;
  const char* name;
};

void* races_new(Report report, void* user) { return new Races(report, user); }
void races_free(Races* races) { delete races; }
void races_started(Races* races, const Started* wave) { races->started(*wave); }

const void* races_name(const char* text) { return interned(text); }

void races_accessed(Races* races, const Threads* threads, size_t count, int at, int space,
                    const int64_t* flat, int size, int flags, int sem, int level,
                    const int32_t* turns, size_t turn_count) {
  races->accessed(threads, count, at, space, flat,
                  {size, bool(flags & 1), bool(flags >> 1 & 1), sem, level, bool(flags >> 2 & 1),
                   turns, turn_count, bool(flags >> 3 & 1)});
}

void races_op_accessed(Races* races, int64_t op, int space, const int64_t* starts, size_t count,
                       int size, int write, int swizzle) {
  races->op_accessed(op, space, starts, count, size, write, swizzle);
}

void races_op_tensor(Races* races, int64_t op, const int32_t* piece, int write) {
  races->op_tensor(op, {piece[0], piece[1], piece[2], piece[3], piece[4]}, write);
}

int64_t races_op_issued(Races* races, const int32_t* warps, size_t count, int lane,
                        uint32_t by_lanes, int at, const void* name, int generic) {
  return races->op_issued(warps, count, lane, by_lanes, at, static_cast<const Name*>(name),
                          generic);
}

void races_copies_arrived(Races* races, const int64_t* ops, size_t count, uint32_t lanes,
                          int64_t place, int64_t barrier, int64_t phase) {
  races->copies_arrived(ops, count, lanes, place, barrier, phase);
}

void races_op_done(Races* races, int64_t op) { races->op_done(op); }

void races_op_arrived(Races* races, int64_t op, int64_t place, int64_t barrier, int64_t phase,
                      int bytes) {
  races->op_arrived(op, place, barrier, phase, bytes);
}

void races_arrived(Races* races, const Threads* threads, size_t count, int64_t place,
                   int64_t barrier, int64_t phase, int sem, int level) {
  races->arrived(threads, count, place, barrier, phase, sem, level);
}

void races_waited(Races* races, const Threads* threads, size_t count, int64_t place,
                  int64_t barrier, int64_t phase, int sem, int level) {
  races->waited(threads, count, place, barrier, phase, sem, level);
}

void races_barrier_arrived(Races* races, const Threads* threads, size_t count, int64_t instance,
                           int sem, int level) {
  races->barrier_arrived(threads, count, instance, sem, level);
}

void races_barrier_passed(Races* races, const Threads* threads, size_t count, int64_t instance,
                          int sem, int level) {
  races->barrier_passed(threads, count, instance, sem, level);
}

void races_warp_synced(Races* races, const Threads* threads, size_t count) {
  races->warp_synced(threads, count);
}

void races_fenced(Races* races, const Threads* threads, size_t count, int sem, int level) {
  races->fenced(threads, count, sem, level);
}

void races_proxy_fenced(Races* races, const Threads* threads, size_t count, int space) {
  races->proxy_fenced(threads, count, space);
}

void races_tensor_fenced(Races* races, const Threads* threads, size_t count, int before) {
  races->tensor_fenced(threads, count, before);
}

void races_tensor_waited(Races* races, const Threads* threads, size_t count, const int64_t* ops,
                         size_t waited) {
  races->tensor_waited(threads, count, ops, waited);
}

void races_group_waited(Races* races, int warp, uint32_t lanes, const int64_t* ops, size_t waited,
                        int read) {
  races->group_waited(warp, lanes, ops, waited, read);
}

// For reports. `races_records`: where the records lie, and how many there are.
const Record* races_records(const Races* races, int64_t* count) {
  *count = int64_t(races->records().all.size());
  return races->records().all.data();
}

void races_actor(const Actor* actor, RacesActor* out) {
  *out = {-1,
          actor->cluster->number,
          actor->cluster->lanes,
          actor->column,
          actor->cta,
          actor->number,
          actor->place_cta,
          actor->place_warp,
          -1,
          0,
          0,
          emu::ALL,
          ""};
  if (!actor->is_operation) return;
  const auto& operation = static_cast<const Operation&>(*actor);
  out->operation = operation.id;
  out->at = operation.at;
  out->asynchronous = operation.asynchronous;
  out->by_lanes = operation.by_lanes;
  out->bits = operation.bits;
  out->name = operation.name->text.c_str();
}

// Writes what the access under way knows of a cluster to `out`, rows by columns of zeros, which may
// be null; returns how many columns that takes, -1 where it knows nothing.
int races_known(const Races* races, int32_t cluster, int32_t* out, int columns) {
  const Clock* clock = races->known(cluster);
  if (!clock) return -1;
  int widest = 0;
  for (int row = 0; row < ROWS; ++row) {
    const RowRef& held = clock->rows[row];
    if (!held) continue;
    widest = held->size > widest ? held->size : widest;
    for (int column = 0; out && column < held->size && column < columns; ++column)
      out[row * columns + column] = held->times()[column];
  }
  return widest;
}
}

// The observer of published mbarriers as plain functions, for ctypes (native/publication.py).
#include "../sync/sync.hpp"
#include "publication.hpp"

using namespace emu;

extern "C" {

// Watch the wave that is about to run.
void publication_started(Core* core, Publication::Report report) {
  core->sync->publication = std::make_shared<Publication>(core->slot_of, report);
  core->sync->memory.publication = core->sync->publication.get();
}

void publication_published(Core* core, const Threads* threads, size_t count) {
  core->sync->publication->published(threads, count);
}

void publication_proxy_fenced(Core* core, const Threads* threads, size_t count) {
  core->sync->publication->proxy_fenced(threads, count);
}

void publication_barrier_arrived(Core* core, const Threads* threads, size_t count,
                                 int64_t instance, int sem) {
  core->sync->publication->barrier_arrived(threads, count, instance, sem);
}

void publication_barrier_passed(Core* core, const Threads* threads, size_t count,
                                int64_t instance) {
  core->sync->publication->barrier_passed(threads, count, instance);
}

void publication_fenced(Core* core, const Threads* threads, size_t count, int sem, int level) {
  core->sync->publication->fenced(threads, count, sem, level);
}

void publication_offers(Core* core, const Threads* threads, size_t count) {
  core->sync->publication->offers(threads, count);
}

void publication_takes(Core* core, const Threads* threads, size_t count) {
  core->sync->publication->takes(threads, count);
}

void publication_waited(Core* core, const Threads* threads, size_t count, const Barrier* barrier,
                        int sem, int level, int at) {
  core->sync->publication->waited(threads, count, *barrier, sem, level, at);
}

void publication_arrived(Core* core, const Threads* threads, size_t count, const Barrier* barrier,
                         int sem, int level, int at) {
  core->sync->publication->arrived(threads, count, *barrier, sem, level, at);
}

void publication_op_arrived(Core* core, int64_t op, int warp, const Barrier* barrier, int bytes) {
  core->sync->publication->op_arrived(op, warp, *barrier, bytes);
}
}

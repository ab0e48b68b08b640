// What fences, waits and the issue of operations change in what threads know: views to views, as
// kernelrig.emu.observe.view_changes says.
#pragma once

#include "release_acquire.hpp"

namespace emu::races {

// fence.proxy.async of which space: all, shared memory, global memory.
enum Proxied : int { PROXY_ALL, PROXY_SHARED, PROXY_GLOBAL };

void acquire_fence(Warp& warp, Mask bits, int level);
void sequential_fence(Warp& warp, Mask bits);
void release_fence(Warp& warp, Mask bits, int level, bool sequential);
void proxy_fence(Warp& warp, Mask bits, int space);
void before_thread_sync(Warp& warp, Mask bits);
void after_thread_sync(Warp& warp, Mask bits);
// A wait_group returned: all of the operations, or their reads (PTX ISA 9.7.9.27.2).
void complete(Warp& warp, Mask bits, const std::vector<Operation*>& operations, bool read);
// Fills in the actor of an operation that `warps` issued, by one lane or (-1) all of them as one.
void issue(Operation& operation, const std::vector<Warp*>& warps, int lane, bool generic);
// The same of one that `lanes` of a warp issued each for itself.
void issue_by_lanes(Operation& operation, Warp& warp, Mask lanes);

}  // namespace emu::races

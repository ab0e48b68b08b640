// What the host's own instructions do to memory that it shares with kernels, while CUDA still works on
// it: pages all of whose bytes are being written are closed to the host, and those all of whose bytes
// are being accessed are closed to its writes. What it does there comes as SIGSEGV, is compared as any
// other access, and goes on. A page that has other bytes too stays open: a system call that is given
// closed memory fails, and a right program must see nothing of this.
#pragma once

#include "order.hpp"

namespace cudart {

// Closes and opens the pages of the allocation that is there, by what is not complete for the host.
void watch_pages(uint64_t address);
// Opens what has become complete, everywhere.
void watch_less();
void stop_watching(uint64_t allocation);
// Whether an instruction at `at` of the host's hit a page that was closed: it may be tried again.
bool host_touched(uint64_t address, bool write, uint64_t at);

}  // namespace cudart

// What a clock of a trace build records, for the device that writes it and the host that reads it.
// Plain C++.
#pragma once

namespace kernelrig {

// A record: CTA << 32 | SM, how often mark() was called, the time of start(), and for each mark that
// is kept two words, the phase and the time at which it ended. Times are %globaltimer's.
constexpr int TRACE_HEAD = 3;

constexpr int record_words(int marks) { return TRACE_HEAD + 2 * marks; }

// One role of a row of phase_clocks: the records lie behind the phases, in the order of the roles.
// Its phases are those of the kernel from `first_phase` on.
struct TraceRole {
  int first_phase, marks;
};

} // namespace kernelrig

// What the clocks of a trace build recorded (trace_role.cuh), for the result file. Plain C++, a
// function of the words of phase_clocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "json.cuh"
#include "phase_table.cuh"
#include "trace_role.cuh"

namespace kernelrig {

// Of one role in one row: a kernel wrote it, so that nothing in it is sure.
struct TracedClock {
  int row = 0;
  size_t first_phase = 0;
  unsigned long long place = 0, marked = 0, start = 0; // CTA << 32 | SM; calls of mark()
  std::vector<std::pair<unsigned long long, unsigned long long>> marks; // phase, its end
};

struct PhaseTrace {
  std::vector<std::string> phases;
  std::vector<TracedClock> clocks;
};

constexpr size_t MOST_TRACED_CLOCKS = 16384;

// Records whose head was never written are left out, and what comes after the most that are kept.
inline PhaseTrace read_trace(const std::vector<Cycles> &words, int rows,
                             const std::vector<std::string> &phases,
                             const std::vector<TraceRole> &roles) {
  PhaseTrace trace{phases, {}};
  const size_t wide = rows == 0 ? 0 : words.size() / rows;
  for (int row = 0; row < rows; ++row) {
    const Cycles *record = words.data() + row * wide + phases.size();
    for (const TraceRole &role : roles) {
      const Cycles *const head = record;
      record += record_words(role.marks);
      if (head[0] == UNWRITTEN || trace.clocks.size() == MOST_TRACED_CLOCKS)
        continue;
      TracedClock clock;
      clock.row = row;
      clock.first_phase = role.first_phase;
      clock.place = head[0];
      clock.marked = head[1];
      clock.start = head[2];
      const size_t kept = std::min<Cycles>(clock.marked, role.marks);
      for (size_t i = 0; i < kept; ++i)
        clock.marks.push_back({head[TRACE_HEAD + 2 * i], head[TRACE_HEAD + 2 * i + 1]});
      trace.clocks.push_back(std::move(clock));
    }
  }
  return trace;
}

// Times are from the earliest start on; one before it, which no sound clock has, is a huge number.
inline void append_trace(Json &json, const PhaseTrace &trace) {
  unsigned long long zero = trace.clocks.empty() ? 0 : trace.clocks.front().start;
  for (const TracedClock &clock : trace.clocks)
    zero = std::min(zero, clock.start);
  json.open('{').key("phases").open('[');
  for (const std::string &phase : trace.phases)
    json.value(phase);
  json.close(']').key("clocks").open('[');
  for (const TracedClock &clock : trace.clocks) {
    json.line().open('{').field("row", clock.row).field("first_phase", clock.first_phase);
    json.field("cta", clock.place >> 32).field("sm", clock.place & 0xFFFFFFFFu);
    json.field("marked", clock.marked).field("start", clock.start - zero).key("marks").open('[');
    for (const auto &[phase, end] : clock.marks)
      json.open('[').value(phase).value(end - zero).close(']');
    json.close(']').close('}');
  }
  json.close(']').close('}');
}

} // namespace kernelrig

// The cycles that a timing build recorded, and their statistics. Compiles as plain C++.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "json.cuh"

namespace kernelrig {

using Cycles = unsigned long long;

constexpr Cycles UNWRITTEN = ~0ull; // what memory is filled with before the launch

// `rows` times `names` cells; the kernel defines whether a row is a CTA or a tile.
struct PhaseTable {
  int rows = 0;
  std::vector<std::string> names;
  std::vector<Cycles> cycles; // row-major
  double launch_ms = 0.0;     // of the launch that wrote it; 0: not measured

  Cycles at(int row, size_t phase) const { return cycles[row * names.size() + phase]; }

  // Whether `count` neighbouring phases of the row were all written.
  bool has(int row, size_t phase, size_t count = 1) const {
    for (size_t i = phase; i < phase + count; ++i) {
      if (at(row, i) == UNWRITTEN)
        return false;
    }
    return true;
  }

  Cycles sum(int row, size_t phase, size_t count) const {
    Cycles total = 0;
    for (size_t i = phase; i < phase + count; ++i)
      total += at(row, i);
    return total;
  }
};

// The first columns of a table of `rows` rows.
inline std::vector<Cycles> first_columns(const std::vector<Cycles> &words, int rows,
                                         size_t columns) {
  const size_t wide = rows == 0 ? 0 : words.size() / rows;
  std::vector<Cycles> first;
  for (int row = 0; row < rows; ++row)
    first.insert(first.end(), words.begin() + row * wide, words.begin() + row * wide + columns);
  return first;
}

// One quantity over the rows that have it. p95 is the smallest value that at least 95% of them do
// not exceed.
struct Figures {
  std::string name;
  size_t rows = 0;
  double mean = std::numeric_limits<double>::quiet_NaN();
  Cycles min = 0, max = 0, p95 = 0;
};

inline Figures figures_of(std::string name, std::vector<Cycles> values) {
  Figures figures;
  figures.name = std::move(name);
  figures.rows = values.size();
  if (values.empty())
    return figures;
  std::sort(values.begin(), values.end());
  figures.mean = 0.0;
  for (const Cycles value : values)
    figures.mean += static_cast<double>(value) / static_cast<double>(values.size());
  figures.min = values.front();
  figures.max = values.back();
  figures.p95 = values[(values.size() * 95 + 99) / 100 - 1];
  return figures;
}

// Each phase over the rows whose cell was written.
inline std::vector<Figures> phase_figures(const PhaseTable &table) {
  std::vector<Figures> phases;
  for (size_t phase = 0; phase < table.names.size(); ++phase) {
    std::vector<Cycles> values;
    for (int row = 0; row < table.rows; ++row) {
      if (table.has(row, phase))
        values.push_back(table.at(row, phase));
    }
    phases.push_back(figures_of(table.names[phase], std::move(values)));
  }
  return phases;
}

// Without rows the figures are null, which differs from a phase that took 0 cycles.
inline void append_figures(Json &json, const Figures &figures) {
  json.open('{').field("name", figures.name).field("rows", figures.rows);
  json.field("mean_cycles", figures.mean);
  const std::pair<const char *, Cycles> rest[] = {
      {"min_cycles", figures.min}, {"max_cycles", figures.max}, {"p95_cycles", figures.p95}};
  for (const auto &[name, cycles] : rest) {
    json.key(name);
    figures.rows == 0 ? json.null() : json.value(cycles);
  }
  json.close('}');
}

#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
inline void
append_line(std::string &text, const char *format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  text += line;
  text += '\n';
}

// The report of a timing build whose kernel has no report of its own.
inline std::string phase_table_text(const PhaseTable &table) {
  const std::vector<Figures> phases = phase_figures(table);
  double total = 0.0;
  for (const Figures &phase : phases)
    total += phase.rows == 0 ? 0.0 : phase.mean;
  std::string text;
  append_line(text, "%-24s %14s %7s %14s %14s %14s   rows of %d", "phase", "mean cycles", "share",
              "min cycles", "p95 cycles", "max cycles", table.rows);
  for (const Figures &phase : phases) {
    if (phase.rows == 0) {
      append_line(text, "%-24s not recorded", phase.name.c_str());
      continue;
    }
    append_line(text, "%-24s %14.0f %6.1f%% %14llu %14llu %14llu %6zu", phase.name.c_str(),
                phase.mean, total > 0.0 ? 100.0 * phase.mean / total : 0.0, phase.min, phase.p95,
                phase.max, phase.rows);
  }
  return text;
}

} // namespace kernelrig

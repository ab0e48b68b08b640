// Where a tile's time goes in a warp-specialised kernel: W0 loads, W1 multiplies, the warps from W2
// on store the tile before. One row of the table is one tile. Plain C++, a function of the table.
//
// The phases, in this order: "W0: ring wait", "W0: issue", "W1: accumulator wait", "W1: stage-0
// wait", "W1: K loop", then for each epilogue warp "W2: accumulator wait", "W2: phase 1" (tensor
// memory to shared memory), "W2: phase 2" (shared memory to global memory).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "json.cuh"
#include "phase_table.cuh"

namespace kernelrig {

struct RoleCounts {
  int clusters = 0;
  int k_steps = 0;         // turns of the K loop in a tile
  int mmas_per_k_step = 0; // instructions issued in each
  int epilogue_warps = 0;
  // Each cluster's last tile: its epilogue runs with no product above it, so the epilogue's figures
  // leave it out.
  std::vector<int> last_rows;
};

constexpr size_t W0_PHASE = 0, W0_PHASES = 2;
constexpr size_t W1_PHASE = 2, W1_PHASES = 3;
constexpr size_t EPILOGUE_PHASE = 5, EPILOGUE_PHASES = 3;
constexpr double SYMMETRIC_BELOW_CYCLES = 200.0;

struct EpilogueWarp {
  Figures wait, phase_1, phase_2, total;
};

struct RoleFigures {
  RoleCounts counts;
  double sm_ghz = 0.0, launch_ms = 0.0;
  int tiles = 0;
  size_t loaded_tiles = 0, multiplied_tiles = 0, overlapped_tiles = 0;
  Figures ring_wait, issue, w0_total;
  Figures accumulator_wait, stage_0_wait, k_loop, w1_total;
  std::vector<EpilogueWarp> warps;
  Figures spread; // of phase 1 over the warps of one tile, slowest less fastest
  double spread_of_means = 0.0;

  bool is_symmetric() const { return spread_of_means < SYMMETRIC_BELOW_CYCLES; }
};

inline Figures figures_over(const PhaseTable &table, const std::vector<int> &rows,
                            const std::string &name, size_t phase, size_t count = 1) {
  std::vector<Cycles> values;
  for (const int row : rows)
    values.push_back(table.sum(row, phase, count));
  return figures_of(name, std::move(values));
}

inline std::vector<int> rows_with(const PhaseTable &table, size_t phase, size_t count) {
  std::vector<int> rows;
  for (int row = 0; row < table.rows; ++row) {
    if (table.has(row, phase, count))
      rows.push_back(row);
  }
  return rows;
}

inline Figures phase_1_spread(const PhaseTable &table, const std::vector<int> &rows,
                              const RoleCounts &counts) {
  std::vector<Cycles> spreads;
  for (const int row : rows) {
    Cycles fastest = UNWRITTEN, slowest = 0;
    for (int warp = 0; warp < counts.epilogue_warps; ++warp) {
      const Cycles cycles = table.at(row, EPILOGUE_PHASE + warp * EPILOGUE_PHASES + 1);
      fastest = std::min(fastest, cycles);
      slowest = std::max(slowest, cycles);
    }
    spreads.push_back(slowest - fastest);
  }
  return figures_of("epilogue: spread of phase 1", std::move(spreads));
}

inline RoleFigures role_figures(const PhaseTable &table, const RoleCounts &counts, double sm_ghz) {
  const size_t epilogue_phases = counts.epilogue_warps * EPILOGUE_PHASES;
  if (table.names.size() != EPILOGUE_PHASE + epilogue_phases || counts.epilogue_warps < 1) {
    throw std::invalid_argument("a report by role of " + std::to_string(counts.epilogue_warps) +
                                " epilogue warps cannot have " +
                                std::to_string(table.names.size()) + " phases");
  }
  RoleFigures roles;
  roles.counts = counts;
  roles.sm_ghz = sm_ghz;
  roles.launch_ms = table.launch_ms;
  roles.tiles = table.rows;
  const std::vector<int> loaded = rows_with(table, W0_PHASE, W0_PHASES);
  const std::vector<int> multiplied = rows_with(table, W1_PHASE, W1_PHASES);
  std::vector<int> overlapped;
  for (const int row : rows_with(table, EPILOGUE_PHASE, epilogue_phases)) {
    if (std::find(counts.last_rows.begin(), counts.last_rows.end(), row) == counts.last_rows.end())
      overlapped.push_back(row);
  }
  roles.loaded_tiles = loaded.size();
  roles.multiplied_tiles = multiplied.size();
  roles.overlapped_tiles = overlapped.size();
  const auto named = [&](const std::vector<int> &rows, size_t phase) {
    return figures_over(table, rows, table.names[phase], phase);
  };
  roles.ring_wait = named(loaded, W0_PHASE);
  roles.issue = named(loaded, W0_PHASE + 1);
  roles.w0_total = figures_over(table, loaded, "W0: total", W0_PHASE, W0_PHASES);
  roles.accumulator_wait = named(multiplied, W1_PHASE);
  roles.stage_0_wait = named(multiplied, W1_PHASE + 1);
  roles.k_loop = named(multiplied, W1_PHASE + 2);
  roles.w1_total = figures_over(table, multiplied, "W1: total", W1_PHASE, W1_PHASES);
  double lowest = HUGE_VAL, highest = 0.0;
  for (int warp = 0; warp < counts.epilogue_warps; ++warp) {
    const size_t phase = EPILOGUE_PHASE + warp * EPILOGUE_PHASES;
    const std::string total = "W" + std::to_string(2 + warp) + ": total";
    roles.warps.push_back({named(overlapped, phase), named(overlapped, phase + 1),
                           named(overlapped, phase + 2),
                           figures_over(table, overlapped, total, phase, EPILOGUE_PHASES)});
    lowest = std::min(lowest, roles.warps.back().phase_1.mean);
    highest = std::max(highest, roles.warps.back().phase_1.mean);
  }
  roles.spread = phase_1_spread(table, overlapped, counts);
  roles.spread_of_means = overlapped.empty() ? 0.0 : highest - lowest;
  return roles;
}

// --- for people ---------------------------------------------------------------------------------

// "    label:  cycles / ns  (share)"
inline void append_share(std::string &text, const RoleFigures &roles, const char *label,
                         double cycles, const std::string &note = "") {
  // a label's bytes are no measure of its width: the sign of multiplication has two
  int width = 25;
  for (const char *byte = label; *byte != '\0'; ++byte)
    width += (*byte & 0xC0) == 0x80;
  append_line(text, "    %-*s %6.0f cycles / %6.1f ns%s", width, label, cycles,
              cycles / roles.sm_ghz, note.c_str());
}

inline std::string percent(double part, double whole, const char *of = "") {
  char text[40];
  std::snprintf(text, sizeof text, "  (%.1f%%%s)", whole > 0.0 ? 100.0 * part / whole : 0.0, of);
  return text;
}

inline void append_range(std::string &text, const char *label, const Figures &figures) {
  char ratio[32] = "";
  if (figures.min > 0)
    std::snprintf(ratio, sizeof ratio, " (%.1fx spread)",
                  static_cast<double>(figures.max) / static_cast<double>(figures.min));
  append_line(text, "  %s range: min=%llu max=%llu%s", label, figures.min, figures.max, ratio);
}

// Opens a section; false where it has nothing to show.
inline bool append_heading(std::string &text, const RoleFigures &roles, const std::string &title,
                           size_t tiles, size_t wanted) {
  append_line(text, "%s=== %s%zu tiles across %d clusters) ===", text.empty() ? "" : "\n",
              title.c_str(), tiles, roles.counts.clusters);
  if (tiles < wanted)
    append_line(text, "  %zu tiles were not recorded and are left out", wanted - tiles);
  return tiles > 0;
}

inline void append_w0(std::string &text, const RoleFigures &roles) {
  if (!append_heading(text, roles, "W0 TIMING (clock64, ", roles.loaded_tiles, roles.tiles))
    return;
  const double total = roles.w0_total.mean;
  append_line(text, "  Per-tile averages (cycles / ns at %.1f GHz):", roles.sm_ghz);
  append_share(text, roles, "Ring wait:", roles.ring_wait.mean,
               percent(roles.ring_wait.mean, total));
  append_share(text, roles, "Issue:", roles.issue.mean, percent(roles.issue.mean, total));
  append_share(text, roles, "Total tile:", total);
  append_range(text, "Ring wait", roles.ring_wait);
  append_range(text, "Issue", roles.issue);
}

inline void append_w1(std::string &text, const RoleFigures &roles) {
  if (!append_heading(text, roles, "W1 TIMING (clock64, ", roles.multiplied_tiles, roles.tiles))
    return;
  const double overhead = roles.accumulator_wait.mean + roles.stage_0_wait.mean;
  const std::string k_loop = "K-loop (" + std::to_string(roles.counts.k_steps) + " ki × " +
                             std::to_string(roles.counts.mmas_per_k_step) + " MMA):";
  append_line(text, "  Per-tile averages (cycles / ns at %.1f GHz):", roles.sm_ghz);
  append_share(text, roles, "Epilogue mbar wait:", roles.accumulator_wait.mean);
  append_share(text, roles, "TMA stage-0 wait:", roles.stage_0_wait.mean);
  append_share(text, roles, k_loop.c_str(), roles.k_loop.mean);
  append_share(text, roles, "Total tile:", roles.w1_total.mean);
  append_share(text, roles, "Overhead (epi+tma0):", overhead,
               percent(overhead, roles.w1_total.mean, " of tile"));
  append_range(text, "K-loop", roles.k_loop);
  append_range(text, "Total tile", roles.w1_total);
  if (roles.launch_ms > 0.0) {
    append_line(text, "  Expected total cycles (wall clock): %.0f",
                roles.launch_ms * roles.sm_ghz * 1e6);
  }
}

inline void append_phase_1(std::string &text, const RoleFigures &roles, size_t wanted) {
  const int last = 1 + roles.counts.epilogue_warps;
  if (!append_heading(text, roles,
                      "EPILOGUE PER-WARP PHASE 1 TIMING (W2-W" + std::to_string(last) + ", ",
                      roles.overlapped_tiles, wanted))
    return;
  append_line(text, "  Per-warp Phase 1 (cycles):");
  for (int warp = 0; warp < roles.counts.epilogue_warps; ++warp) {
    const Figures &phase = roles.warps[warp].phase_1;
    // rg: the 32 lanes of tensor memory that the hardware lets a warp of this number read
    append_line(text, "    W%d (ew=%d, rg=%d):  avg=%.0f  min=%llu  max=%llu  p95=%llu", 2 + warp,
                warp, (2 + warp) % 4, phase.mean, phase.min, phase.max, phase.p95);
  }
  append_line(text, "  Spread of per-warp averages: %.0f cycles (max_avg - min_avg)",
              roles.spread_of_means);
  append_line(text, "  Inter-warp spread per tile (max-min Phase 1 across warps):");
  append_line(text, "    Average: %.0f cycles", roles.spread.mean);
  append_line(text, "    Min: %llu  Max: %llu  P95: %llu cycles", roles.spread.min,
              roles.spread.max, roles.spread.p95);
  append_line(text, "  => %s (avg spread %.0f %s %.0f cyc): %s",
              roles.is_symmetric() ? "SYMMETRIC" : "ASYMMETRIC", roles.spread_of_means,
              roles.is_symmetric() ? "<" : ">=", SYMMETRIC_BELOW_CYCLES,
              roles.is_symmetric() ? "no warp is slower by its place"
                                   : "some warps are slower by their place: a queue or a bank");
}

// The second epilogue warp stands for all: the first one carries the staggered start's zero delay.
inline void append_epilogue(std::string &text, const RoleFigures &roles, size_t wanted) {
  const int shown = roles.counts.epilogue_warps > 1 ? 1 : 0;
  if (!append_heading(text, roles,
                      "EPILOGUE PHASE TIMING (W" + std::to_string(2 + shown) +
                          "/ew=" + std::to_string(shown) + ", ",
                      roles.overlapped_tiles, wanted))
    return;
  const EpilogueWarp &warp = roles.warps[shown];
  const double total = warp.total.mean;
  append_line(text, "  Per-tile averages (cycles / ns at %.1f GHz):", roles.sm_ghz);
  append_share(text, roles, "Mainloop mbar wait:", warp.wait.mean, percent(warp.wait.mean, total));
  append_share(text, roles, "Phase 1 (TMEM->SMEM):", warp.phase_1.mean,
               percent(warp.phase_1.mean, total));
  append_share(text, roles, "Phase 2 (SMEM->global):", warp.phase_2.mean,
               percent(warp.phase_2.mean, total));
  append_share(text, roles, "Total (wait+work):", total);
  append_share(text, roles, "Work only (P1+P2):", warp.phase_1.mean + warp.phase_2.mean);
  append_range(text, "Mainloop wait", warp.wait);
  append_range(text, "Phase 1", warp.phase_1);
  append_range(text, "Phase 2", warp.phase_2);
}

inline std::string role_text(const RoleFigures &roles) {
  const size_t overlapping = roles.tiles - roles.counts.last_rows.size();
  std::string text;
  append_w0(text, roles);
  append_w1(text, roles);
  append_phase_1(text, roles, overlapping);
  append_epilogue(text, roles, overlapping);
  return text;
}

// What Gemm::phase_report of such a kernel returns.
inline std::string role_report(const PhaseTable &table, const RoleCounts &counts, double sm_ghz) {
  return role_text(role_figures(table, counts, sm_ghz));
}

// --- for the result file ------------------------------------------------------------------------

inline void append_roles(Json &json, const RoleFigures &roles) {
  json.open('{').field("tiles", roles.tiles).field("clusters", roles.counts.clusters);
  json.field("k_steps", roles.counts.k_steps);
  json.field("epilogue_warps", roles.counts.epilogue_warps);
  json.field("drained_tiles", roles.counts.last_rows.size());
  json.field("sm_ghz", roles.sm_ghz).field("launch_ms", roles.launch_ms);
  json.field("spread_of_means_cycles", roles.spread_of_means);
  json.field("symmetric", roles.is_symmetric()).key("figures").open('[');
  for (const Figures *figures :
       {&roles.ring_wait, &roles.issue, &roles.w0_total, &roles.accumulator_wait,
        &roles.stage_0_wait, &roles.k_loop, &roles.w1_total})
    append_figures(json, *figures);
  for (const EpilogueWarp &warp : roles.warps) {
    for (const Figures *figures : {&warp.wait, &warp.phase_1, &warp.phase_2, &warp.total})
      append_figures(json, *figures);
  }
  append_figures(json, roles.spread);
  json.close(']').close('}');
}

} // namespace kernelrig

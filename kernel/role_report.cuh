// The report by warp role that a timing build prints to stdout: a section for the load warp, the
// MMA warp and the epilogue. Plain C++, a function of the table.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

#include "phase_table.cuh"
#include "role_figures.cuh"

namespace kernelrig {

// "    label:  cycles / ns  (share)"
inline void append_share(std::string &text, const RoleFigures &roles, const char *label,
                         double cycles, const std::string &note = "") {
  // printf counts bytes, and the multiplication sign takes two
  const int width = std::string(label).find("×") == std::string::npos ? 24 : 25;
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
    append_line(text, "  Not recorded and left out: %zu of %zu", wanted - tiles, wanted);
  return tiles > 0;
}

inline void append_w0(std::string &text, const RoleFigures &roles) {
  if (!append_heading(text, roles, "W0 TIMING (clock64, ", roles.w0_total.rows, roles.tiles))
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
  if (!append_heading(text, roles, "W1 TIMING (clock64, ", roles.w1_total.rows, roles.tiles))
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

inline void append_read_back(std::string &text, const RoleFigures &roles, size_t wanted) {
  const int last = 1 + roles.counts.epilogue_warps;
  if (!append_heading(text, roles,
                      "EPILOGUE PER-WARP READ-BACK TIMING (W2-W" + std::to_string(last) + ", ",
                      roles.spread.rows, wanted))
    return;
  append_line(text, "  Per-warp read-back (cycles):");
  for (int warp = 0; warp < roles.counts.epilogue_warps; ++warp) {
    const Figures &phase = roles.warps[warp].read_back;
    // rg: the 32 lanes of tensor memory that the hardware lets a warp of this number read
    append_line(text, "    W%d (ew=%d, rg=%d):  avg=%.0f  min=%llu  max=%llu  p95=%llu", 2 + warp,
                warp, (2 + warp) % 4, phase.mean, phase.min, phase.max, phase.p95);
  }
  append_line(text, "  Spread of per-warp averages: %.0f cycles (max_avg - min_avg)",
              roles.spread_of_means);
  append_line(text, "  Inter-warp spread per tile (max-min read-back across warps):");
  append_line(text, "    Average: %.0f cycles", roles.spread.mean);
  append_line(text, "    Min: %llu  Max: %llu  P95: %llu cycles", roles.spread.min,
              roles.spread.max, roles.spread.p95);
  append_line(text, "  => %s (avg spread %.0f %s %.0f cyc): %s",
              roles.is_symmetric() ? "SYMMETRIC" : "ASYMMETRIC", roles.spread_of_means,
              roles.is_symmetric() ? "<" : ">=", SYMMETRIC_BELOW_CYCLES,
              roles.is_symmetric()
                  ? "no warp is systematically slower"
                  : "some warps are systematically slower: look for a queue or bank conflicts");
}

// The phases of one epilogue warp, the second: the first one starts without a stagger.
inline void append_epilogue(std::string &text, const RoleFigures &roles, size_t wanted) {
  const int shown = roles.counts.epilogue_warps > 1 ? 1 : 0;
  if (!append_heading(text, roles,
                      "EPILOGUE PHASE TIMING (W" + std::to_string(2 + shown) +
                          "/ew=" + std::to_string(shown) + ", ",
                      roles.spread.rows, wanted))
    return;
  const EpilogueWarp &warp = roles.warps[shown];
  const double total = warp.total.mean;
  append_line(text, "  Per-tile averages (cycles / ns at %.1f GHz):", roles.sm_ghz);
  append_share(text, roles, "Mainloop mbar wait:", warp.wait.mean, percent(warp.wait.mean, total));
  append_share(text, roles, "Read-back (TMEM->SMEM):", warp.read_back.mean,
               percent(warp.read_back.mean, total));
  append_share(text, roles, "Stores (SMEM->global):", warp.stores.mean,
               percent(warp.stores.mean, total));
  append_share(text, roles, "Total (wait+work):", total);
  append_share(text, roles, "Work (read-back+stores):", warp.read_back.mean + warp.stores.mean);
  append_range(text, "Mainloop wait", warp.wait);
  append_range(text, "Read-back", warp.read_back);
  append_range(text, "Stores", warp.stores);
}

inline std::string role_text(const RoleFigures &roles) {
  const size_t overlapping = roles.tiles - roles.counts.last_rows.size();
  std::string text;
  append_w0(text, roles);
  append_w1(text, roles);
  append_read_back(text, roles, overlapping);
  append_epilogue(text, roles, overlapping);
  return text;
}

// What Gemm::phase_report of such a kernel returns.
inline std::string role_report(const PhaseTable &table, const RoleCounts &counts, double sm_ghz) {
  return role_text(role_figures(table, counts, sm_ghz));
}

} // namespace kernelrig

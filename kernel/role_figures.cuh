// How the cycles of a tile divide in a warp-specialised kernel: W0 is the load warp, W1 the MMA
// warp, and the warps from W2 on run the epilogue of the previous tile. One row of the table is one
// tile. Plain C++, a function of the table.
//
// The phases, in this order: "W0: ring wait", "W0: issue", "W1: accumulator wait", "W1: stage-0
// wait", "W1: K loop", then for each epilogue warp "W2: accumulator wait", "W2: read-back" (tensor
// memory to shared memory), "W2: stores" (shared memory to global memory).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "json.cuh"
#include "phase_table.cuh"

namespace kernelrig {

struct RoleCounts {
  int clusters = 0;
  int k_steps = 0;         // iterations of the K loop in a tile
  int mmas_per_k_step = 0; // MMA instructions issued in each
  int epilogue_warps = 0;
  // Each cluster's last tile: no MMA runs during its epilogue, so the epilogue's figures leave it
  // out.
  std::vector<int> last_rows;
};

constexpr size_t W0_PHASE = 0, W0_PHASES = 2;
constexpr size_t W1_PHASE = 2, W1_PHASES = 3;
constexpr size_t EPILOGUE_PHASE = 5, EPILOGUE_PHASES = 3;
constexpr double SYMMETRIC_BELOW_CYCLES = 200.0;

struct EpilogueWarp {
  Figures wait, read_back, stores, total;
};

struct RoleFigures {
  RoleCounts counts;
  double sm_ghz = 0.0, launch_ms = 0.0;
  int tiles = 0;
  Figures ring_wait, issue, w0_total;
  Figures accumulator_wait, stage_0_wait, k_loop, w1_total;
  std::vector<EpilogueWarp> warps;
  Figures spread; // of the read-back over the warps of one tile: slowest minus fastest
  double spread_of_means = std::numeric_limits<double>::quiet_NaN(); // no rows, no spread

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

inline Figures read_back_spread(const PhaseTable &table, const std::vector<int> &rows,
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
  return figures_of("epilogue: spread of read-back", std::move(spreads));
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
    lowest = std::min(lowest, roles.warps.back().read_back.mean);
    highest = std::max(highest, roles.warps.back().read_back.mean);
  }
  roles.spread = read_back_spread(table, overlapped, counts);
  if (!overlapped.empty())
    roles.spread_of_means = highest - lowest;
  return roles;
}

inline void append_roles(Json &json, const RoleFigures &roles) {
  json.open('{').field("tiles", roles.tiles).field("clusters", roles.counts.clusters);
  json.field("k_steps", roles.counts.k_steps);
  json.field("epilogue_warps", roles.counts.epilogue_warps);
  json.field("drained_tiles", roles.counts.last_rows.size());
  json.field("sm_ghz", roles.sm_ghz).field("launch_ms", roles.launch_ms);
  json.field("spread_of_means_cycles", roles.spread_of_means);
  json.key("symmetric");
  roles.spread.rows == 0 ? json.null() : json.value(roles.is_symmetric());
  json.key("figures").open('[');
  for (const Figures *figures :
       {&roles.ring_wait, &roles.issue, &roles.w0_total, &roles.accumulator_wait,
        &roles.stage_0_wait, &roles.k_loop, &roles.w1_total})
    append_figures(json, *figures);
  for (const EpilogueWarp &warp : roles.warps) {
    for (const Figures *figures : {&warp.wait, &warp.read_back, &warp.stores, &warp.total})
      append_figures(json, *figures);
  }
  append_figures(json, roles.spread);
  json.close(']').close('}');
}

} // namespace kernelrig

// Prints what kernel/phase_table.cuh and kernel/role_report.cuh make of made tables, for a host
// compiler alone (tests/kernel/test_role_report.py).
//   print_report trace ROWS FILE   the words of phase_clocks in FILE, as the trace of a result file
//   print_report figures    p95 of 1..N for some N
//   print_report plain      the table of a kernel without roles
//   print_report roles | json | even CYCLES | drained | misnamed

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "phase_table.cuh"
#include "phase_trace.cuh"
#include "role_figures.cuh"
#include "role_report.cuh"

namespace {

using namespace kernelrig;

// Six tiles of two clusters; tile 2 was not recorded, and tiles 4 and 5 are the last ones of their
// clusters: their epilogues, 9000 cycles each, must not count.
PhaseTable six_tiles() {
  PhaseTable table;
  table.rows = 6;
  table.names = {"W0: ring wait", "W0: issue", "W1: accumulator wait", "W1: stage-0 wait",
                 "W1: K loop"};
  for (const char *warp : {"W2", "W3", "W4", "W5"}) {
    for (const char *phase : {": accumulator wait", ": read-back", ": stores"})
      table.names.push_back(std::string(warp) + phase);
  }
  const Cycles rows[6][17] = {
      {100, 50, 1000, 500, 4000, 300, 4000, 200, 310, 4100, 210, 320, 4200, 220, 330, 4300, 230},
      {200, 60, 1200, 700, 4400, 500, 4400, 240, 510, 4200, 250, 520, 4600, 260, 530, 4700, 270},
      {},
      {300, 70, 1400, 900, 4800, 700, 4800, 280, 710, 4300, 290, 720, 5000, 300, 730, 5100, 310},
      {400, 80, 800, 300, 3600, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000,
       9000},
      {500, 90, 600, 100, 3200, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000, 9000,
       9000}};
  for (int row = 0; row < 6; ++row) {
    for (const Cycles cycles : rows[row])
      table.cycles.push_back(row == 2 ? UNWRITTEN : cycles);
  }
  table.launch_ms = 0.003;
  return table;
}

void print_plain() {
  PhaseTable table;
  table.rows = 4;
  table.names = {"all warps: fetch", "all warps: multiply", "all warps: never"};
  table.cycles = {10, 100,       UNWRITTEN, 20, 300, UNWRITTEN,
                  30, UNWRITTEN, UNWRITTEN, 40, 500, UNWRITTEN};
  std::fputs(phase_table_text(table).c_str(), stdout);
}

// Phases and roles are those of the kernel for sm_90a, of whose consumers 4 tiles are recorded.
void print_trace(int rows, const char *file) {
  const std::vector<std::string> phases = {
      "W0: ring wait", "W0: issue",           "WG1: table and turn", "WG1: MMAs",
      "WG1: store",    "WG2: table and turn", "WG2: MMAs",           "WG2: store"};
  std::vector<Cycles> words;
  std::FILE *const from = std::fopen(file, "rb");
  for (Cycles word; from != nullptr && std::fread(&word, sizeof word, 1, from) == 1;)
    words.push_back(word);
  Json json;
  append_trace(json, read_trace(words, rows, phases, {{0, 96}, {2, 12}, {5, 12}}));
  std::puts(json.text().c_str());
}

void print_figures() {
  for (const Cycles last : {1, 10, 20, 21, 100}) {
    std::vector<Cycles> values;
    for (Cycles value = last; value > 0; --value)
      values.push_back(value);
    const Figures figures = figures_of("", values);
    std::printf("%zu: %g %llu %llu %llu\n", figures.rows, figures.mean, figures.min, figures.max,
                figures.p95);
  }
}

// The same read-back in all warps, but for `more` cycles of the last one.
void even_out(PhaseTable &table, Cycles more) {
  for (int row = 0; row < 2; ++row) {
    for (size_t warp = 0; warp < 4; ++warp) {
      const size_t cell = row * table.names.size() + EPILOGUE_PHASE + EPILOGUE_PHASES * warp + 1;
      table.cycles[cell] = 4000 + (warp == 3 ? more : 0);
    }
  }
  table.cycles[3 * table.names.size() + EPILOGUE_PHASE] =
      UNWRITTEN; // so that tile 3 does not count
}

int print(const std::string &what, Cycles more) {
  PhaseTable table = six_tiles();
  RoleCounts counts = {2, 6, 4, 4, {4, 5}};
  if (what == "even") {
    even_out(table, more);
  } else if (what == "drained") {
    counts = {6, 6, 4, 4, {0, 1, 2, 3, 4, 5}};
  } else if (what == "misnamed") {
    counts.epilogue_warps = 5;
  } else if (what == "json") {
    Json json;
    append_roles(json, role_figures(table, counts, 2.0));
    std::puts(json.text().c_str());
    return 0;
  } else if (what != "roles") {
    return 2;
  }
  std::fputs(role_report(table, counts, 2.0).c_str(), stdout);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "plain") {
    print_plain();
  } else if (what == "figures") {
    print_figures();
  } else if (what == "trace" && argc > 3) {
    print_trace(std::stoi(argv[2]), argv[3]);
  } else {
    try {
      return print(what, argc > 2 ? std::stoull(argv[2]) : 0);
    } catch (const std::invalid_argument &error) {
      std::puts(error.what());
    }
  }
  return 0;
}

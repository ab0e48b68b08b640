// The result file: everything that the client judges. No verdict is read from stdout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device.cuh"
#include "failure.cuh"
#include "json.cuh"
#include "nvml.cuh"
#include "options.cuh"
#include "phase_table.cuh"
#include "phase_trace.cuh"
#include "problem.cuh"
#include "role_figures.cuh"

namespace kernelrig {

struct Mismatch {
  bool found = false;
  long long row = 0, column = 0;
  uint16_t got_bits = 0, wanted_bits = 0;
};

struct Comparison {
  bool made = false;
  Pattern pattern = Pattern::RANDOM;
  uint64_t seed = 0;
  unsigned long long elements = 0, mismatches = 0, nan_count = 0;
  double max_abs_error = 0.0;
  double max_rel_error = 0.0; // relative to max(|acc|, |comb|, |C|, sum |a b|)
  double accum_tol = 0.0;
  Mismatch first;
  // Of the elements that are wrong, by row of tiles of C; empty where none is.
  int tile_rows = 0, tile_columns = 0, tiles_across = 0;
  std::vector<unsigned long long> wrong_by_tile;
};

struct Sample {
  int row, column;
  uint16_t bits;
};

// What a spot-checked launch wrote (spot_check.cuh); `sample` counts all of the process's.
struct SpotCheck {
  int sample, set;
  std::vector<uint16_t> bits;
};

// An output of an operation after a checked launch. Elements that kept both of two canaries, one in
// each of two launches, were not written.
struct OutputFacts {
  std::string name, file; // the .npy beside the result file
  unsigned long long elements = 0, unwritten = 0, first_unwritten = 0;
};

// The bits that a timed launch of an operation left at the places of spot_check.cuh.
struct TimedOutput {
  int sample;
  std::string name;
  std::vector<uint64_t> bits;
};

struct Result {
  std::string program, kernel, label;
  Options options;
  Problem problem{};
  int exit_code = 0;
  std::string regime;
  DeviceFacts device;
  Clocks before, after;
  std::vector<Clocks> during;
  std::vector<float> samples_ms;
  int sets = 0; // of inputs, over which timed launches rotate
  std::vector<SpotCheck> spot_checks;
  bool has_checksum = false;
  double checksum = 0.0;
  std::vector<Sample> sampled;
  Comparison compared, verified_after_timing;
  int phase_rows = 0; // each phase has the number of rows in which it was recorded
  std::vector<Figures> phases;
  std::optional<RoleFigures> roles;
  std::optional<PhaseTrace> trace;
  bool is_operation = false;
  std::vector<OutputFacts> outputs;
  std::vector<TimedOutput> timed_outputs;
  bool failed = false;
  Failure failure{};
};

inline void append_comparison(Json &json, const char *name, const Comparison &comparison) {
  json.line().key(name);
  if (!comparison.made) {
    json.null();
    return;
  }
  json.open('{').field("pattern", pattern_name(comparison.pattern)).field("seed", comparison.seed);
  json.field("elements", comparison.elements).field("mismatches", comparison.mismatches);
  json.field("nan_count", comparison.nan_count);
  json.field("max_abs_error", comparison.max_abs_error);
  json.field("max_rel_error", comparison.max_rel_error).field("accum_tol", comparison.accum_tol);
  json.key("first_mismatch");
  if (comparison.first.found) {
    json.open('{').field("row", comparison.first.row).field("column", comparison.first.column);
    json.field("got", static_cast<double>(float_from_bf16(comparison.first.got_bits)));
    json.field("wanted", static_cast<double>(float_from_bf16(comparison.first.wanted_bits)));
    json.field("got_bits", static_cast<int>(comparison.first.got_bits));
    json.field("wanted_bits", static_cast<int>(comparison.first.wanted_bits)).close('}');
  } else {
    json.null();
  }
  json.key("wrong");
  if (comparison.wrong_by_tile.empty()) {
    json.null();
  } else {
    json.open('{').field("tile_rows", comparison.tile_rows);
    json.field("tile_columns", comparison.tile_columns).key("counts").open('[');
    for (size_t i = 0; i < comparison.wrong_by_tile.size(); ++i) {
      if (i % comparison.tiles_across == 0)
        json.open('[');
      json.value(comparison.wrong_by_tile[i]);
      if ((i + 1) % comparison.tiles_across == 0)
        json.close(']');
    }
    json.close(']').close('}');
  }
  json.close('}');
}

// What was computed: the case and the shape of the product, or the case and the tensors.
inline void append_problem(Json &json, const Result &result) {
  const Options &options = result.options;
  json.key("case").open('{');
  if (!result.is_operation) {
    json.field("images", result.problem.images).field("ctas", result.problem.ctas).close('}');
    json.key("shape").open('{').field("m", result.problem.m).field("n", result.problem.n);
    json.field("k", result.problem.k).close('}');
    return;
  }
  for (const auto &[name, number] : options.numbers)
    json.field(name.c_str(), number);
  json.close('}').line().key("tensors").open('[');
  for (const std::vector<TensorSpec> *tensors : {&options.inputs, &options.outputs}) {
    for (const TensorSpec &tensor : *tensors)
      json.value(tensor.text);
  }
  json.close(']').line().key("outputs").open('[');
  for (const OutputFacts &output : result.outputs) {
    json.open('{').field("name", output.name).field("file", output.file);
    json.field("elements", output.elements).field("unwritten", output.unwritten);
    json.field("first_unwritten", output.first_unwritten).close('}');
  }
  json.close(']').line().key("timed_outputs").open('[');
  for (const TimedOutput &timed : result.timed_outputs) {
    json.line().open('{').field("sample", timed.sample).field("name", timed.name);
    json.key("bits").open('[');
    for (const uint64_t bits : timed.bits)
      json.value(bits);
    json.close(']').close('}');
  }
  json.close(']');
}

inline std::string result_text(const Result &result) {
  Json json;
  json.open('{').line().field("schema", result.is_operation ? 4 : 3);
  json.field("program", result.program);
  json.field("kernel", result.kernel).field("label", result.label);
  if (!result.is_operation)
    json.field("function", function_name(result.problem.function));
  json.line().field("mode", mode_name(result.options.mode));
  json.field("pattern", pattern_name(result.options.pattern)).field("seed", result.options.seed);
  append_problem(json, result);
  json.field("exit_code", result.exit_code);
  json.line().key("regime");
  result.regime.empty() ? json.null() : json.value(result.regime);
  append_device(json.line(), result.device);
  json.line().key("clocks").open('{').key("before");
  append_clocks(json, result.before);
  json.key("after");
  append_clocks(json, result.after);
  if (!result.during.empty()) {
    json.key("during").open('[');
    for (const Clocks &clocks : result.during)
      append_clocks(json, clocks);
    json.close(']');
  }
  json.close('}').line().key("samples_ms").open('[');
  for (const float sample : result.samples_ms)
    json.value(static_cast<double>(sample));
  json.close(']').line().key("checksum");
  result.has_checksum ? json.value(result.checksum) : json.null();
  json.line().key("sampled").open('[');
  for (const Sample &sample : result.sampled) {
    json.open('[')
        .value(sample.row)
        .value(sample.column)
        .value(static_cast<int>(sample.bits))
        .close(']');
  }
  json.close(']');
  append_comparison(json, "compared", result.compared);
  append_comparison(json, "verified_after_timing", result.verified_after_timing);
  json.line().field("sets", result.sets).key("spot_checks").open('[');
  for (const SpotCheck &check : result.spot_checks) {
    json.line().open('{').field("sample", check.sample).field("set", check.set);
    json.key("bits").open('[');
    for (const uint16_t bits : check.bits)
      json.value(static_cast<int>(bits));
    json.close(']').close('}');
  }
  json.close(']');
  if (!result.phases.empty()) {
    json.line().key("phases").open('[');
    for (const Figures &phase : result.phases)
      append_figures(json, phase);
    json.close(']').field("phase_rows", result.phase_rows);
  }
  if (result.roles) {
    json.line().key("roles");
    append_roles(json, *result.roles);
  }
  if (result.trace) {
    json.line().key("trace");
    append_trace(json, *result.trace);
  }
  json.line().key("error");
  if (result.failed) {
    json.open('{').field("name", result.failure.name).field("code", result.failure.code);
    json.field("text", result.failure.text).field("where", result.failure.where).close('}');
  } else {
    json.null();
  }
  return json.close('}').text() + "\n";
}

inline std::string write_result(const Result &result) {
  if (result.options.result.empty())
    return "";
  const std::string text = result_text(result);
  return write_whole(result.options.result, text.data(), text.size());
}

} // namespace kernelrig

// The command line of every harness program: parsed into a record, or refused with one sentence.
#pragma once

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "failure.cuh"
#include "inputs.cuh"
#include "tensor.cuh"

namespace kernelrig {

enum class Mode { NONE, CHECK, TIME, ONCE, DESCRIBE };

inline const char *mode_name(Mode mode) {
  static const char *const names[] = {"none", "check", "time", "once", "describe"};
  return names[static_cast<int>(mode)];
}

struct Options {
  int images = 4736; // the full problem
  int ctas = 0;      // 0: every SM
  // of an operation: the case's numbers by name, and what --input and --output say
  std::vector<std::pair<std::string, long long>> numbers;
  std::vector<TensorSpec> inputs, outputs;
  Mode mode = Mode::NONE;
  Pattern pattern = Pattern::RANDOM;
  uint64_t seed = 0;
  double warmup_s = 1.0;
  int samples = 0;
  std::string relay;      // the file that the processes of a relay share; empty: no relay
  std::vector<int> slots; // the measurement slots of this process, in rising order
  double settle_s = 0.0;  // extra load before slot 0
  int device = 0;
  double watchdog_s = 0.0; // 0: off
  std::string out;
  std::string result;
  bool help = false;
};

constexpr int MAX_IMAGES = 1000000; // M = 196 million rows still fits an int
constexpr int MAX_CTAS = 65535;
constexpr int MAX_SAMPLES = 1000000;
constexpr int MAX_SLOTS = 100000;

// What a program computes: the patch-embed GEMM, or an operation whose tensors flags declare.
enum class Program { PATCH_EMBED, OPERATION };

constexpr long long MAX_CASE_NUMBER = 1000000000000; // 10^12

inline std::string operation_usage(const std::string &program) {
  return "usage: " + program +
         " --mode check|time|once|describe --case NAME=N,...\n"
         "       --input NAME:DTYPE:SHAPE:VALUES:LOW:HIGH ...\n"
         "       --output NAME:DTYPE:SHAPE[:INITIAL] ...\n"
         "       [--pattern constant|integer|random] [--seed N] [--warmup-s S] [--samples N]\n"
         "       [--relay FILE --turns N,N... [--settle-s S]] [--device N] [--watchdog S]\n"
         "       [--out DIR] [--result FILE]\n"
         "the rig passes --input and --output as kernels.yaml declares them\n"
         "exit codes: 0 ok, 2 usage, 70 a CUDA call failed, 71 an output was not written,\n"
         "            72 wrong device, 73 the watchdog fired\n";
}

inline std::string usage_text(const std::string &program) {
  return "usage: " + program +
         " [--case images=N,ctas=N] [--mode check|time|once|describe]\n"
         "       [--pattern constant|integer|random] [--seed N] [--warmup-s S] [--samples N]\n"
         "       [--relay FILE --turns N,N... [--settle-s S]] [--device N] [--watchdog S]\n"
         "       [--out DIR] [--result FILE]\n"
         "without --mode: timing on random data, then the golden constant case\n"
         "exit codes: 0 ok, 2 usage, 70 a CUDA call failed, 71 mismatch, 72 wrong device,\n"
         "            73 the watchdog fired\n";
}

inline uint64_t parse_whole(const std::string &what, const std::string &text, uint64_t low,
                            uint64_t high) {
  char *end = nullptr;
  errno = 0;
  const uint64_t number = std::strtoull(text.c_str(), &end, 10);
  const bool starts_right = !text.empty() && text[0] >= '0' && text[0] <= '9';
  if (!starts_right || *end != '\0' || errno != 0 || number < low || number > high) {
    throw UsageError{what + " is '" + text + "': expected a whole number from " +
                     std::to_string(low) + " to " + std::to_string(high)};
  }
  return number;
}

inline double parse_seconds(const std::string &what, const std::string &text) {
  char *end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool starts_right = !text.empty() && (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
  if (!starts_right || *end != '\0' || !(number >= 0.0 && number <= 1e6)) {
    throw UsageError{what + " is '" + text + "': expected seconds from 0 to 1000000"};
  }
  return number;
}

// The measurement slots of this process. The flag is still --turns: bench also runs the programs of
// older commits, which know no other name.
inline std::vector<int> parse_slots(const std::string &text) {
  std::vector<int> slots;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const int slot =
        static_cast<int>(parse_whole("--turns", text.substr(begin, end - begin), 0, MAX_SLOTS));
    if (!slots.empty() && slot <= slots.back())
      throw UsageError{"--turns is '" + text + "': slots are listed in rising order"};
    slots.push_back(slot);
    begin = end + 1;
  }
  return slots;
}

inline void parse_case(const std::string &text, Options &options) {
  std::set<std::string> seen;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = text.find(',', begin);
    if (end == std::string::npos)
      end = text.size();
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (equals == std::string::npos || (key != "images" && key != "ctas")) {
      throw UsageError{"--case has '" + part + "': known are images=N and ctas=N"};
    }
    if (!seen.insert(key).second)
      throw UsageError{"--case names " + key + " twice"};
    const std::string number = part.substr(equals + 1);
    if (key == "images") {
      options.images = static_cast<int>(parse_whole("images in --case", number, 1, MAX_IMAGES));
    } else {
      options.ctas = static_cast<int>(parse_whole("ctas in --case", number, 0, MAX_CTAS));
    }
    begin = end + 1;
  }
}

inline void parse_numbers(const std::string &text, Options &options) {
  for (const std::string &part : tensor_text::parts_of(text, ',')) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (equals == std::string::npos || !tensor_text::is_identifier(key))
      throw UsageError{"--case has '" + part + "': expected NAME=N"};
    for (const auto &[name, number] : options.numbers) {
      if (name == key)
        throw UsageError{"--case names " + key + " twice"};
    }
    const uint64_t number =
        parse_whole(key + " in --case", part.substr(equals + 1), 0, MAX_CASE_NUMBER);
    options.numbers.emplace_back(key, static_cast<long long>(number));
  }
}

inline void add_tensor(const std::string &flag, const std::string &text, Options &options) {
  TensorSpec tensor;
  const std::string wrong = parse_tensor(text, flag == "--input", tensor);
  if (!wrong.empty())
    throw UsageError{flag + " '" + text + "': " + wrong};
  for (const std::vector<TensorSpec> *known : {&options.inputs, &options.outputs}) {
    for (const TensorSpec &other : *known) {
      if (other.name == tensor.name)
        throw UsageError{flag + " names " + tensor.name + " a second time"};
    }
  }
  (flag == "--input" ? options.inputs : options.outputs).push_back(tensor);
}

inline Mode parse_mode(const std::string &text) {
  for (const Mode mode : {Mode::CHECK, Mode::TIME, Mode::ONCE, Mode::DESCRIBE}) {
    if (text == mode_name(mode))
      return mode;
  }
  throw UsageError{"--mode is '" + text + "': expected check, time, once or describe"};
}

inline Pattern parse_pattern(const std::string &text) {
  for (const Pattern pattern : {Pattern::CONSTANT, Pattern::INTEGER, Pattern::RANDOM}) {
    if (text == pattern_name(pattern))
      return pattern;
  }
  throw UsageError{"--pattern is '" + text + "': expected constant, integer or random"};
}

// Options that only make sense together are refused alone instead of ignored.
inline void settle(const std::set<std::string> &given, Options &options) {
  const bool timed = options.mode == Mode::TIME || options.mode == Mode::NONE;
  if (given.count("--pattern") == 0) {
    // integers show a single lost product, so they are the default of check, once and describe
    options.pattern = timed ? Pattern::RANDOM : Pattern::INTEGER;
  } else if (timed && options.pattern != Pattern::RANDOM) {
    throw UsageError{std::string("--pattern ") + pattern_name(options.pattern) +
                     " goes with --mode check, once or describe: timing is on random data"};
  }
  if (options.samples == 0)
    options.samples = timed ? 100 : 1;
  if (given.count("--samples") != 0 && !timed && options.mode != Mode::ONCE) {
    throw UsageError{"--samples goes with --mode time or once"};
  }
  if (given.count("--warmup-s") != 0 && !timed)
    throw UsageError{"--warmup-s goes with --mode time"};
  if (given.count("--relay") != given.count("--turns"))
    throw UsageError{"--relay FILE and --turns N,N... go together"};
  if (given.count("--relay") != 0 && options.mode != Mode::TIME)
    throw UsageError{"--relay goes with --mode time"};
  if (static_cast<long long>(options.samples) * options.slots.size() > MAX_SAMPLES * 10ll) {
    throw UsageError{"--samples " + std::to_string(options.samples) + " in each of " +
                     std::to_string(options.slots.size()) +
                     " slots are too many: " + std::to_string(MAX_SAMPLES * 10ll) + " at most"};
  }
  if (given.count("--settle-s") != 0 && given.count("--relay") == 0)
    throw UsageError{"--settle-s goes with --relay"};
  if (options.mode == Mode::DESCRIBE) {
    if (options.out.empty())
      throw UsageError{"--mode describe needs --out DIR, a folder that exists"};
    if (!options.result.empty())
      throw UsageError{"--mode describe writes no result: drop --result"};
  } else if (!options.out.empty()) {
    throw UsageError{"--out goes with --mode describe; results go to --result FILE"};
  }
}

inline void require_operation(const Options &options) {
  if (options.mode == Mode::NONE)
    throw UsageError{"pass --mode check, time, once or describe"};
  if (options.numbers.empty() || options.outputs.empty())
    throw UsageError{"pass --case NAME=N,... and --output NAME:DTYPE:SHAPE, as the rig does"};
  for (const TensorSpec &output : options.outputs) {
    if (!output.initial.empty() && !initial_of(output, options.inputs)) {
      throw UsageError{"--output '" + output.text + "': no --input is called " + output.initial +
                       " and has its type and shape"};
    }
  }
}

inline Options parse_options(int argc, char **argv, Program program = Program::PATCH_EMBED) {
  Options options;
  std::set<std::string> given;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    const size_t equals = name.find('=');
    const bool joined = name.rfind("--", 0) == 0 && equals != std::string::npos;
    std::string value = joined ? name.substr(equals + 1) : "";
    if (joined)
      name.resize(equals);
    static const std::set<std::string> known = {
        "--case",  "--mode",     "--pattern", "--seed",     "--warmup-s", "--samples", "--relay",
        "--turns", "--settle-s", "--device",  "--watchdog", "--out",      "--result"};
    const bool is_tensor =
        program == Program::OPERATION && (name == "--input" || name == "--output");
    if (known.count(name) == 0 && !is_tensor) {
      std::string all;
      for (const std::string &one : known)
        all += (all.empty() ? "" : ", ") + one;
      throw UsageError{"unknown option '" + name + "': known are " + all};
    }
    if (!given.insert(name).second && !is_tensor)
      throw UsageError{name + " is given twice"};
    if (!joined) {
      if (i + 1 == argc)
        throw UsageError{name + " needs a value"};
      value = argv[++i];
    }
    if (value.empty())
      throw UsageError{name + " needs a value"};
    if (is_tensor)
      add_tensor(name, value, options);
    if (name == "--case" && program == Program::OPERATION)
      parse_numbers(value, options);
    else if (name == "--case")
      parse_case(value, options);
    if (name == "--mode")
      options.mode = parse_mode(value);
    if (name == "--pattern")
      options.pattern = parse_pattern(value);
    if (name == "--seed")
      options.seed = parse_whole(name, value, 0, UINT64_MAX);
    if (name == "--warmup-s")
      options.warmup_s = parse_seconds(name, value);
    if (name == "--samples")
      options.samples = static_cast<int>(parse_whole(name, value, 1, MAX_SAMPLES));
    if (name == "--relay")
      options.relay = value;
    if (name == "--turns")
      options.slots = parse_slots(value);
    if (name == "--settle-s")
      options.settle_s = parse_seconds(name, value);
    if (name == "--device")
      options.device = static_cast<int>(parse_whole(name, value, 0, 1023));
    if (name == "--watchdog")
      options.watchdog_s = parse_seconds(name, value);
    if (name == "--out")
      options.out = value;
    if (name == "--result")
      options.result = value;
  }
  settle(given, options);
  if (program == Program::OPERATION)
    require_operation(options);
  return options;
}

} // namespace kernelrig

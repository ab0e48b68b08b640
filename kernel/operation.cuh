// The host side of an operation: any function of named tensors. A kernel file includes this one
// header for its host part (under `#ifndef KERNELRIG_DEVICE_ONLY`) and defines
//
//   struct Softmax {
//     // the kernel's name: extern "C", or unique in the module
//     static constexpr char ENTRY[] = "softmax_rows";
//     static constexpr auto KERNEL = softmax_rows;
//     // pure, as describe calls it without a GPU: the grid and the parameters of one launch. Throws
//     // UsageError where the kernel cannot run this case.
//     static Launch launch(const Case &, int sm_count);
//   };
//   int main(int argc, char **argv) { return kernelrig::operation_main<Softmax>(argc, argv); }
//
// kernels.yaml declares the inputs and outputs; --input and --output bring them here. The harness
// allocates and fills them, launches KERNEL with the parameters that `launch` lists, and writes what
// each output holds to files, which the client compares with the reference. So what is emulated
// (mode describe writes the same list) and what runs on a GPU cannot differ.
//
// Every tensor starts on a 256-byte boundary and is row-major. The kernel may not rely on the
// content of `workspace` and of outputs, but of those that kernels.yaml gives an `initial`, which
// they hold before each launch that is checked: mode check launches twice, on two canaries.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "failure.cuh"
#include "json.cuh"
#include "launch.cuh"
#include "launch_file.cuh"
#include "operation_launch.cuh"
#include "options.cuh"
#include "tensor.cuh"
#ifndef KERNELRIG_DESCRIBE_ONLY
#include "guarded_run.cuh"
#include "operation_session.cuh"
#include "result.cuh"
#include "watchdog.cuh"
#endif

// The build passes these; the defaults serve a kernel compiled by hand.
#ifndef KERNELRIG_PROGRAM
#define KERNELRIG_PROGRAM "kernel"
#endif
#ifndef KERNELRIG_LABEL
#define KERNELRIG_LABEL ""
#endif

namespace kernelrig {

// `held` is what the tensor holds before the launch.
inline void append_tensor(Json &json, const TensorSpec &tensor,
                          const std::optional<TensorSpec> &held) {
  append_buffer(json, tensor.name.c_str(), tensor.facts().name, tensor.shape);
  if (!held)
    json.field("kind", "undefined");
  else if (held->values == Values::ZEROS)
    json.field("kind", "zero");
  else
    json.field("kind", "file").field("path", held->name + ".npy");
  json.close('}').close('}');
}

// Writes launch.json and each input as an .npy: once launch.json exists, what it names exists.
template <class Operation> void describe_operation(const Options &options) {
  const Launch launch = checked_launch<Operation>(options, sm_count_of_build());
  for (const TensorSpec &tensor : options.inputs) {
    std::vector<uint8_t> bytes(tensor.bytes());
    const TensorFill fill = fill_of(tensor, options.pattern, options.seed);
    for (uint64_t i = 0; i < tensor.elements(); ++i)
      store_element(bytes.data(), fill, i);
    std::string file = npy_head(tensor.facts().npy, tensor.shape);
    file.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    const std::string error =
        write_whole(options.out + "/" + tensor.name + ".npy", file.data(), file.size());
    if (!error.empty())
      throw UsageError{error};
  }
  Json json;
  append_head(json, Operation::ENTRY, launch.geometry);
  for (const TensorSpec &tensor : options.inputs)
    append_tensor(json, tensor, tensor);
  for (const TensorSpec &tensor : options.outputs)
    append_tensor(json, tensor, initial_of(tensor, options.inputs));
  if (launch.workspace_bytes > 0) {
    append_buffer(json, WORKSPACE, "u8", {launch.workspace_bytes});
    json.field("kind", "undefined").close('}').close('}');
  }
  append_rest(json, launch.arguments);
  const std::string text = json.close('}').text() + "\n";
  const std::string error = write_whole(options.out + "/launch.json", text.data(), text.size());
  if (!error.empty())
    throw UsageError{error};
}

#ifdef KERNELRIG_DESCRIBE_ONLY
template <class Operation> int run_operation(const Options &) {
  throw UsageError{"this build describes launches, and does nothing else"};
}
#else
template <class Operation> int run_operation(const Options &options) {
  Result result;
  result.program = KERNELRIG_PROGRAM;
  result.kernel = Operation::ENTRY;
  result.label = KERNELRIG_LABEL;
  result.options = options;
  result.is_operation = true;
  // a case that the kernel cannot run is a usage error, found without a GPU
  checked_launch<Operation>(options, sm_count_of_build());
  if (options.result.empty())
    throw UsageError{"pass --result FILE: the outputs are written beside it"};
  const std::string refusal = refusal_to_write(options.result);
  if (!refusal.empty())
    throw UsageError{refusal};
  return guarded(result, options, [&](Watchdog &watchdog) {
    OperationSession<Operation>(options, result, watchdog).run();
  });
}
#endif

template <class Operation> int operation_main(int argc, char **argv) {
  try {
    const Options options = parse_options(argc, argv, Program::OPERATION);
    if (options.help) {
      std::fputs(operation_usage(KERNELRIG_PROGRAM).c_str(), stdout);
      return EXIT_OK;
    }
    if (options.mode != Mode::DESCRIBE)
      return run_operation<Operation>(options);
    describe_operation<Operation>(options);
    return EXIT_OK;
  } catch (const UsageError &error) {
    std::fprintf(stderr, "%s: %s\n", KERNELRIG_PROGRAM, error.sentence.c_str());
    return EXIT_USAGE;
  }
}

} // namespace kernelrig

using kernelrig::Argument;
using kernelrig::Case;
using kernelrig::Launch;
using kernelrig::operation_main;

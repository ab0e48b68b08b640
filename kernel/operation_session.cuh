// A session of an operation on one device: what the modes do.
//
// Timed launches. Every sample has inputs of a seed of its own and outputs filled with a canary, or
// with what kernels.yaml says that they hold before a launch, so that a launch that computes
// nothing, or returns what it computed before, leaves something wrong. Both are made for all sets
// before the first sample of a slot, and for a set again as soon as its sample has ended, outside
// of what its events measure; all sets together are larger than three L2 caches, so no launch finds
// its inputs there. Of some samples the outputs are read at sampled places (spot_check.cuh), of the
// last one completely.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device.cuh"
#include "device_memory.cuh"
#include "failure.cuh"
#include "inputs.cuh"
#include "nvml.cuh"
#include "operation_launch.cuh"
#include "options.cuh"
#include "result.cuh"
#include "spot_check.cuh"
#include "tensor.cuh"
#include "tensor_map.cuh"
#include "timed_loop.cuh"
#include "watchdog.cuh"

namespace kernelrig {

// An unwritten float is a NaN after the first launch; an integer may be right by chance after one,
// and not after both.
constexpr int CANARIES[] = {0xFF, 0x5A};
constexpr int MAX_SETS = 1024;
constexpr size_t PARAMETER_BYTES = 128; // of the largest, a tensor map

// The seed of the inputs that a timed sample has: 48 bits, as the seeds that the client draws.
inline uint64_t timed_seed(uint64_t seed, uint64_t sample) {
  return hash_at(hash_base("timed inputs", seed), sample) >> (64 - SPOT_SEED_BITS);
}

__global__ void fill_tensor(uint8_t *tensor, TensorFill fill, uint64_t elements) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < elements;
       i += stride) {
    store_element(tensor, fill, i);
  }
}

__global__ void gather_elements(const uint8_t *tensor, unsigned bytes_each,
                                const unsigned long long *places, unsigned count, uint64_t *out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  uint64_t bits = 0;
  for (unsigned byte = 0; byte < bytes_each; ++byte)
    bits |= static_cast<uint64_t>(tensor[places[i] * bytes_each + byte]) << (8 * byte);
  out[i] = bits;
}

// The tensors of one launch, and its parameters.
class TensorSet {
public:
  TensorSet(const Options &options, const Launch &launch)
      : options_(options), workspace_(launch.workspace_bytes) {
    for (const TensorSpec &tensor : options.inputs)
      inputs_.emplace_back(tensor.bytes());
    for (const TensorSpec &tensor : options.outputs)
      outputs_.emplace_back(tensor.bytes());
    parameters_.resize(launch.arguments.args.size());
    for (size_t i = 0; i < parameters_.size(); ++i) {
      encode_argument(launch, launch.arguments.args[i], parameters_[i]);
      pointers_.push_back(parameters_[i].bytes);
    }
  }
  TensorSet(const TensorSet &) = delete;
  TensorSet &operator=(const TensorSet &) = delete;

  // As cudaLaunchKernelExC takes them.
  void **parameters() const { return const_cast<void **>(pointers_.data()); }
  const DeviceMemory &output(size_t i) const { return outputs_[i]; }

  // Everything that a launch finds: inputs, and outputs as they start, by `canary` or by what
  // kernels.yaml says of them.
  void fill(Pattern pattern, uint64_t seed, int canary, cudaStream_t stream) const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      fill_one(inputs_[i], options_.inputs[i], pattern, seed, stream);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (const auto held = initial_of(options_.outputs[i], options_.inputs))
        fill_one(outputs_[i], *held, pattern, seed, stream);
      else
        KERNELRIG_CUDA(
            cudaMemsetAsync(outputs_[i].as<void>(), canary, outputs_[i].bytes(), stream));
    }
  }

  // The same without a kernel.
  void copy_inputs(Pattern pattern, uint64_t seed) const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      copy_one(inputs_[i], options_.inputs[i], pattern, seed);
  }

  void copy_canary(int canary) const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (initial_of(options_.outputs[i], options_.inputs))
        continue;
      copy_in_pieces(outputs_[i], [=](size_t begin, size_t end, uint8_t *piece) {
        std::fill(piece, piece + (end - begin), static_cast<uint8_t>(canary));
      });
    }
  }

  // Of the outputs that start as something else than a canary.
  void copy_initial(Pattern pattern, uint64_t seed) const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (const auto held = initial_of(options_.outputs[i], options_.inputs))
        copy_one(outputs_[i], *held, pattern, seed);
    }
  }

  void spoil_workspace(int canary, cudaStream_t stream) const {
    if (workspace_.bytes() > 0)
      KERNELRIG_CUDA(cudaMemsetAsync(workspace_.as<void>(), canary, workspace_.bytes(), stream));
  }

  size_t bytes() const {
    size_t all = 0;
    for (const std::vector<DeviceMemory> *tensors : {&inputs_, &outputs_}) {
      for (const DeviceMemory &tensor : *tensors)
        all += tensor.bytes();
    }
    return all;
  }

private:
  static void fill_one(const DeviceMemory &memory, const TensorSpec &tensor, Pattern pattern,
                       uint64_t seed, cudaStream_t stream) {
    fill_tensor<<<1024, 256, 0, stream>>>(memory.as<uint8_t>(), fill_of(tensor, pattern, seed),
                                          tensor.elements());
    KERNELRIG_CUDA(cudaGetLastError());
  }

  static void copy_one(const DeviceMemory &memory, const TensorSpec &tensor, Pattern pattern,
                       uint64_t seed) {
    const TensorFill fill = fill_of(tensor, pattern, seed);
    const uint64_t bytes_each = tensor.facts().bytes;
    copy_made(memory, bytes_each, [=](uint8_t *piece, uint64_t first, uint64_t element) {
      // the piece begins at element `first`
      store_element(piece - first * bytes_each, fill, element);
    });
  }

  struct alignas(64) Parameter {
    unsigned char bytes[PARAMETER_BYTES] = {};
  };

  void *address_of(const std::string &buffer) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (options_.inputs[i].name == buffer)
        return inputs_[i].as<void>();
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (options_.outputs[i].name == buffer)
        return outputs_[i].as<void>();
    }
    return workspace_.as<void>();
  }

  void encode_argument(const Launch &launch, const Argument &argument, Parameter &to) const {
    if (argument.kind == "tensor_map") {
      for (const TensorMap &map : launch.arguments.tensor_maps) {
        if (map.name == argument.name) {
          const CUtensorMap encoded = encode(map, address_of(map.buffer));
          std::memcpy(to.bytes, &encoded, sizeof encoded);
        }
      }
    } else if (argument.kind == "buffer") {
      void *const address = address_of(argument.name);
      std::memcpy(to.bytes, &address, sizeof address);
    } else if (argument.kind == "f32") {
      const float number = static_cast<float>(argument.real);
      std::memcpy(to.bytes, &number, sizeof number);
    } else if (argument.kind == "f64") {
      std::memcpy(to.bytes, &argument.real, sizeof argument.real);
    } else { // little endian: the lower bytes of a smaller type come first
      std::memcpy(to.bytes, &argument.number, sizeof argument.number);
    }
  }

  const Options &options_;
  std::vector<DeviceMemory> inputs_, outputs_;
  DeviceMemory workspace_;
  std::vector<Parameter> parameters_;
  std::vector<void *> pointers_;
};

template <class Operation> class OperationSession {
public:
  OperationSession(const Options &options, Result &result, Watchdog &watchdog)
      : options_(options), result_(result), watchdog_(watchdog) {
    doing("looking at the device");
    KERNELRIG_CUDA(cudaSetDevice(options.device));
    KERNELRIG_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    result_.device = device_facts(options.device);
    cudaFuncAttributes attributes{};
    KERNELRIG_CUDA(cudaFuncGetAttributes(&attributes, kernel())); // wrong device: 209
    nvml_ = std::make_unique<Nvml>(result_.device.uuid);
    result_.device.driver = nvml_->driver();
    result_.before = nvml_->read();
    launch_ = checked_launch<Operation>(options, result_.device.sm_count);
    if (launch_.geometry.dynamic_smem_bytes > 0) {
      KERNELRIG_CUDA(cudaFuncSetAttribute(kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(launch_.geometry.dynamic_smem_bytes)));
    }
  }

  void run() {
    if (options_.mode == Mode::CHECK)
      check();
    else if (options_.mode == Mode::ONCE)
      once();
    else
      time();
    result_.after = nvml_->read();
    std::printf("%s on %s, grid of %d CTAs, %s\n", Operation::ENTRY, result_.device.name.c_str(),
                launch_.geometry.ctas(), pattern_name(options_.pattern));
  }

private:
  static const void *kernel() { return reinterpret_cast<const void *>(Operation::KERNEL); }
  void doing(const std::string &what) { watchdog_.doing(what, result_); }

  void launch(const TensorSet &set) const {
    const LaunchConfig config(launch_.geometry, stream_);
    KERNELRIG_CUDA(cudaLaunchKernelExC(config.get(), kernel(), set.parameters()));
  }

  // Fresh inputs and outputs, one launch; returns the bytes of each output.
  std::vector<std::vector<uint8_t>> launched(const TensorSet &set, int canary) {
    doing(std::string("filling inputs, ") + pattern_name(options_.pattern));
    set.fill(options_.pattern, options_.seed, canary, stream_);
    set.spoil_workspace(canary, stream_);
    doing(std::string("the kernel, ") + pattern_name(options_.pattern) + " pattern");
    launch(set);
    KERNELRIG_CUDA(cudaStreamSynchronize(stream_));
    return outputs_of(set);
  }

  std::vector<std::vector<uint8_t>> outputs_of(const TensorSet &set) {
    doing("reading the outputs");
    std::vector<std::vector<uint8_t>> outputs;
    for (size_t i = 0; i < options_.outputs.size(); ++i) {
      outputs.emplace_back(set.output(i).bytes());
      KERNELRIG_CUDA(cudaMemcpy(outputs[i].data(), set.output(i).as<void>(), outputs[i].size(),
                                cudaMemcpyDeviceToHost));
    }
    return outputs;
  }

  void check() {
    const TensorSet set(options_, launch_);
    const auto first = launched(set, CANARIES[0]), second = launched(set, CANARIES[1]);
    write_outputs(first);
    for (size_t i = 0; i < first.size(); ++i) {
      if (!options_.outputs[i].initial.empty())
        continue; // without a canary, nothing tells what was written
      count_unwritten(first[i], second[i], options_.outputs[i].facts().bytes, result_.outputs[i]);
      if (result_.outputs[i].unwritten > 0)
        result_.exit_code = EXIT_MISMATCH;
    }
  }

  static void count_unwritten(const std::vector<uint8_t> &first, const std::vector<uint8_t> &second,
                              unsigned bytes_each, OutputFacts &output) {
    for (uint64_t i = 0; i < output.elements; ++i) {
      bool kept = true;
      for (uint64_t byte = i * bytes_each; byte < (i + 1) * bytes_each; ++byte)
        kept = kept && first[byte] == CANARIES[0] && second[byte] == CANARIES[1];
      if (kept && output.unwritten++ == 0)
        output.first_unwritten = i;
    }
  }

  // Beside the result file: RESULT.json -> RESULT.NAME.npy.
  void write_outputs(const std::vector<std::vector<uint8_t>> &outputs) {
    doing("writing the outputs");
    const size_t dot = options_.result.rfind(".json");
    const std::string stem = options_.result.substr(0, dot);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TensorSpec &tensor = options_.outputs[i];
      std::string file = npy_head(tensor.facts().npy, tensor.shape);
      file.append(reinterpret_cast<const char *>(outputs[i].data()), outputs[i].size());
      const std::string path = stem + "." + tensor.name + ".npy";
      const std::string error = write_whole(path, file.data(), file.size());
      if (!error.empty())
        throw Failure{EXIT_CUDA, "kernelrigOutput", 0, error, source_place(__FILE__, __LINE__)};
      const std::string name = path.substr(path.rfind('/') + 1);
      result_.outputs.push_back({tensor.name, name, tensor.elements(), 0, 0});
    }
  }

  // No other kernel: inputs and the canary are copied, and the workspace stays uninitialised, so
  // that initcheck sees a read of it. What a kernel adds to is copied anew for each launch.
  void once() {
    doing("filling inputs on the host");
    const TensorSet set(options_, launch_);
    set.copy_inputs(options_.pattern, options_.seed);
    set.copy_canary(CANARIES[0]);
    doing("the kernel");
    for (int i = 0; i < options_.samples; ++i) {
      set.copy_initial(options_.pattern, options_.seed);
      KERNELRIG_CUDA(cudaDeviceSynchronize()); // a copy may return before its last bytes are there
      launch(set);
      KERNELRIG_CUDA(cudaStreamSynchronize(stream_));
    }
    write_outputs(outputs_of(set));
  }

  // What timing.cuh times.
  class Rotation {
  public:
    Rotation(const OperationSession &session, const std::vector<std::unique_ptr<TensorSet>> &all,
             int samples)
        : session_(session), all_(all), samples_(samples) {
      for (const int sample : spot_checked_samples(session.options_.seed, samples))
        checked_.emplace(sample, static_cast<int>(checked_.size()));
      for (const TensorSpec &tensor : session.options_.outputs) {
        const uint64_t count = std::min<uint64_t>(SPOT_PLACES, tensor.elements());
        taken_.emplace_back(checked_.size() * count * sizeof(uint64_t));
      }
      places_.resize(taken_.size());
      for (size_t i = 0; i < places_.size(); ++i)
        upload_places(i);
    }

    int sets() const { return static_cast<int>(all_.size()); }
    void launch(long long i) const { session_.launch(*all_[i % sets()]); }

    void before(int sample) const {
      if (sample % session_.options_.samples != 0)
        return; // not the first one after a load, which has launched on all sets
      for (int next = sample; next < sample + sets(); ++next)
        renew(next);
    }

    void after(int sample) const {
      const auto found = checked_.find(sample);
      if (found != checked_.end())
        take(sample, found->second);
      if (sample != samples_ - 1)
        renew(sample + sets());
    }

    // Once the stream has come to its end.
    std::vector<TimedOutput> read() const {
      std::vector<TimedOutput> outputs;
      for (const auto &[sample, number] : checked_) {
        for (size_t i = 0; i < taken_.size(); ++i) {
          const TensorSpec &tensor = session_.options_.outputs[i];
          TimedOutput output{sample, tensor.name, std::vector<uint64_t>(count_of(tensor))};
          KERNELRIG_CUDA(cudaMemcpy(output.bits.data(),
                                    taken_[i].template as<uint64_t>() + number * count_of(tensor),
                                    output.bits.size() * sizeof(uint64_t),
                                    cudaMemcpyDeviceToHost));
          outputs.push_back(output);
        }
      }
      return outputs;
    }

  private:
    static uint64_t count_of(const TensorSpec &tensor) {
      return std::min<uint64_t>(SPOT_PLACES, tensor.elements());
    }

    void renew(int sample) const {
      const TensorSet &set = *all_[sample % sets()];
      set.fill(Pattern::RANDOM, timed_seed(session_.options_.seed, sample), CANARIES[0],
               session_.stream_);
    }

    void upload_places(size_t output) {
      const Options &options = session_.options_;
      std::vector<unsigned long long> all;
      for (const auto &[sample, number] : checked_) {
        const auto places =
            spot_places(options.seed, sample, options.outputs[output].elements());
        all.insert(all.end(), places.begin(), places.end());
      }
      places_[output] = std::make_unique<DeviceMemory>(all.size() * sizeof(unsigned long long));
      if (!all.empty()) {
        KERNELRIG_CUDA(cudaMemcpy(places_[output]->template as<void>(), all.data(),
                                  places_[output]->bytes(), cudaMemcpyHostToDevice));
      }
    }

    void take(int sample, int number) const {
      const TensorSet &set = *all_[sample % sets()];
      for (size_t i = 0; i < taken_.size(); ++i) {
        const TensorSpec &tensor = session_.options_.outputs[i];
        const unsigned count = static_cast<unsigned>(count_of(tensor));
        gather_elements<<<1, SPOT_PLACES, 0, session_.stream_>>>(
            set.output(i).template as<uint8_t>(), tensor.facts().bytes,
            places_[i]->template as<unsigned long long>() + number * count, count,
            taken_[i].template as<uint64_t>() + number * count);
        KERNELRIG_CUDA(cudaGetLastError());
      }
    }

    const OperationSession &session_;
    const std::vector<std::unique_ptr<TensorSet>> &all_;
    const int samples_;
    std::map<int, int> checked_; // sample -> its number among the spot-checked ones
    std::vector<DeviceMemory> taken_;
    std::vector<std::unique_ptr<DeviceMemory>> places_;
  };

  void time() {
    doing("filling inputs to rotate over");
    std::vector<std::unique_ptr<TensorSet>> sets;
    size_t bytes = 0;
    const size_t enough = 3 * static_cast<size_t>(result_.device.l2_bytes);
    while (sets.size() < 2 || (bytes <= enough && sets.size() < MAX_SETS)) {
      sets.push_back(std::make_unique<TensorSet>(options_, launch_));
      sets.back()->fill(Pattern::RANDOM, options_.seed + sets.size() - 1, CANARIES[0], stream_);
      sets.back()->spoil_workspace(CANARIES[0], stream_);
      bytes += sets.back()->bytes();
    }
    const int samples = timed_samples(options_);
    const Rotation work(*this, sets, samples);
    KERNELRIG_CUDA(cudaDeviceSynchronize()); // a copy may return before its last bytes are there
    TimedLoop(options_, result_, watchdog_, *nvml_, stream_).run(work);
    KERNELRIG_CUDA(cudaStreamSynchronize(stream_));
    result_.timed_outputs = work.read();
    write_outputs(outputs_of(*sets[(samples - 1) % work.sets()]));
    std::printf("%.4f ms, median of %zu samples, %s\n", median(result_.samples_ms),
                result_.samples_ms.size(), result_.regime.c_str());
  }

  const Options &options_;
  Result &result_;
  Watchdog &watchdog_;
  Launch launch_;
  std::unique_ptr<Nvml> nvml_;
  cudaStream_t stream_ = nullptr;
};

} // namespace kernelrig

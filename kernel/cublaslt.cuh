// cuBLASLt, loaded at run time: only its header is needed to build, nothing of it is linked.
//
// An `Operation` is D[rows, n] = A[rows, k] x B[n, k]^T of this project in the library's terms. The
// library is column-major: its first operand is our B (transposed), its second our A, its D our C
// with rows and columns exchanged, so that its bias, one number per row of D, is ours along n.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <vector>

#include "failure.cuh"
#include "shared_library.cuh"

namespace kernelrig {

class Cublaslt {
public:
  // The library of this process. Throws Failure if it is not there.
  static const Cublaslt &get() {
    static const Cublaslt library;
    return library;
  }

  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetVersion) get_version;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic;
  decltype(&cublasLtMatmulDescCreate) create_desc;
  decltype(&cublasLtMatmulDescDestroy) destroy_desc;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetIds) get_ids;
  decltype(&cublasLtMatmulAlgoInit) init_algo;
  decltype(&cublasLtMatmulAlgoCheck) check_algo;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) get_cap;
  decltype(&cublasLtMatmulAlgoConfigSetAttribute) set_config;

  void require(cublasStatus_t status, const char *file, int line) const {
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw Failure{EXIT_CUDA, status_name(status), static_cast<int>(status), status_text(status),
                    source_place(file, line)};
    }
  }

  std::string version() const { return "cuBLASLt " + std::to_string(get_version()); }

private:
  Cublaslt() : library_("KERNELRIG_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (!library_.refusal().empty())
      refuse("no cuBLASLt: " + library_.refusal());
    find(create, "cublasLtCreate");
    find(get_version, "cublasLtGetVersion");
    find(status_name, "cublasLtGetStatusName");
    find(status_text, "cublasLtGetStatusString");
    find(matmul, "cublasLtMatmul");
    find(get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
    find(create_desc, "cublasLtMatmulDescCreate");
    find(destroy_desc, "cublasLtMatmulDescDestroy");
    find(set_desc, "cublasLtMatmulDescSetAttribute");
    find(create_layout, "cublasLtMatrixLayoutCreate");
    find(destroy_layout, "cublasLtMatrixLayoutDestroy");
    find(set_layout, "cublasLtMatrixLayoutSetAttribute");
    find(create_preference, "cublasLtMatmulPreferenceCreate");
    find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
    find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
    find(get_ids, "cublasLtMatmulAlgoGetIds");
    find(init_algo, "cublasLtMatmulAlgoInit");
    find(check_algo, "cublasLtMatmulAlgoCheck");
    find(get_cap, "cublasLtMatmulAlgoCapGetAttribute");
    find(set_config, "cublasLtMatmulAlgoConfigSetAttribute");
    require(create(&handle), __FILE__, __LINE__);
  }

  template <class Function> void find(Function &function, const char *name) {
    function = library_.find<Function>(name);
    if (function == nullptr)
      refuse(std::string("this cuBLASLt has no ") + name);
  }

  [[noreturn]] static void refuse(const std::string &sentence) {
    throw Failure{EXIT_CUDA, "cublasLtMissing", 0, sentence, source_place(__FILE__, __LINE__)};
  }

  SharedLibrary library_;
};

#define KERNELRIG_CUBLASLT_CALL(call)                                                              \
  ::kernelrig::Cublaslt::get().require((call), __FILE__, __LINE__)

// `batches` products of `rows` rows of A with the same B. A and D of the batches are contiguous; C,
// if there is one, is the same for every batch.
class Operation {
public:
  Operation(int batches, int rows, int n, int k, const uint16_t *bias) {
    const Cublaslt &lt = Cublaslt::get();
    KERNELRIG_CUBLASLT_CALL(lt.create_desc(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    if (bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
    const int64_t out = static_cast<int64_t>(rows) * n;
    b_ = layout(CUDA_R_8F_E4M3, k, n, batches, 0);
    a_ = layout(CUDA_R_8F_E4M3, k, rows, batches, static_cast<int64_t>(rows) * k);
    c_ = layout(CUDA_R_16BF, n, rows, batches, 0);
    d_ = layout(CUDA_R_16BF, n, rows, batches, out);
  }
  Operation(const Operation &) = delete;
  Operation &operator=(const Operation &) = delete;
  ~Operation() {
    const Cublaslt &lt = Cublaslt::get();
    for (const cublasLtMatrixLayout_t layout : {a_, b_, c_, d_})
      lt.destroy_layout(layout);
    lt.destroy_desc(desc_);
  }

  // The algorithms that the library's heuristics return for this operation, best first; `has_c`:
  // whether there is an addend.
  std::vector<cublasLtMatmulHeuristicResult_t> heuristics(bool has_c, size_t workspace_bytes,
                                                          int most) const {
    const Cublaslt &lt = Cublaslt::get();
    cublasLtMatmulPreference_t preference = nullptr;
    KERNELRIG_CUBLASLT_CALL(lt.create_preference(&preference));
    KERNELRIG_CUBLASLT_CALL(lt.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace_bytes, sizeof workspace_bytes));
    std::vector<cublasLtMatmulHeuristicResult_t> found(most);
    int count = 0;
    const cublasStatus_t status = lt.get_heuristic(lt.handle, desc_, b_, a_, addend(has_c), d_,
                                                   preference, most, found.data(), &count);
    lt.destroy_preference(preference);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
      count = 0;
    else
      KERNELRIG_CUBLASLT_CALL(status);
    found.resize(count);
    return found;
  }

  // Whether the library supports this operation with this algorithm and workspace.
  bool takes(const cublasLtMatmulAlgo_t &algo, bool has_c, size_t workspace_bytes) const {
    const Cublaslt &lt = Cublaslt::get();
    cublasLtMatmulHeuristicResult_t found{};
    return lt.check_algo(lt.handle, desc_, b_, a_, addend(has_c), d_, &algo, &found) ==
               CUBLAS_STATUS_SUCCESS &&
           found.state == CUBLAS_STATUS_SUCCESS && found.workspaceSize <= workspace_bytes;
  }

  // Every algorithm of the library in every configuration that supports this operation: tiles,
  // stages, clusters, order of the tiles, custom options. No split K, which would round partial
  // sums. At most `most_checks` configurations are checked; `checks` counts them.
  std::vector<cublasLtMatmulAlgo_t> enumerate(bool has_c, size_t workspace_bytes, int most_checks,
                                              int &checks) const {
    const Cublaslt &lt = Cublaslt::get();
    std::vector<int> ids(MOST_IDS);
    int count = 0;
    if (lt.get_ids(lt.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_8F_E4M3, CUDA_R_8F_E4M3,
                   CUDA_R_16BF, CUDA_R_16BF, MOST_IDS, ids.data(), &count) != CUBLAS_STATUS_SUCCESS)
      count = 0;
    ids.resize(count);
    std::vector<cublasLtMatmulAlgo_t> found;
    const int most_of_one = count == 0 ? 0 : most_checks / count;
    for (const int id : ids) {
      cublasLtMatmulAlgo_t algo;
      if (lt.init_algo(lt.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_8F_E4M3, CUDA_R_8F_E4M3,
                       CUDA_R_16BF, CUDA_R_16BF, id, &algo) != CUBLAS_STATUS_SUCCESS)
        continue;
      for (const Setting &set : settings_of(algo, most_of_one)) {
        ++checks;
        if (configure(algo, set) && takes(algo, has_c, workspace_bytes))
          found.push_back(algo);
      }
    }
    return found;
  }

  // `c` null: no addend.
  cublasStatus_t run(const uint8_t *a, const uint8_t *b, const uint16_t *c, uint16_t *d,
                     const cublasLtMatmulAlgo_t &algo, void *workspace, size_t workspace_bytes,
                     cudaStream_t stream) const {
    const Cublaslt &lt = Cublaslt::get();
    const float alpha = 1.0f, beta = c == nullptr ? 0.0f : 1.0f;
    return lt.matmul(lt.handle, desc_, &alpha, b, b_, a, a_, &beta, c == nullptr ? d : c,
                     addend(c != nullptr), d, d_, &algo, workspace, workspace_bytes, stream);
  }

private:
  static constexpr int MOST_IDS = 256;

  struct Setting {
    uint32_t tile, stages, swizzle, custom;
    uint16_t cluster;
  };

  template <class Value>
  static std::vector<Value> listed(const cublasLtMatmulAlgo_t &algo,
                                   cublasLtMatmulAlgoCapAttributes_t which, Value otherwise) {
    const Cublaslt &lt = Cublaslt::get();
    size_t bytes = 0;
    std::vector<Value> values;
    if (lt.get_cap(&algo, which, nullptr, 0, &bytes) == CUBLAS_STATUS_SUCCESS && bytes > 0) {
      values.resize(bytes / sizeof(Value));
      if (lt.get_cap(&algo, which, values.data(), bytes, &bytes) != CUBLAS_STATUS_SUCCESS)
        values.clear();
    }
    return values.empty() ? std::vector<Value>{otherwise} : values;
  }

  static std::vector<Setting> settings_of(const cublasLtMatmulAlgo_t &algo, int most) {
    const auto tiles =
        listed<uint32_t>(algo, CUBLASLT_ALGO_CAP_TILE_IDS, CUBLASLT_MATMUL_TILE_UNDEFINED);
    const auto stages =
        listed<uint32_t>(algo, CUBLASLT_ALGO_CAP_STAGES_IDS, CUBLASLT_MATMUL_STAGES_UNDEFINED);
    const uint32_t swizzles = listed<uint32_t>(algo, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT, 0)[0];
    const auto customs = listed<int32_t>(algo, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, 0)[0];
    std::vector<Setting> settings;
    // tile and stages vary fastest, so that a limit cuts off the less important options
    for (int custom = 0; custom <= customs; ++custom) {
      for (uint32_t swizzle = 0; swizzle <= (swizzles != 0 ? 1u : 0u); ++swizzle) {
        for (const cublasLtClusterShape_t cluster :
             {CUBLASLT_CLUSTER_SHAPE_AUTO, CUBLASLT_CLUSTER_SHAPE_2x1x1,
              CUBLASLT_CLUSTER_SHAPE_1x2x1, CUBLASLT_CLUSTER_SHAPE_1x1x1,
              CUBLASLT_CLUSTER_SHAPE_4x1x1, CUBLASLT_CLUSTER_SHAPE_1x4x1,
              CUBLASLT_CLUSTER_SHAPE_2x2x1}) {
          for (const uint32_t stage : stages) {
            for (const uint32_t tile : tiles) {
              if (settings.size() == static_cast<size_t>(most))
                return settings;
              settings.push_back({tile, stage, swizzle, static_cast<uint32_t>(custom),
                                  static_cast<uint16_t>(cluster)});
            }
          }
        }
      }
    }
    return settings;
  }

  static bool configure(cublasLtMatmulAlgo_t &algo, const Setting &set) {
    const Cublaslt &lt = Cublaslt::get();
    const auto put = [&](cublasLtMatmulAlgoConfigAttributes_t which, const auto &value) {
      return lt.set_config(&algo, which, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
    };
    return put(CUBLASLT_ALGO_CONFIG_TILE_ID, set.tile) &&
           put(CUBLASLT_ALGO_CONFIG_STAGES_ID, set.stages) &&
           put(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, set.swizzle) &&
           put(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, set.custom) &&
           put(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, set.cluster);
  }

  // Without an addend C has the layout of D: another layout would exclude algorithms.
  cublasLtMatrixLayout_t addend(bool has_c) const { return has_c ? c_ : d_; }

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value &value) const {
    KERNELRIG_CUBLASLT_CALL(Cublaslt::get().set_desc(desc_, attribute, &value, sizeof value));
  }

  static cublasLtMatrixLayout_t layout(cudaDataType_t type, int rows, int columns, int batches,
                                       int64_t stride) {
    const Cublaslt &lt = Cublaslt::get();
    cublasLtMatrixLayout_t layout = nullptr;
    KERNELRIG_CUBLASLT_CALL(lt.create_layout(&layout, type, rows, columns, rows));
    if (batches > 1) {
      const int32_t count = batches;
      KERNELRIG_CUBLASLT_CALL(
          lt.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
      KERNELRIG_CUBLASLT_CALL(lt.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &stride, sizeof stride));
    }
    return layout;
  }

  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr, d_ = nullptr;
};

} // namespace kernelrig

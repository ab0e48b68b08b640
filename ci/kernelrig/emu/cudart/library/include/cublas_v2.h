// The types of cuBLAS, and the names of its functions, for programs that include its header: those
// that call none run. Whoever calls one is refused by its name, as its kernels come without PTX.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

typedef struct cublasContext *cublasHandle_t;
typedef cudaDataType cublasDataType_t;
typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2, CUBLAS_OP_CONJG = 3 } cublasOperation_t;
typedef enum { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_FILL_MODE_FULL = 2 } cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 } cublasSideMode_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 } cublasAtomicsMode_t;
typedef enum {
  CUBLAS_GEMM_DFALT = -1,
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_GEMM_ALGO0 = 0,
  CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
  CUBLAS_GEMM_DFALT_TENSOR_OP = 99
} cublasGemmAlgo_t;
typedef enum {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3
} cublasMath_t;
typedef enum {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_16F_PEDANTIC = 65,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71,
  CUBLAS_COMPUTE_32I = 72,
  CUBLAS_COMPUTE_32I_PEDANTIC = 73,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;

static inline const char *cublasGetStatusName(cublasStatus_t status) {
  return status ? "a status of cuBLAS" : "CUBLAS_STATUS_SUCCESS";
}
static inline const char *cublasGetStatusString(cublasStatus_t status) {
  return status ? "cuBLAS is not here" : "success";
}

#define KERNELRIG_NAMED(name) cublasStatus_t name(...);
#define KERNELRIG_OF_TYPES(name) \
  KERNELRIG_NAMED(cublasS##name) \
  KERNELRIG_NAMED(cublasD##name) \
  KERNELRIG_NAMED(cublasC##name) \
  KERNELRIG_NAMED(cublasZ##name)
#ifdef __cplusplus
extern "C" {
KERNELRIG_NAMED(cublasCreate)
KERNELRIG_NAMED(cublasDestroy)
KERNELRIG_NAMED(cublasGetVersion)
KERNELRIG_NAMED(cublasSetStream)
KERNELRIG_NAMED(cublasGetStream)
KERNELRIG_NAMED(cublasSetMathMode)
KERNELRIG_NAMED(cublasGetMathMode)
KERNELRIG_NAMED(cublasSetPointerMode)
KERNELRIG_NAMED(cublasGetPointerMode)
KERNELRIG_NAMED(cublasSetAtomicsMode)
KERNELRIG_NAMED(cublasSetWorkspace)
KERNELRIG_NAMED(cublasSetVector)
KERNELRIG_NAMED(cublasGetVector)
KERNELRIG_NAMED(cublasSetMatrix)
KERNELRIG_NAMED(cublasGetMatrix)
KERNELRIG_NAMED(cublasHgemm)
KERNELRIG_NAMED(cublasHgemmBatched)
KERNELRIG_NAMED(cublasHgemmStridedBatched)
KERNELRIG_NAMED(cublasSgemmEx)
KERNELRIG_NAMED(cublasGemmEx)
KERNELRIG_NAMED(cublasGemmBatchedEx)
KERNELRIG_NAMED(cublasGemmStridedBatchedEx)
KERNELRIG_NAMED(cublasGemmGroupedBatchedEx)
KERNELRIG_NAMED(cublasIsamax)
KERNELRIG_NAMED(cublasIdamax)
KERNELRIG_NAMED(cublasSnrm2)
KERNELRIG_NAMED(cublasDnrm2)
KERNELRIG_NAMED(cublasSasum)
KERNELRIG_NAMED(cublasDasum)
KERNELRIG_NAMED(cublasSdot)
KERNELRIG_NAMED(cublasDdot)
KERNELRIG_NAMED(cublasDotEx)
KERNELRIG_NAMED(cublasAxpyEx)
KERNELRIG_NAMED(cublasScalEx)
KERNELRIG_NAMED(cublasNrm2Ex)
KERNELRIG_NAMED(cublasSger)
KERNELRIG_NAMED(cublasDger)
KERNELRIG_OF_TYPES(axpy)
KERNELRIG_OF_TYPES(copy)
KERNELRIG_OF_TYPES(scal)
KERNELRIG_OF_TYPES(swap)
KERNELRIG_OF_TYPES(gemv)
KERNELRIG_OF_TYPES(gemm)
KERNELRIG_OF_TYPES(gemmBatched)
KERNELRIG_OF_TYPES(gemmStridedBatched)
KERNELRIG_OF_TYPES(geam)
KERNELRIG_OF_TYPES(dgmm)
KERNELRIG_OF_TYPES(symm)
KERNELRIG_OF_TYPES(syrk)
KERNELRIG_OF_TYPES(trmm)
KERNELRIG_OF_TYPES(trsm)
KERNELRIG_OF_TYPES(trsv)
KERNELRIG_OF_TYPES(getrfBatched)
KERNELRIG_OF_TYPES(getriBatched)
}
#endif

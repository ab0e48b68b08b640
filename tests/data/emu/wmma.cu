// nvcuda::wmma in the shapes, types and layouts that tests/emu/wmma_cases.py names: D = A x B + C.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda::wmma;

template <class T, class D, int M, int N, int K, class LayoutA, class LayoutB, class Stored>
__device__ void product(const T* a, const T* b, const D* c, D* d, int lda, int ldb, int ldc,
                        layout_t layout) {
  fragment<matrix_a, M, N, K, Stored, LayoutA> of_a;
  fragment<matrix_b, M, N, K, Stored, LayoutB> of_b;
  fragment<accumulator, M, N, K, D> sums;
  load_matrix_sync(of_a, a, lda);
  load_matrix_sync(of_b, b, ldb);
  load_matrix_sync(sums, c, ldc, layout);
  mma_sync(sums, of_a, of_b, sums);
  store_matrix_sync(d, sums, ldc, layout);
}

#define KERNEL(name, T, D, M, N, K, LayoutA, LayoutB, Stored, layout)                             \
  extern "C" __global__ void name(const T* a, const T* b, const D* c, D* d, int lda, int ldb,     \
                                  int ldc) {                                                      \
    product<T, D, M, N, K, LayoutA, LayoutB, Stored>(a, b, c, d, lda, ldb, ldc, layout);          \
  }
KERNEL(k0, half, float, 16, 16, 16, row_major, col_major, half, mem_row_major)
KERNEL(k1, half, half, 16, 16, 16, col_major, row_major, half, mem_col_major)
KERNEL(k2, half, float, 8, 32, 16, row_major, row_major, half, mem_row_major)
KERNEL(k3, half, half, 32, 8, 16, col_major, col_major, half, mem_row_major)
KERNEL(k4, __nv_bfloat16, float, 16, 16, 16, row_major, row_major, __nv_bfloat16, mem_col_major)
KERNEL(k5, __nv_bfloat16, float, 8, 32, 16, col_major, col_major, __nv_bfloat16, mem_row_major)
KERNEL(k6, signed char, int, 16, 16, 16, row_major, col_major, signed char, mem_row_major)
KERNEL(k7, unsigned char, int, 32, 8, 16, row_major, row_major, unsigned char, mem_col_major)
KERNEL(k8, float, float, 16, 16, 8, row_major, col_major, precision::tf32, mem_row_major)
KERNEL(k9, double, double, 8, 8, 4, row_major, col_major, double, mem_row_major)
KERNEL(k10, signed char, int, 8, 32, 16, col_major, row_major, signed char, mem_row_major)
KERNEL(k11, double, double, 8, 8, 4, col_major, row_major, double, mem_col_major)

// The harness's reference, asked to compare outputs of which three are wrong, and none.
#include <cstdio>

#include "reference.cuh"

using namespace kernelrig;

constexpr int M = 4110, N = 70, K = 32, ROWS_PER_IMAGE = 6;

int main() {
  Problem problem{};
  problem.m = M;
  problem.n = N;
  problem.k = K;
  problem.rows_per_image = ROWS_PER_IMAGE;
  const ReferenceProblem p{M, N, K, ROWS_PER_IMAGE, problem.function, Pattern::INTEGER,
                           input_bases(0), 0.0f};
  std::vector<uint16_t> c(static_cast<size_t>(M) * N);
  for (int row = 0; row < M; ++row)
    for (int column = 0; column < N; ++column)
      c[static_cast<size_t>(row) * N + column] = wanted_at(p, row, column).bits;
  uint16_t *device = nullptr;
  cudaMalloc(&device, c.size() * 2);
  for (const bool wrong : {false, true}) {
    if (wrong) {
      c[0] ^= 1;
      c[static_cast<size_t>(127) * N + 63] = 0x7FC0; // NaN, in the same tile
      c[static_cast<size_t>(M) * N - 1] ^= 1;
    }
    cudaMemcpy(device, c.data(), c.size() * 2, cudaMemcpyHostToDevice);
    Result result;
    result.compared = compare_all(problem, Pattern::INTEGER, 0, 0.0f, device, nullptr);
    Json json;
    json.open('{');
    append_comparison(json, "compared", result.compared);
    std::printf("%s;\n", json.close('}').text().c_str());
  }
}

// A program of level 1 for boxes without a GPU: it answers a harness's command line with the result
// file that it is told, TOLD/<mode>-<pattern>-<seed>.json or of TOLD/<its GPU>, and describes its launch. What it is judged by is all real: the
// build, its cubin, the way to the host and back, and every verdict on what came back.

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

__global__ void patch_embed_gemm(float *out) { out[threadIdx.x] = 1.0f; }

int main(int argc, char **argv) {
  std::string mode, pattern, seed, result, out;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--mode")
      mode = argv[i + 1];
    else if (flag == "--pattern")
      pattern = argv[i + 1];
    else if (flag == "--seed")
      seed = argv[i + 1];
    else if (flag == "--result")
      result = argv[i + 1];
    else if (flag == "--out")
      out = argv[i + 1];
  }
  if (mode == "describe") {
    std::ofstream launch(out + "/launch.json");
    launch << R"({"block": [32, 1, 1], "cluster": [1, 1, 1], "dynamic_smem_bytes": 0})";
    return launch ? 0 : 2;
  }
  const char *told = std::getenv("TOLD");
  if (!told || result.empty())
    return 2;
  if (mode == "time") // as long as its samples add up to
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  const std::string name = "/" + mode + "-" + pattern + "-" + seed + ".json";
  const char *gpu = std::getenv("CUDA_VISIBLE_DEVICES"); // the one that the result names
  std::ifstream from(std::string(told) + "/" + (gpu ? gpu : "") + name);
  if (!from)
    from.open(std::string(told) + name);
  std::ofstream to(result);
  to << from.rdbuf();
  return from && to ? 0 : 2;
}

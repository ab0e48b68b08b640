// A plain program that hangs if it finds TOLD/hang: it then waits as one whose kernel does not end,
// with the pipe of the CUDA driver for dump requests. It needs no GPU; its code is real.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

__global__ void stuck(float *out) {
  if (threadIdx.x < 32)
    out[0] = 1.0f;
  __syncthreads(); // the other warps have left
  out[threadIdx.x] = 1.0f;
}

int main() {
  const char *told = std::getenv("TOLD"), *pipe = std::getenv("CUDA_COREDUMP_PIPE");
  if (!told || !pipe)
    return 2;
  if (access((std::string(told) + "/hang").c_str(), F_OK) == 0) {
    std::string name = pipe;
    name.replace(name.find("%p"), 2, std::to_string(getpid()));
    mkfifo(name.c_str(), 0600);
    pause();
  }
  std::puts("done");
  return 0;
}

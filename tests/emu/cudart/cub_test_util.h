// What CUB's examples take from its test folder, which the package lacks: arguments, comparisons.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <cub/util_debug.cuh>
#include <cub/util_device.cuh>

struct CommandLineArgs {
    std::vector<std::string> words;
    CommandLineArgs(int argc, char** argv) : words(argv + 1, argv + argc) {}

    bool CheckCmdLineFlag(const char* name) {
        for (const std::string& word : words)
            if (word.rfind(std::string("--") + name, 0) == 0) return true;
        return false;
    }

    template <typename T>
    void GetCmdLineArgument(const char* name, T& value) {
        const std::string start = std::string("--") + name + "=";
        for (const std::string& word : words)
            if (word.rfind(start, 0) == 0) std::istringstream(word.substr(start.size())) >> value;
    }

    cudaError_t DeviceInit() { return cudaSetDevice(0); }
};

#ifndef CUB_MIN
#define CUB_MIN(a, b) (((b) < (a)) ? (b) : (a))
#endif
#ifndef CUB_MAX
#define CUB_MAX(a, b) (((b) > (a)) ? (b) : (a))
#endif

template <typename To, typename From>
To SafeBitCast(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
}

struct GpuTimer {
    cudaEvent_t start, stop;
    GpuTimer() {
        cudaEventCreate(&start);
        cudaEventCreate(&stop);
    }
    void Start() { cudaEventRecord(start); }
    void Stop() { cudaEventRecord(stop); }
    float ElapsedMillis() {
        float ms = 0;
        cudaEventSynchronize(stop);
        cudaEventElapsedTime(&ms, start, stop);
        return ms;
    }
};

template <typename T>
void RandomBits(T& key) {
    do {
        unsigned bits = static_cast<unsigned>(std::rand());
        std::memcpy(&key, &bits, sizeof(key) < sizeof(bits) ? sizeof(key) : sizeof(bits));
    } while (key != key);  // no NaN
}

template <typename T>
void DisplayResults(const T* values, size_t count) {
    for (size_t i = 0; i < count; ++i) std::cout << values[i] << (i + 1 < count ? ", " : "\n");
}

// 1 if an element differs from its reference; the bits of a NaN are compared like all others.
template <typename T>
int CompareDeviceResults(const T* wanted, const T* device, size_t count, bool verbose = true,
                         bool = false) {
    std::vector<T> got(count);
    CubDebugExit(cudaMemcpy(got.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; ++i) {
        if (std::memcmp(&got[i], &wanted[i], sizeof(T)) == 0) continue;
        if (verbose) std::cout << "INCORRECT: [" << i << "]: " << got[i] << " != " << wanted[i] << "\n";
        return 1;
    }
    return 0;
}

#define AssertEquals(a, b)                                               \
    if ((a) != (b)) {                                                    \
        std::cerr << "(" << __FILE__ << ": " << __LINE__ << ")\n";       \
        std::exit(1);                                                    \
    }

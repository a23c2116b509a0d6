// How a kernel is launched, on each machine; and what went wrong with the last launch.
#ifndef MONO_DEVICE_LAUNCH_HPP
#define MONO_DEVICE_LAUNCH_HPP

#include "platform.hpp"

namespace mono {

struct Grid {
    int x, y;
};

#if defined(MONO_HOST)

inline unsigned long long& host_seed() {
    static unsigned long long seed = 0;
    return seed;
}

inline const char* error_text() { return host::last_error().c_str(); }

template <class Kernel, class... Args>
int launch(Kernel kernel, Grid grid, long long lds_bytes, void*, const Args&... args) {
    const host::Launch how = {grid.x, grid.y, kThreads, kWave, lds_bytes, host_seed()};
    return host::launch(how, [&] { kernel(args...); }) ? 0 : 1;
}

#elif defined(MONO_CUDA)

inline cudaError_t& last_error() {
    static thread_local cudaError_t error = cudaSuccess;
    return error;
}

inline const char* error_text() { return cudaGetErrorString(last_error()); }

template <class Kernel, class... Args>
int launch(Kernel kernel, Grid grid, long long lds_bytes, void* stream, const Args&... args) {
    const int bytes = static_cast<int>(lds_bytes);
    last_error() = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (last_error() != cudaSuccess) return 1;
    kernel<<<dim3(grid.x, grid.y), kThreads, bytes, static_cast<cudaStream_t>(stream)>>>(args...);
    last_error() = cudaGetLastError();
    return last_error() == cudaSuccess ? 0 : 1;
}

#else

inline hipError_t& last_error() {
    static thread_local hipError_t error = hipSuccess;
    return error;
}

inline const char* error_text() { return hipGetErrorString(last_error()); }

// The LDS of a block is static: the compiler knows it.
template <class Kernel, class... Args>
int launch(Kernel kernel, Grid grid, long long, void* stream, const Args&... args) {
    kernel<<<dim3(grid.x, grid.y), kThreads, 0, static_cast<hipStream_t>(stream)>>>(args...);
    last_error() = hipGetLastError();
    return last_error() == hipSuccess ? 0 : 1;
}

#endif

}  // namespace mono

#if defined(MONO_HOST)
extern "C" __attribute__((visibility("default"))) void mono_set_seed(unsigned long long seed) { mono::host_seed() = seed; }
#endif

#endif

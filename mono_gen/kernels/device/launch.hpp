// How a kernel is launched, on each machine; and what went wrong with the last launch.
#ifndef MONO_DEVICE_LAUNCH_HPP
#define MONO_DEVICE_LAUNCH_HPP

#include "platform.hpp"

namespace mono {

struct Grid {
    int x, y;
};

struct NoShared {};

template <class Shared>
constexpr long long kLdsOf = sizeof(Shared);
template <>
constexpr long long kLdsOf<NoShared> = 0;

#if defined(MONO_HOST)

inline unsigned long long& host_seed() {
    static unsigned long long seed = 0;
    return seed;
}

inline const char* error_text() { return host::last_error().c_str(); }

template <class Shared, class Kernel, class... Args>
int launch(Kernel kernel, Grid grid, void*, const Args&... args) {
    const host::Launch how = {grid.x, grid.y, kThreads, kWave, kLdsOf<Shared>, host_seed()};
    return host::launch(how, [&] { kernel(args...); }) ? 0 : 1;
}

#elif defined(MONO_CUDA)

inline cudaError_t& last_error() {
    static thread_local cudaError_t error = cudaSuccess;
    return error;
}

inline const char* error_text() { return cudaGetErrorString(last_error()); }

template <class Shared, class Kernel, class... Args>
int launch_with(bool is_early, Kernel kernel, Grid grid, void* stream, const Args&... args) {
    constexpr int kBytes = static_cast<int>(kLdsOf<Shared>);
    last_error() = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (last_error() != cudaSuccess) return 1;
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y));
    how.blockDim = dim3(kThreads);
    how.dynamicSmemBytes = kBytes;
    how.stream = static_cast<cudaStream_t>(stream);
    how.attrs = &early;
    how.numAttrs = is_early ? 1 : 0;
    last_error() = cudaLaunchKernelEx(&how, kernel, args...);
    return last_error() == cudaSuccess ? 0 : 1;
}

template <class Shared, class Kernel, class... Args>
int launch(Kernel kernel, Grid grid, void* stream, const Args&... args) {
    return launch_with<Shared>(false, kernel, grid, stream, args...);
}

// Before the kernel in front of it has ended; it waits for what that one writes itself (wave::wait_for_inputs).
template <class Shared, class Kernel, class... Args>
int launch_early(Kernel kernel, Grid grid, void* stream, const Args&... args) {
    return launch_with<Shared>(true, kernel, grid, stream, args...);
}

#else

inline hipError_t& last_error() {
    static thread_local hipError_t error = hipSuccess;
    return error;
}

inline const char* error_text() { return hipGetErrorString(last_error()); }

// The LDS of a block is static: the compiler knows it.
template <class Shared, class Kernel, class... Args>
int launch(Kernel kernel, Grid grid, void* stream, const Args&... args) {
    static_cast<void>(hipGetLastError());  // what a call of somebody else left is no fault of this launch
    kernel<<<dim3(grid.x, grid.y), kThreads, 0, static_cast<hipStream_t>(stream)>>>(args...);
    last_error() = hipGetLastError();
    return last_error() == hipSuccess ? 0 : 1;
}

#endif

#if !defined(MONO_CUDA)
template <class Shared, class Kernel, class... Args>
int launch_early(Kernel kernel, Grid grid, void* stream, const Args&... args) {
    return launch<Shared>(kernel, grid, stream, args...);
}
#endif

}  // namespace mono

#if defined(MONO_HOST)
extern "C" __attribute__((visibility("default"))) void mono_set_seed(unsigned long long seed) { mono::host_seed() = seed; }
#endif

#endif

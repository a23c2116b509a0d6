// What the kernels take of HIP's runtime, declared: enough for clang to read them as hipcc does, for the host and the device.
#pragma once

typedef decltype(sizeof(0)) size_t;
enum hipError_t { hipSuccess = 0 };
enum hipMemcpyKind { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2 };
typedef struct ihipStream_t* hipStream_t;

struct dim3 {
    unsigned x, y, z;
    __attribute__((host)) __attribute__((device)) constexpr dim3(unsigned in_x = 1, unsigned in_y = 1, unsigned in_z = 1)
        : x(in_x), y(in_y), z(in_z) {}
};

extern "C" {
// What <<<>>> becomes.
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared, hipStream_t stream);
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, hipStream_t* stream);
hipError_t hipLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** args, size_t shared, hipStream_t stream);

__attribute__((warn_unused_result)) hipError_t hipGetLastError();
const char* hipGetErrorString(hipError_t error);
__attribute__((warn_unused_result)) hipError_t hipMalloc(void** at, size_t bytes);
__attribute__((warn_unused_result)) hipError_t hipFree(void* at);
__attribute__((warn_unused_result)) hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind kind);
__attribute__((warn_unused_result)) hipError_t hipMemset(void* at, int value, size_t bytes);
}

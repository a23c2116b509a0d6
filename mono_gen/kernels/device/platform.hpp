// The machine that a kernel is built for: attributes, the block's LDS, and the wave's operations, by the same names on
// all of them. Three builds of one source: AMD (clang -x hip, 64 lanes, MFMA), NVIDIA (nvcc, 32 lanes), and the host
// (any C++17 compiler, lanes as fibers, MFMA modelled).
#ifndef MONO_DEVICE_PLATFORM_HPP
#define MONO_DEVICE_PLATFORM_HPP

#if defined(__CUDACC__)
#define MONO_CUDA 1
#elif defined(__HIP__)
#define MONO_AMD 1
#else
#define MONO_HOST 1
#endif

#if defined(MONO_AMD)
#if !defined(MONO_DEVICE_ONLY)
#include <hip/hip_runtime.h>
#endif
#define MONO_DEVICE __attribute__((device)) __attribute__((always_inline)) inline
#define MONO_GLOBAL extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(mono::kThreads, mono::kThreads)))
#define MONO_LDS(type, name) MONO_FITS(type) __attribute__((shared)) type name
#elif defined(MONO_CUDA)
#define MONO_DEVICE __device__ __forceinline__
#define MONO_GLOBAL extern "C" __global__ __launch_bounds__(mono::kThreads, 2)
#define MONO_LDS(type, name)                         \
    MONO_FITS(type)                                  \
    extern __shared__ uint4 mono_lds_of_the_block[]; \
    type& name = *reinterpret_cast<type*>(mono_lds_of_the_block)
#else
#include "../host/mfma.hpp"  // the executor, and the MFMA modelled on it
#define MONO_DEVICE inline
#define MONO_GLOBAL extern "C"
#define MONO_LDS(type, name) MONO_FITS(type) type& name = ::mono::wave::lds<type>()
#endif

#define MONO_FITS(type) static_assert(sizeof(type) <= ::mono::kLdsBytes, #type " is more than the LDS of a block");

#if defined(__clang__) || defined(MONO_CUDA)
#define MONO_UNROLL _Pragma("unroll")
#else
#define MONO_UNROLL _Pragma("GCC unroll 16")
#endif

namespace mono {

constexpr int kThreads = 512;  // of a block, in every stage

#if defined(MONO_CUDA) || defined(MONO_HOST_WAVE32)
constexpr int kWave = 32;
#else
constexpr int kWave = 64;
#endif
constexpr int kWaves = kThreads / kWave;

// gfx942 reads fp8 as e4m3fnuz and has 64 KiB of LDS for a block; gfx950 reads e4m3fn and has 160; sm_90 has 227.
#if defined(MONO_FNUZ)
constexpr bool kFnuz = true;
constexpr int kLdsBytes = 64 * 1024;
#elif defined(MONO_CUDA)
constexpr bool kFnuz = false;
constexpr int kLdsBytes = 227 * 1024;
#else
constexpr bool kFnuz = false;
constexpr int kLdsBytes = 160 * 1024;
#endif

#if defined(MONO_AMD)

namespace wave {

MONO_DEVICE int thread() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
MONO_DEVICE int block_x() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
MONO_DEVICE int block_y() { return static_cast<int>(__builtin_amdgcn_workgroup_id_y()); }

MONO_DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// The value of the first lane, in a scalar register: the same in all lanes, and now the compiler knows.
MONO_DEVICE int uniform(int v) { return __builtin_amdgcn_readfirstlane(v); }

MONO_DEVICE float shuffle_xor(float v, int mask) {
    const int from = (thread() ^ mask) % kWave * 4;
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(from, __builtin_bit_cast(int, v)));
}

typedef float Floats4 __attribute__((ext_vector_type(4)));
typedef int Ints8 __attribute__((ext_vector_type(8)));
typedef short Shorts8 __attribute__((ext_vector_type(8)));
typedef unsigned Words4 __attribute__((ext_vector_type(4)));

enum class Elements { fp8 = 0, fp4 = 4 };  // as the instruction codes them

MONO_DEVICE void mfma_f32_16x16x32_fp8_fp8(const unsigned (&a)[2], const unsigned (&b)[2], float (&d)[4]) {
    const Floats4 c = {d[0], d[1], d[2], d[3]};
    const long wide_a = static_cast<long>(a[0] | static_cast<unsigned long>(a[1]) << 32);
    const long wide_b = static_cast<long>(b[0] | static_cast<unsigned long>(b[1]) << 32);
    const Floats4 r = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(wide_a, wide_b, c, 0, 0, 0);
    for (int i = 0; i < 4; ++i) d[i] = r[i];
}

#if !defined(MONO_FNUZ)
template <Elements kA, Elements kB, int kSelectA, int kSelectB>
MONO_DEVICE void mfma_scale_f32_16x16x128_f8f6f4(const unsigned (&a)[kA == Elements::fp8 ? 8 : 4],
                                                 const unsigned (&b)[kB == Elements::fp8 ? 8 : 4], float (&d)[4],
                                                 unsigned scale_a, unsigned scale_b) {
    Ints8 wide_a = {}, wide_b = {};
    for (int i = 0; i < (kA == Elements::fp8 ? 8 : 4); ++i) wide_a[i] = static_cast<int>(a[i]);
    for (int i = 0; i < (kB == Elements::fp8 ? 8 : 4); ++i) wide_b[i] = static_cast<int>(b[i]);
    const Floats4 c = {d[0], d[1], d[2], d[3]};
    const Floats4 r = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(
        wide_a, wide_b, c, static_cast<int>(kA), static_cast<int>(kB), kSelectA, static_cast<int>(scale_a), kSelectB,
        static_cast<int>(scale_b));
    for (int i = 0; i < 4; ++i) d[i] = r[i];
}
#endif

}  // namespace wave

#elif defined(MONO_CUDA)

namespace wave {

// A kernel that was launched early waits here for what the one before it writes; that one lets it start.
MONO_DEVICE void wait_for_inputs() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
MONO_DEVICE void let_next_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

MONO_DEVICE int thread() { return static_cast<int>(threadIdx.x); }
MONO_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
MONO_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
MONO_DEVICE void barrier() { __syncthreads(); }
MONO_DEVICE int uniform(int v) { return v; }  // the compiler has no scalar registers to put it in
MONO_DEVICE float shuffle_xor(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }

}  // namespace wave

#endif

#if !defined(MONO_CUDA)
namespace wave {
MONO_DEVICE void wait_for_inputs() {}  // launches follow each other whole
MONO_DEVICE void let_next_start() {}
}  // namespace wave
#endif

MONO_DEVICE int lane_index() { return wave::thread() % kWave; }

MONO_DEVICE float wave_sum(float v) {
    for (int mask = kWave / 2; mask > 0; mask /= 2) v += wave::shuffle_xor(v, mask);
    return v;
}

MONO_DEVICE float wave_max(float v) {
    for (int mask = kWave / 2; mask > 0; mask /= 2) {
        const float other = wave::shuffle_xor(v, mask);
        v = other > v || other != other ? other : v;  // a NaN stays
    }
    return v;
}

}  // namespace mono

#endif

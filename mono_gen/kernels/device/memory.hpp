// Loads and stores of 16 bytes, and the names by which stages call the layer's spec.
#ifndef MONO_DEVICE_MEMORY_HPP
#define MONO_DEVICE_MEMORY_HPP

#include "numbers.hpp"

namespace mono {

using Byte = unsigned char;

struct alignas(16) Quad {
    unsigned w[4];
};

// 16 bytes at a base, and an offset of the lane's own.
MONO_DEVICE Quad load16(const Byte* base, unsigned offset) { return *reinterpret_cast<const Quad*>(base + offset); }

// The same of weights: the base is the same in all lanes, and stays in scalar registers. Left to itself, clang adds the
// lane's offset to the first of a row of bases, or widens it outside a loop, and goes on in 64-bit vector registers: it is
// not told what a base and an offset have been before. hipcc reads all this a second time for the host, which has no such
// address space.
#if defined(MONO_AMD) && defined(__HIP_DEVICE_COMPILE__)
template <class T>
MONO_DEVICE T load_weights(const Byte* base, int lane) {
    using Global = const Byte __attribute__((address_space(1)))*;
    Global scalar = (Global)base;
    unsigned offset = static_cast<unsigned>(lane);  // never negative
    asm volatile("" : "+s"(scalar), "+v"(offset));
    return *reinterpret_cast<const T __attribute__((address_space(1)))*>(scalar + offset);
}
#else
template <class T>
MONO_DEVICE T load_weights(const Byte* base, int lane) {
    return *reinterpret_cast<const T*>(base + static_cast<unsigned>(lane));
}
#endif

MONO_DEVICE void store16(Byte* base, unsigned offset, const Quad& quad) {
    *reinterpret_cast<Quad*>(base + offset) = quad;
}

MONO_DEVICE float load_float(const void* base, long long offset) {
    return *reinterpret_cast<const float*>(static_cast<const Byte*>(base) + offset);
}

// 8 bf16 as floats.
MONO_DEVICE void widen(const Quad& quad, float (&values)[8]) {
    for (int i = 0; i < 4; ++i) {
        values[2 * i] = low_bf16(quad.w[i]);
        values[2 * i + 1] = high_bf16(quad.w[i]);
    }
}

MONO_DEVICE Quad narrowed(const float (&values)[8]) {
    Quad quad;
    for (int i = 0; i < 4; ++i) {
        quad.w[i] = bf16_of(values[2 * i]) | static_cast<unsigned>(bf16_of(values[2 * i + 1])) << 16;
    }
    return quad;
}

// Four fp8 in one word, the first lowest.
#if defined(MONO_CUDA) && !defined(MONO_DOT)
MONO_DEVICE unsigned fp8_word(const float* values) {
    unsigned short low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(values[1]), "f"(values[0]));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(values[3]), "f"(values[2]));
    return static_cast<unsigned>(low) | static_cast<unsigned>(high) << 16;
}
#else
MONO_DEVICE unsigned fp8_word(const float* values) {
    return fp8_of(values[0]) | fp8_of(values[1]) << 8 | fp8_of(values[2]) << 16 | fp8_of(values[3]) << 24;
}
#endif

}  // namespace mono

#endif

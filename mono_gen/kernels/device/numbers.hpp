// Numbers as bits: bf16, fp8, fp4, e8m0. Portable integer forms, the same bytes on every machine.
#ifndef MONO_DEVICE_NUMBERS_HPP
#define MONO_DEVICE_NUMBERS_HPP

#include "platform.hpp"

namespace mono {

MONO_DEVICE unsigned bits_of(float x) {
    unsigned bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
}

MONO_DEVICE float float_of(unsigned bits) {
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

MONO_DEVICE float absolute(float x) { return float_of(bits_of(x) & 0x7FFFFFFFu); }
MONO_DEVICE float larger(float a, float b) { return b > a || b != b ? b : a; }  // a NaN stays
MONO_DEVICE float smaller(float a, float b) { return b < a || b != b ? b : a; }

#if defined(MONO_CUDA)
MONO_DEVICE float exponential(float x) { return expf(x); }
MONO_DEVICE float square_root(float x) { return sqrtf(x); }
#else
MONO_DEVICE float exponential(float x) { return __builtin_expf(x); }
MONO_DEVICE float square_root(float x) { return __builtin_sqrtf(x); }
#endif
MONO_DEVICE float sigmoid_of(float x) { return 1.0f / (1.0f + exponential(-x)); }

MONO_DEVICE float low_bf16(unsigned pair) { return float_of(pair << 16); }
MONO_DEVICE float high_bf16(unsigned pair) { return float_of(pair & 0xFFFF0000u); }

// To nearest, ties to even; a NaN stays one.
MONO_DEVICE unsigned short bf16_of(float x) {
    const unsigned bits = bits_of(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<unsigned short>(bits >> 16 | 0x40u);
    return static_cast<unsigned short>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

MONO_DEVICE float rounded_to_bf16(float x) { return float_of(static_cast<unsigned>(bf16_of(x)) << 16); }

// The largest finite fp8 of the arch's dialect: e4m3fn, or e4m3fnuz on gfx942.
constexpr float kFp8Largest = kFnuz ? 240.0f : 448.0f;

// To nearest, ties to even, saturating; a NaN becomes the dialect's.
MONO_DEVICE unsigned fp8_of(float x) {
    constexpr int kBias = kFnuz ? 8 : 7;
    constexpr unsigned kSmallestNormal = static_cast<unsigned>(127 + 1 - kBias) << 23;
    // 2 ** 23 subnormal steps: what is added to it is rounded to a whole number of them.
    constexpr unsigned kSteps = static_cast<unsigned>(127 + 23 + 1 - kBias - 3) << 23;
    const unsigned magnitude = bits_of(x) & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return kFnuz ? 0x80u : 0x7Fu;
    unsigned code;
    if (magnitude >= kSmallestNormal) {
        code = ((magnitude + 0x7FFFFu + (magnitude >> 20 & 1u)) >> 20) - ((127 - kBias) << 3);
        constexpr unsigned kLast = kFnuz ? 0x7Fu : 0x7Eu;
        code = code > kLast ? kLast : code;
    } else {
        code = bits_of(float_of(magnitude) + float_of(kSteps)) - kSteps;
    }
    const unsigned sign = bits_of(x) >> 24 & 0x80u;
    return kFnuz && code == 0 ? 0u : sign | code;
}

// e4m3fn alone: gfx942 multiplies on the matrix cores only.
MONO_DEVICE float float_of_fp8(unsigned code) {
    const unsigned magnitude = code & 0x7Fu;
    const float value = float_of(magnitude << 20) * float_of((127u + 120u) << 23);
    return float_of(bits_of(magnitude == 0x7Fu ? float_of(0x7FC00000u) : value) | (code & 0x80u) << 24);
}

MONO_DEVICE float float_of_fp4(unsigned code) {
    return float_of((code & 0x7u) << 22 | (code & 0x8u) << 28) * float_of((127u + 126u) << 23);
}

// 2 ** (code - 127); 255 is NaN.
MONO_DEVICE float float_of_e8m0(unsigned code) {
    if (code == 0) return float_of(0x00400000u);
    return code == 255u ? float_of(0x7FC00000u) : float_of(code << 23);
}

// The scale of an MXFP8 block: the smallest power of two that brings `largest` within fp8, as e8m0, from 1 to 254; and
// NaN where there is none.
MONO_DEVICE unsigned e8m0_of_largest(float largest) {
    if (!(largest < float_of(0x7F800000u))) return 255u;
    const unsigned bits = bits_of(largest / 448.0f);
    const unsigned code = (bits >> 23) + ((bits & 0x7FFFFFu) != 0u ? 1u : 0u);
    return code < 1u ? 1u : code > 254u ? 254u : code;
}

}  // namespace mono

#endif

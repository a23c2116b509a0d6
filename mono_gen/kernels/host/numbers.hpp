// Small floats to float, exactly: OCP e4m3fn and e2m1 by table, bf16 by its bits, e8m0 as a double.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace mono {
namespace host __attribute__((visibility("hidden"))) {

constexpr double power_of_two(int exponent) {
    double value = 1;
    for (int i = 0; i < exponent; ++i) {
        value *= 2;
    }
    for (int i = 0; i > exponent; --i) {
        value /= 2;
    }
    return value;
}

// Sign, exponent and mantissa of so many bits, subnormals kept; no infinities, no NaNs.
constexpr float small_float(unsigned bits, int exponent_bits, int mantissa_bits) {
    const int steps = 1 << mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int mantissa = static_cast<int>(bits) % steps;
    const int exponent = static_cast<int>(bits >> mantissa_bits) % (1 << exponent_bits);
    const bool is_negative = ((bits >> (mantissa_bits + exponent_bits)) & 1) != 0;
    const double value = exponent == 0 ? mantissa * power_of_two(1 - bias - mantissa_bits)
                                       : (steps + mantissa) * power_of_two(exponent - bias - mantissa_bits);
    return static_cast<float>(is_negative ? -value : value);
}

struct Fp8Values {
    float of[256];
};

constexpr Fp8Values fp8_values() {
    Fp8Values values{};
    for (unsigned bits = 0; bits < 256; ++bits) {
        const bool is_nan = bits % 128 == 127;
        values.of[bits] = is_nan ? std::numeric_limits<float>::quiet_NaN() : small_float(bits, 4, 3);
    }
    return values;
}

struct Fp4Values {
    float of[16];
};

constexpr Fp4Values fp4_values() {
    Fp4Values values{};
    for (unsigned bits = 0; bits < 16; ++bits) {
        values.of[bits] = small_float(bits, 2, 1);
    }
    return values;
}

// 2^(bits - 127), which for 0 is less than the least normal float.
struct E8m0Values {
    double of[256];
};

constexpr E8m0Values e8m0_values() {
    E8m0Values values{};
    for (int bits = 0; bits < 255; ++bits) {
        values.of[bits] = power_of_two(bits - 127);
    }
    values.of[255] = std::numeric_limits<double>::quiet_NaN();
    return values;
}

inline constexpr Fp8Values kFp8 = fp8_values();
inline constexpr Fp4Values kFp4 = fp4_values();
inline constexpr E8m0Values kE8m0 = e8m0_values();

static_assert(kFp8.of[0x7E] == 448 && kFp8.of[0x01] == 1.0F / 512 && kFp8.of[0xB8] == -1, "e4m3fn, finite");
static_assert(kFp8.of[0x7F] != kFp8.of[0x7F] && kFp8.of[0xFF] != kFp8.of[0xFF], "e4m3fn, NaN");
static_assert(kFp4.of[0x1] == 0.5F && kFp4.of[0x7] == 6 && kFp4.of[0xF] == -6, "e2m1");
static_assert(kE8m0.of[127] == 1 && kE8m0.of[0] * kE8m0.of[254] == 1, "e8m0");

inline float bf16_value(unsigned bits) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
}

}  // namespace host
}  // namespace mono

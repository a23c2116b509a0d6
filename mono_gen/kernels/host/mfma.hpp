// The matrix instructions as a model: each lane hands in its registers, the last one multiplies, all go on.
//
// Which element a register holds is what the operand table says, through the arrays of mfma_maps.hpp, and nothing here
// knows it besides. d + a * b: the products of a 32-block (of all k where there are no scales) are summed in float, in
// the order of k; those sums are scaled and added in double, and rounded once. Products of fp8 and fp4 are exact. How
// hardware rounds is not documented; its last bits need not be these.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>

#include "executor.hpp"
#include "mfma_maps.hpp"
#include "numbers.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(MONO_HOST_NO_AVX2)
#define MONO_HOST_AVX2 1
#endif

namespace mono {
namespace host __attribute__((visibility("hidden"))) {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "byte 0 of a register is its lowest");

constexpr int kLanes = 64;

// Where an element goes in a decoded operand; a place that there is not, where the element is none of the tile's.
constexpr unsigned short place(int line, int k, int k_count, int line_stride, int k_stride) {
    return static_cast<unsigned short>(line < kRows && k < k_count ? line * line_stride + k * k_stride : 0xFFFF);
}

// Where the elements of every lane go.
template <int kElements>
struct Places {
    unsigned short of[kLanes * kElements];  // [lane][element]
};

template <int kElements>
constexpr Places<kElements> places(const unsigned char (&line)[kLanes][kElements],
                                   const unsigned char (&k)[kLanes][kElements], int k_count, int line_stride,
                                   int k_stride) {
    Places<kElements> found{};
    for (int lane = 0; lane < kLanes; ++lane) {
        for (int e = 0; e < kElements; ++e) {
            found.of[lane * kElements + e] = place(line[lane][e], k[lane][e], k_count, line_stride, k_stride);
        }
    }
    return found;
}

// True where every place is that of one element.
template <int kCount>
constexpr bool is_whole(const unsigned short (&places)[kCount]) {
    bool seen[kCount] = {};
    for (const unsigned short at : places) {
        if (at >= kCount || seen[at]) {
            return false;
        }
        seen[at] = true;
    }
    return true;
}

template <class Map, int kK>
struct OperandPlaces {
    static constexpr auto kA = places(Map::a_row, Map::a_k, kK, kK, 1);
    static constexpr auto kB = places(Map::b_col, Map::b_k, kK, 1, kRows);
    static_assert(is_whole(kA.of) && is_whole(kB.of), "a map holds every element of its tile once");
};

template <class Map>
struct AccumulatorPlaces {
    static constexpr auto kD = places(Map::d_row, Map::d_col, kRows, kRows, 1);
    static_assert(is_whole(kD.of), "a map holds every element of its tile once");
};

// --- decoding ---

// Each format hands over the elements of a lane, each with its place.

struct Fp8 {
    static constexpr bool kExactProducts = true;
    template <int kElements>
    static void decode(const unsigned char* bytes, const unsigned short* places, float* out) {
#pragma GCC unroll 8
        for (int e = 0; e < kElements; ++e) {
            out[places[e]] = kFp8.of[bytes[e]];
        }
    }
};

struct Fp4 {
    static constexpr bool kExactProducts = true;
    template <int kElements>
    static void decode(const unsigned char* bytes, const unsigned short* places, float* out) {
        for (int i = 0; i < kElements / 2; ++i) {
            out[places[2 * i]] = kFp4.of[bytes[i] & 15];
            out[places[2 * i + 1]] = kFp4.of[bytes[i] >> 4];
        }
    }
};

struct Bf16 {
    static constexpr bool kExactProducts = false;  // they may leave the range of float
    template <int kElements>
    static void decode(const unsigned char* bytes, const unsigned short* places, float* out) {
        for (int e = 0; e < kElements; ++e) {
            out[places[e]] = bf16_value(bytes[2 * e] | static_cast<unsigned>(bytes[2 * e + 1]) << 8);
        }
    }
};

template <class Format, int kElements>
void decode(const unsigned (&registers)[kMostLanes][8], const Places<kElements>& places, float* out) {
    for (int lane = 0; lane < kLanes; ++lane) {
        const unsigned char* bytes = reinterpret_cast<const unsigned char*>(registers[lane]);
        Format::template decode<kElements>(bytes, places.of + lane * kElements, out);
    }
}

// --- multiplying ---

struct Scales {
    double a[kRows * kMostK / 32];  // [row][block]
    double b[kMostK / 32 * kRows];  // [block][column]
};

// sum[row][column] += a * b, scaled block by block. Eight sums stay in registers: of four rows, two vectors wide.
template <int kK, int kBlock, class Vector>
inline __attribute__((always_inline)) void multiply(const float* a, const float* b, const Scales& scales,
                                                    double (&sum)[kRows][kRows]) {
    constexpr int kWide = static_cast<int>(sizeof(Vector) / sizeof(float)), kBlocks = kK / kBlock;
    for (int block = 0; block < kBlocks; ++block) {
        for (int row = 0; row < kRows; row += 4) {
            for (int column = 0; column < kRows; column += 2 * kWide) {
                const double* of_columns = scales.b + block * kRows + column;
                Vector sums[4][2];
                {
                    Vector s00{}, s01{}, s10{}, s11{}, s20{}, s21{}, s30{}, s31{};
                    const float* of_a = a + row * kK;
                    for (int k = block * kBlock; k < (block + 1) * kBlock; ++k) {
                        const Vector* of_b = reinterpret_cast<const Vector*>(b + k * kRows + column);
                        const Vector b0 = of_b[0], b1 = of_b[1];
                        s00 += of_a[k] * b0;
                        s01 += of_a[k] * b1;
                        s10 += of_a[kK + k] * b0;
                        s11 += of_a[kK + k] * b1;
                        s20 += of_a[2 * kK + k] * b0;
                        s21 += of_a[2 * kK + k] * b1;
                        s30 += of_a[3 * kK + k] * b0;
                        s31 += of_a[3 * kK + k] * b1;
                    }
                    sums[0][0] = s00;
                    sums[0][1] = s01;
                    sums[1][0] = s10;
                    sums[1][1] = s11;
                    sums[2][0] = s20;
                    sums[2][1] = s21;
                    sums[3][0] = s30;
                    sums[3][1] = s31;
                }
                for (int r = 0; r < 4; ++r) {
                    const float* part = reinterpret_cast<const float*>(sums[r]);
                    for (int c = 0; c < 2 * kWide; ++c) {
                        const double scale = scales.a[(row + r) * kBlocks + block] * of_columns[c];
                        sum[row + r][column + c] += static_cast<double>(part[c]) * scale;
                    }
                }
            }
        }
    }
}

template <int kK, int kBlock>
void multiply_anywhere(const float* a, const float* b, const Scales& scales, double (&sum)[kRows][kRows]) {
    using Vector = float __attribute__((vector_size(16), may_alias));
    multiply<kK, kBlock, Vector>(a, b, scales, sum);
}

#ifdef MONO_HOST_AVX2
template <int kK, int kBlock>
__attribute__((target("avx2,fma"))) void multiply_avx2(const float* a, const float* b, const Scales& scales,
                                                   double (&sum)[kRows][kRows]) {
    using Vector = float __attribute__((vector_size(32), may_alias));
    multiply<kK, kBlock, Vector>(a, b, scales, sum);
}

inline const bool kHasAvx2 = __builtin_cpu_supports("avx2");
#endif

// Registers d of the wave += the operands that stand decoded in its block. The same numbers on every machine.
template <class Map, class Format, int kK, int kBlock>
void accumulate(Wave& wave, const Scales& scales) {
    constexpr auto& kD = AccumulatorPlaces<Map>::kD;
    double sum[kRows][kRows];
    double* flat = &sum[0][0];
    for (int lane = 0; lane < kLanes; ++lane) {
        for (int e = 0; e < 4; ++e) {
            flat[kD.of[lane * 4 + e]] = static_cast<double>(wave.registers.d[lane][e]);
        }
    }
    const Block& block = *wave.block;
#ifdef MONO_HOST_AVX2
    const bool fuses = Format::kExactProducts && kHasAvx2;  // else a fused product and sum could be another number
    (fuses ? multiply_avx2<kK, kBlock> : multiply_anywhere<kK, kBlock>)(block.a, block.b, scales, sum);
#else
    multiply_anywhere<kK, kBlock>(block.a, block.b, scales, sum);
#endif
    for (int lane = 0; lane < kLanes; ++lane) {
        for (int e = 0; e < 4; ++e) {
            wave.registers.d[lane][e] = static_cast<float>(flat[kD.of[lane * 4 + e]]);
        }
    }
}

// --- the instructions ---

constexpr Scales ones() {
    Scales scales{};
    for (int i = 0; i < kRows; ++i) {
        scales.a[i] = scales.b[i] = 1;  // of one block
    }
    return scales;
}

inline constexpr Scales kOnes = ones();

// A dense instruction; elements of a format that both operands have.
template <class Map, class Format>
void run_dense(Wave& wave) {
    using Held = OperandPlaces<Map, Map::kK>;
    decode<Format>(wave.registers.a, Held::kA, wave.block->a);
    decode<Format>(wave.registers.b, Held::kB, wave.block->b);
    accumulate<Map, Format, Map::kK, Map::kK>(wave, kOnes);
}

using Scaled = maps::mfma_scale_f32_16x16x128_f8f6f4;

struct ScaledFp8 : Fp8 {
    using Held = OperandPlaces<Scaled::fp8, Scaled::kK>;
};

struct ScaledFp4 : Fp4 {
    using Held = OperandPlaces<Scaled::fp4, Scaled::kK>;
};

constexpr int kScaledBlocks = Scaled::kK / Scaled::kBlock;

// Where the scales of the lanes go: [row][block] of A, [block][column] of B.
struct ScalePlaces {
    unsigned short a[kLanes], b[kLanes];
};

constexpr ScalePlaces scale_places() {
    ScalePlaces found{};
    for (int l = 0; l < kLanes; ++l) {
        found.a[l] = place(Scaled::a_scale_row[l], Scaled::a_scale_block[l], kScaledBlocks, kScaledBlocks, 1);
        found.b[l] = place(Scaled::b_scale_col[l], Scaled::b_scale_block[l], kScaledBlocks, 1, kRows);
    }
    return found;
}

inline constexpr ScalePlaces kScalePlaces = scale_places();
static_assert(is_whole(kScalePlaces.a) && is_whole(kScalePlaces.b), "a map holds every scale of its tile once");

// Byte kSelect of each lane's scale multiplies the (row, block) of the lane, which need not be the k that it holds.
template <class FormatA, class FormatB, int kSelectA, int kSelectB>
void run_scaled(Wave& wave) {
    const Registers& r = wave.registers;
    Scales scales;
    for (int lane = 0; lane < kLanes; ++lane) {
        scales.a[kScalePlaces.a[lane]] = kE8m0.of[(r.scale_a[lane] >> (8 * kSelectA)) & 255];
        scales.b[kScalePlaces.b[lane]] = kE8m0.of[(r.scale_b[lane] >> (8 * kSelectB)) & 255];
    }
    decode<FormatA>(r.a, FormatA::Held::kA, wave.block->a);
    decode<FormatB>(r.b, FormatB::Held::kB, wave.block->b);
    accumulate<Scaled, FormatA, Scaled::kK, Scaled::kBlock>(wave, scales);
}

inline constexpr Operation kDenseFp8{"mfma_f32_16x16x32_fp8_fp8", &run_dense<maps::mfma_f32_16x16x32_fp8_fp8, Fp8>};
inline constexpr Operation kDenseBf16{"mfma_f32_16x16x32_bf16", &run_dense<maps::mfma_f32_16x16x32_bf16, Bf16>};

template <class FormatA, class FormatB, int kSelectA, int kSelectB>
inline constexpr Operation kScaled{"mfma_scale_f32_16x16x128_f8f6f4",
                                   &run_scaled<FormatA, FormatB, kSelectA, kSelectB>};

// Hands in the registers of the current lane, and its d back.
template <int kA, int kB>
void multiply_at(const Operation& operation, const unsigned (&a)[kA], const unsigned (&b)[kB], float (&d)[4],
                 const Site& site) {
    Wave& wave = *current->wave;
    const int lane = current->lane;
    if (wave.size != kLanes) {
        wave.block->failure = operation.name + (", " + text(site)) + ": needs a wave of 64 lanes, not " +
                              std::to_string(wave.size) + "; " + text(wave);
        give_up();
    }
    Registers& r = wave.registers;
    std::memcpy(r.a[lane], a, sizeof a);
    std::memcpy(r.b[lane], b, sizeof b);
    std::memcpy(r.d[lane], d, sizeof d);
    wait_at(operation, site);
    std::memcpy(d, r.d[lane], sizeof d);
}

}  // namespace host

namespace wave __attribute__((visibility("hidden"))) {

// What an operand of a scaled instruction holds: the codes that the instruction takes as cbsz (A) and blgp (B).
enum class Elements { fp8 = 0, fp4 = 4 };

constexpr int registers_of(Elements elements) { return elements == Elements::fp8 ? 8 : 4; }

// d += a * b, of e4m3fn; element e of a lane is byte e % 4 of register e / 4.
inline void mfma_f32_16x16x32_fp8_fp8(const unsigned (&a)[2], const unsigned (&b)[2], float (&d)[4],
                                      const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    host::multiply_at(host::kDenseFp8, a, b, d, {file, line});
}

// d += a * b, of bf16; element e of a lane is half e % 2 of register e / 2.
inline void mfma_f32_16x16x32_bf16(const unsigned (&a)[4], const unsigned (&b)[4], float (&d)[4],
                                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    host::multiply_at(host::kDenseBf16, a, b, d, {file, line});
}

// d += a * b, each row and column scaled by 2^(s - 127) a 32-block, s being byte kSelect of a lane's scale; 255 is NaN.
// fp4: element e of a lane is nibble e % 2, low first, of byte e / 2.
template <Elements kA, Elements kB, int kSelectA, int kSelectB>
void mfma_scale_f32_16x16x128_f8f6f4(const unsigned (&a)[registers_of(kA)], const unsigned (&b)[registers_of(kB)],
                                     float (&d)[4], unsigned scale_a, unsigned scale_b,
                                     const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    static_assert(0 <= kSelectA && kSelectA < 4 && 0 <= kSelectB && kSelectB < 4, "a byte of a dword");
    using FormatA = std::conditional_t<kA == Elements::fp8, host::ScaledFp8, host::ScaledFp4>;
    using FormatB = std::conditional_t<kB == Elements::fp8, host::ScaledFp8, host::ScaledFp4>;
    host::Registers& r = host::registers();
    r.scale_a[host::current->lane] = scale_a;
    r.scale_b[host::current->lane] = scale_b;
    host::multiply_at(host::kScaled<FormatA, FormatB, kSelectA, kSelectB>, a, b, d, {file, line});
}

}  // namespace wave
}  // namespace mono

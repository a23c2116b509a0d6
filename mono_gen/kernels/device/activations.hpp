// What the stages do to activations before they meet weights: gemma RMSNorm, per-token fp8, MXFP8. All threads of a
// block take part. The rows of fp8 go to memory once a step, and the blocks of the product read them from there.
#ifndef MONO_DEVICE_ACTIVATIONS_HPP
#define MONO_DEVICE_ACTIVATIONS_HPP

#include "memory.hpp"

namespace mono {

// Each wave's share of a sum and of a largest value, a token a row.
template <int kTokens>
struct Shares {
    float sum[kTokens][kWaves];
    float largest[kTokens][kWaves];
};

template <int kTokens>
MONO_DEVICE void share(Shares<kTokens>& shares, int token, float sum, float largest) {
    sum = wave_sum(sum);
    largest = wave_max(largest);
    if (lane_index() == 0) {
        shares.sum[token][wave::thread() / kWave] = sum;
        shares.largest[token][wave::thread() / kWave] = largest;
    }
}

template <int kTokens>
MONO_DEVICE float sum_of(const Shares<kTokens>& shares, int token) {
    float sum = 0.0f;
    for (int w = 0; w < kWaves; ++w) sum += shares.sum[token][w];
    return sum;
}

template <int kTokens>
MONO_DEVICE float largest_of(const Shares<kTokens>& shares, int token) {
    float largest = 0.0f;
    for (int w = 0; w < kWaves; ++w) largest = larger(largest, shares.largest[token][w]);
    return largest;
}

// The scale of a token's fp8 row: its largest magnitude times 1 / 448, as the weights' rows have it; 1 for a row of 0.
MONO_DEVICE float token_scale(float largest) { return largest == 0.0f ? 1.0f : largest * (1.0f / kFp8Largest); }

MONO_DEVICE float inverse_root_mean(float squares, int count, float eps) {
    return 1.0f / square_root(squares / static_cast<float>(count) + eps);
}

// One token's row of bf16, or the sum of two of them, 8 elements at `pack`.
struct Row {
    const Byte* a;
    const Byte* b;  // null: `a` alone

    MONO_DEVICE void read(int pack, float (&values)[8]) const {
        widen(load16(a, 16u * static_cast<unsigned>(pack)), values);
        if (b == nullptr) return;
        float more[8];
        widen(load16(b, 16u * static_cast<unsigned>(pack)), more);
        for (int i = 0; i < 8; ++i) values[i] += more[i];
    }
};

// x (1 + g), 8 elements at `pack`; the norm is that times the inverse root of the mean square.
MONO_DEVICE void times_gemma(const Byte* g, int pack, float (&values)[8]) {
    float weights[8];
    widen(load16(g, 16u * static_cast<unsigned>(pack)), weights);
    for (int i = 0; i < 8; ++i) values[i] *= weights[i] + 1.0f;
}

// First pass of the norm: a thread's squares and largest x (1 + g) of one token, into its wave's share.
template <int kCount, int kTokens>
MONO_DEVICE void share_norm(Shares<kTokens>& shares, int token, const Row& row, const Byte* g) {
    float squares = 0.0f, largest = 0.0f;
    for (int pack = wave::thread(); pack < kCount / 8; pack += kThreads) {
        float x[8];
        row.read(pack, x);
        for (int i = 0; i < 8; ++i) squares += x[i] * x[i];
        times_gemma(g, pack, x);
        for (int i = 0; i < 8; ++i) largest = larger(largest, absolute(x[i]));
    }
    share(shares, token, squares, largest);
}

// 8 values over one scale as fp8, to their row.
MONO_DEVICE void store_fp8(Byte* row, int pack, float (&values)[8], float scale) {
    for (int i = 0; i < 8; ++i) values[i] /= scale;
    unsigned* words = reinterpret_cast<unsigned*>(row + 8 * pack);
    words[0] = fp8_word(values);
    words[1] = fp8_word(values + 4);
}

// MXFP8 of 32 elements of a bf16 row: 32 bytes and their scale.
MONO_DEVICE void store_mxfp8(const Byte* row, int block, Byte* out, Byte* scales) {
    float x[4][8];
    float largest = 0.0f;
    for (int i = 0; i < 4; ++i) {
        widen(load16(row, 64u * static_cast<unsigned>(block) + 16u * static_cast<unsigned>(i)), x[i]);
        for (int j = 0; j < 8; ++j) largest = larger(largest, absolute(x[i][j]));
    }
    const unsigned scale = e8m0_of_largest(largest);
    const float inverse = float_of_e8m0(scale == 255u ? 255u : 254u - scale);
    for (int half = 0; half < 2; ++half) {
        Quad quad;
        for (int i = 0; i < 4; ++i) {
            float values[4];
            for (int j = 0; j < 4; ++j) values[j] = x[2 * half + i / 2][4 * (i % 2) + j] * inverse;
            quad.w[i] = fp8_word(values);
        }
        store16(out, static_cast<unsigned>(32 * block + 16 * half), quad);
    }
    scales[block] = static_cast<Byte>(scale);
}

}  // namespace mono

#endif

// What the stages do to activations before they meet weights: gemma RMSNorm, per-token fp8, MXFP8. All threads of a
// block take part. The rows of fp8 go to memory once a step, and the blocks of the product read them from there.
#ifndef MONO_DEVICE_ACTIVATIONS_HPP
#define MONO_DEVICE_ACTIVATIONS_HPP

#include "products.hpp"

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
    put_fp8(row, pack, values);
}

// The scale of a block of 32 whose largest magnitude is given, and what its elements are multiplied with.
struct BlockScale {
    unsigned code;
    float inverse;

    MONO_DEVICE explicit BlockScale(float largest)
        : code(e8m0_of_largest(largest)), inverse(float_of_e8m0(code == 255u ? 255u : 254u - code)) {}
};

// MXFP8 of 32 elements of a bf16 row.
MONO_DEVICE void store_mxfp8(const Byte* from, int block, Byte* row, Byte* scales) {
    float x[4][8];
    float largest = 0.0f;
    for (int i = 0; i < 4; ++i) {
        widen(load16(from, 64u * static_cast<unsigned>(block) + 16u * static_cast<unsigned>(i)), x[i]);
        for (int j = 0; j < 8; ++j) largest = larger(largest, absolute(x[i][j]));
    }
    const BlockScale scale(largest);
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 8; ++j) x[i][j] *= scale.inverse;
        put_mxfp8(row, scales, block, i, x[i], scale.code);
    }
}

}  // namespace mono

#endif

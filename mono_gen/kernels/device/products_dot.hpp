// Products by multiplying and adding: no matrix cores, waves of 32 or 64. A lane holds the partial sums of its row.
#ifndef MONO_DEVICE_PRODUCTS_DOT_HPP
#define MONO_DEVICE_PRODUCTS_DOT_HPP

namespace mono {

#if defined(MONO_CUDA)
enum class Elements { fp8 = 0, fp4 = 4 };
#else
using wave::Elements;
#endif

constexpr int kGroup = 64;  // two waves where a wave has 32 lanes
constexpr int kPartsOfGroup = kGroup / kWave;
constexpr int kPieces = 1;

// Of fp8, a lane's two pieces lie in two blocks, and neither need be the one that the MFMA takes a scale of.
template <Elements kElements>
constexpr int kScales = kElements == Elements::fp8 ? 2 : 1;
template <Elements kElements>
constexpr int kPairsAhead = 1;
template <Elements kElements>
constexpr int kUnitsAhead = 2;

MONO_DEVICE int group_lane() { return wave::thread() % kGroup; }
MONO_DEVICE int piece_lane(int) { return group_lane(); }

template <Elements kElements>
MONO_DEVICE int scale_lane(int half) {
    const int r = group_lane() % 16, g = group_lane() / 16;
    return kElements == Elements::fp8 ? 16 * (2 * half + g / 2) + r : group_lane();
}

struct Tile {
    float d[16] = {};  // a token each
};

constexpr int kActivationBytes = 1;
MONO_DEVICE void put_fp8(Byte* row, int pack, const float (&values)[8]) { put_fp8_bytes(row, pack, values); }
MONO_DEVICE void put_mxfp8(Byte* row, Byte* scales, int block, int eight, const float (&values)[8], unsigned code) {
    put_mxfp8_bytes(row, scales, block, eight, values, code);
}

MONO_DEVICE int tile_token(int t) { return t; }
MONO_DEVICE int tile_place(int r, int t) { return 16 * t + r; }

// The waves' 16-lane parts of a row meet here.
MONO_DEVICE void store_tile(const Tile& tile, float* part) {
    for (int t = 0; t < 16; ++t) {
        float sum = tile.d[t];
        for (int mask = kWave / 2; mask >= 16; mask /= 2) sum += wave::shuffle_xor(sum, mask);
        if (lane_index() < 16) part[tile_place(lane_index(), t)] = sum;
    }
}

MONO_DEVICE float dot_fp8(const Quad& w, const Quad& x) {
    float sum = 0.0f;
    for (int i = 0; i < 4; ++i) {
        for (int b = 0; b < 32; b += 8) sum += float_of_fp8(w.w[i] >> b & 0xFFu) * float_of_fp8(x.w[i] >> b & 0xFFu);
    }
    return sum;
}

template <class Rows>
MONO_DEVICE void multiply_fp8(Tile& tile, const Quad (&w)[kPieces], const Rows& rows, int k) {
    for (int t = 0; t < 16; ++t) {
        if ((rows.mask >> t & 1u) == 0u) continue;
        tile.d[t] += dot_fp8(w[0], load16(rows.row(t), static_cast<unsigned>(k + 16 * (group_lane() / 16))));
    }
}

template <class Rows>
MONO_DEVICE void multiply_fp8_pair(Tile& tile, const Quad (&w0)[kPieces], const Quad (&w1)[kPieces], const Rows& rows,
                                   int k) {
    multiply_fp8(tile, w0, rows, k);
    multiply_fp8(tile, w1, rows, k + 64);
}

// 32 fp4 of one piece, low nibble first, with 32 fp8.
MONO_DEVICE float dot_fp4(const Quad& w, const Quad& low, const Quad& high) {
    float sum = 0.0f;
    for (int i = 0; i < 32; ++i) {
        const unsigned x = (i < 16 ? low : high).w[i % 16 / 4] >> 8 * (i % 4) & 0xFFu;
        sum += float_of_fp4(w.w[i / 8] >> 4 * (i % 8) & 0xFu) * float_of_fp8(x);
    }
    return sum;
}

constexpr int kEights = 1;

// What lies where, of each token: read when it is multiplied.
template <Elements kElements>
struct MxChunk {
    const Byte* row[16];
    const Byte* scales[16];
    unsigned mask;

    template <class Rows>
    MONO_DEVICE MxChunk(const Rows& rows, int k, int) : mask(rows.mask) {
        MONO_UNROLL
        for (int t = 0; t < 16; ++t) {
            const int known = t < rows.tokens ? t : 0;
            row[t] = rows.row(known) + k;
            scales[t] = rows.row_scales(known) + k / 32;
        }
    }
};

template <Elements kElements, int kSelect, int kCount>
MONO_DEVICE void multiply_mx(Tile& tile, const Quad (&w)[kCount], const unsigned (&scale)[kScales<kElements>],
                             const MxChunk<kElements>& x) {
    const int g = group_lane() / 16;
    MONO_UNROLL
    for (int t = 0; t < 16; ++t) {
        if ((x.mask >> t & 1u) == 0u) continue;
        if constexpr (kElements == Elements::fp4) {
            const Quad low = load16(x.row[t], static_cast<unsigned>(32 * g));
            const Quad high = load16(x.row[t], static_cast<unsigned>(32 * g + 16));
            const float both = float_of_e8m0(scale[0] >> 8 * kSelect & 0xFFu) * float_of_e8m0(x.scales[t][g]);
            tile.d[t] += dot_fp4(w[0], low, high) * both;
        } else {
            for (int h = 0; h < 2; ++h) {
                const Quad piece = load16(x.row[t], static_cast<unsigned>(64 * h + 16 * g));
                const float both =
                    float_of_e8m0(scale[h] >> 8 * kSelect & 0xFFu) * float_of_e8m0(x.scales[t][2 * h + g / 2]);
                tile.d[t] += dot_fp8(w[h], piece) * both;
            }
        }
    }
}

}  // namespace mono

#endif

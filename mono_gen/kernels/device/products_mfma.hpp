// Products on AMD's matrix cores, and on the host's model of them. B holds the tokens, a column each.
#ifndef MONO_DEVICE_PRODUCTS_MFMA_HPP
#define MONO_DEVICE_PRODUCTS_MFMA_HPP

#include "mfma_maps.hpp"  // the operand table, as arrays

namespace mono {

using wave::Elements;

constexpr int kGroup = 64;
constexpr int kPartsOfGroup = 1;
constexpr int kEights = 1;
constexpr int kPieces = 1;
template <Elements kElements>
constexpr int kScales = 1;
// How many pairs of chunks of up_gate, and units of down, a group has under way: all of the pairs.
template <Elements kElements>
constexpr int kPairsAhead = 64;
template <Elements kElements>
constexpr int kUnitsAhead = 6;

MONO_DEVICE int piece_lane(int) { return lane_index(); }
template <Elements kElements>
MONO_DEVICE int scale_lane(int) { return lane_index(); }

struct Tile {
    float d[4] = {};
};

constexpr int kActivationBytes = 1;
MONO_DEVICE void put_fp8(Byte* row, int pack, const float (&values)[8]) { put_fp8_bytes(row, pack, values); }
MONO_DEVICE void put_mxfp8(Byte* row, Byte* scales, int block, int eight, const float (&values)[8], unsigned code) {
    put_mxfp8_bytes(row, scales, block, eight, values, code);
}

// What the lines below take for granted of the instructions, held against the operand table.
namespace proof {

// Row and column of a lane's operands: l % 16 in all of them, and k apart alike in A and B.
template <class Map>
constexpr bool alike() {
    for (int l = 0; l < 64; ++l) {
        for (int e = 0; e < Map::kElements; ++e) {
            if (Map::a_row[l][e] != l % 16 || Map::b_col[l][e] != l % 16 || Map::a_k[l][e] != Map::b_k[l][e]) return false;
        }
    }
    return true;
}

// fp8 of the scaled MFMA: k 16 g ..+16, then 64 + 16 g ..+16; fp4: k 32 g ..+32.
constexpr bool scaled_k() {
    using Map = maps::mfma_scale_f32_16x16x128_f8f6f4;
    for (int l = 0; l < 64; ++l) {
        for (int e = 0; e < 32; ++e) {
            if (Map::fp8::a_k[l][e] != 64 * (e / 16) + 16 * (l / 16) + e % 16) return false;
            if (Map::fp4::a_k[l][e] != 32 * (l / 16) + e || Map::fp4::a_row[l][e] != l % 16) return false;
        }
        if (Map::a_scale_row[l] != l % 16 || Map::b_scale_col[l] != l % 16) return false;
        if (Map::a_scale_block[l] != l / 16 || Map::b_scale_block[l] != l / 16) return false;
    }
    return true;
}

template <class Map>
constexpr bool accumulator() {
    for (int l = 0; l < 64; ++l) {
        for (int e = 0; e < 4; ++e) {
            if (Map::d_row[l][e] != 4 * (l / 16) + e || Map::d_col[l][e] != l % 16) return false;
        }
    }
    return true;
}

#if !defined(MONO_WRONG_MAPS)  // a test feeds the kernels to another instruction, to see that the result tells
static_assert(alike<maps::mfma_f32_16x16x32_fp8_fp8>(), "16x16x32 fp8: k cancels between A and B");
static_assert(alike<maps::mfma_scale_f32_16x16x128_f8f6f4::fp8>(), "16x16x128 fp8: k cancels between A and B");
static_assert(scaled_k(), "16x16x128: the k that a lane holds, and the block that its scale multiplies");
static_assert(accumulator<maps::mfma_f32_16x16x32_fp8_fp8>(), "16x16x32: the accumulator's rows and columns");
static_assert(accumulator<maps::mfma_scale_f32_16x16x128_f8f6f4>(), "16x16x128: the accumulator's rows and columns");
#endif

}  // namespace proof

MONO_DEVICE int tile_token(int) { return lane_index() % 16; }  // of accumulator e
MONO_DEVICE int tile_place(int r, int t) { return (16 * (r / 4) + t) * 4 + r % 4; }

MONO_DEVICE void store_tile(const Tile& tile, float* part) {
    float* mine = part + 4 * lane_index();
    for (int e = 0; e < 4; ++e) mine[e] = tile.d[e];
}

// The lane's token; columns past the last token repeat it, and nobody reads them.
template <class Rows>
MONO_DEVICE int column(const Rows& rows) {
    const int t = lane_index() % 16;
    return t < rows.tokens ? t : rows.tokens - 1;
}

// 64 k: the lane holds k 16 g ..+16 of its row, and reads the same of its token.
template <class Rows>
MONO_DEVICE void multiply_fp8(Tile& tile, const Quad (&w)[kPieces], const Rows& rows, int k) {
    const Quad x = load16(rows.row(column(rows)), static_cast<unsigned>(k + 16 * (lane_index() / 16)));
    for (int h = 0; h < 2; ++h) {
        const unsigned a[2] = {w[0].w[2 * h], w[0].w[2 * h + 1]};
        const unsigned b[2] = {x.w[2 * h], x.w[2 * h + 1]};
        wave::mfma_f32_16x16x32_fp8_fp8(a, b, tile.d);
    }
}

#if !defined(MONO_FNUZ)

// The 32 bytes of a token that meet the lane's fp8 of 128 k: k 16 g ..+16 and 64 + 16 g ..+16.
template <class Rows>
MONO_DEVICE void read_column(const Rows& rows, int k, unsigned (&b)[8]) {
    const Byte* row = rows.row(column(rows));
    for (int h = 0; h < 2; ++h) {
        const Quad x = load16(row, static_cast<unsigned>(k + 64 * h + 16 * (lane_index() / 16)));
        for (int i = 0; i < 4; ++i) b[4 * h + i] = x.w[i];
    }
}

// 128 k of two 64-k chunks, without scales: both are 1.0.
template <class Rows>
MONO_DEVICE void multiply_fp8_pair(Tile& tile, const Quad (&w0)[kPieces], const Quad (&w1)[kPieces], const Rows& rows,
                                   int k) {
    constexpr unsigned kOne = 127;
    const unsigned a[8] = {w0[0].w[0], w0[0].w[1], w0[0].w[2], w0[0].w[3], w1[0].w[0], w1[0].w[1], w1[0].w[2], w1[0].w[3]};
    unsigned b[8];
    read_column(rows, k, b);
    wave::mfma_scale_f32_16x16x128_f8f6f4<Elements::fp8, Elements::fp8, 0, 0>(a, b, tile.d, kOne, kOne);
}

// 128 k of the lane's token, and the scale of its block g.
template <Elements kElements>
struct MxChunk {
    unsigned b[8];
    unsigned scale;

    template <class Rows>
    MONO_DEVICE MxChunk(const Rows& rows, int k, int) {
        read_column(rows, k, b);
        scale = rows.row_scales(column(rows))[k / 32 + lane_index() / 16];
    }
};

// In one instruction.
template <Elements kElements, int kSelect, int kCount>
MONO_DEVICE void multiply_mx(Tile& tile, const Quad (&w)[kCount], const unsigned (&scale)[1], const MxChunk<kElements>& x) {
    unsigned a[4 * kCount];
    for (int i = 0; i < 4 * kCount; ++i) a[i] = w[i / 4].w[i % 4];
    wave::mfma_scale_f32_16x16x128_f8f6f4<kElements, Elements::fp8, kSelect, 0>(a, x.b, tile.d, scale[0], x.scale);
}

#endif

}  // namespace mono

#endif

// Products of 16 weight rows with up to 16 tokens. A group of lanes holds a 16-row chunk of weights between them, and
// accumulates a tile, row by token. How a lane's pieces meet the activations is the machine's: products_mfma.hpp on the
// matrix cores, products_mma.hpp on sm_90's, products_dot.hpp anywhere. Both have the same names:
//
//   kGroup, kPartsOfGroup       lanes that share a chunk; partial tiles that a group leaves
//   kPieces, piece_lane(i)      16-byte pieces a lane holds of a 64-lane chunk, and the lane of the fold that each is
//   kScales<E>, scale_lane<E>   scale dwords a lane holds of a 16-row, 4-block chunk, likewise
//   Tile                        the accumulators of one lane
//   multiply_fp8                64 k of fp8 weights, no scales; multiply_fp8_pair: 128 k
//   kEights, MxChunk<E>         how often the tokens are gone through, an eight or all at a time; 128 k of their MXFP8
//   multiply_mx<E, select>      128 k of MX weights, `select` the byte of the scale dwords
//   put_fp8, put_mxfp8          8 elements of a token's row to memory, in kActivationBytes each
//   store_tile, tile_place      a partial tile to LDS: 256 floats; where in them row r, token t lies
#ifndef MONO_DEVICE_PRODUCTS_HPP
#define MONO_DEVICE_PRODUCTS_HPP

#include "memory.hpp"

namespace mono {

constexpr int kTileFloats = 16 * 16;

// 8 elements of a row as fp8 bytes; of MXFP8 the first eight of a block store its scale.
MONO_DEVICE void put_fp8_bytes(Byte* row, int pack, const float (&values)[8]) {
    unsigned* words = reinterpret_cast<unsigned*>(row + 8 * pack);
    words[0] = fp8_word(values);
    words[1] = fp8_word(values + 4);
}
MONO_DEVICE void put_mxfp8_bytes(Byte* row, Byte* scales, int block, int eight, const float (&values)[8], unsigned code) {
    put_fp8_bytes(row, 4 * block + eight, values);
    if (eight == 0) scales[block] = static_cast<Byte>(code);
}

// The activations of a step: a row of fp8 a token, and its scales where it is MXFP8.
struct TokenRows {
    const Byte* values;
    unsigned pitch;
    const Byte* scales;
    unsigned scale_pitch;
    int tokens;
    unsigned mask;  // tokens that take part; the columns of others may hold anything

    MONO_DEVICE const Byte* row(int token) const { return values + static_cast<unsigned>(token) * pitch; }
    MONO_DEVICE const Byte* row_scales(int token) const { return scales + static_cast<unsigned>(token) * scale_pitch; }
};

}  // namespace mono

#if defined(MONO_HOST_WAVE32) || defined(MONO_DOT)
#include "products_dot.hpp"
#elif defined(MONO_CUDA)
#include "products_mma.hpp"
#else
#include "products_mfma.hpp"
#endif

namespace mono {

constexpr int kGroups = kThreads / kGroup;

// Whether any token of an eight takes part.
template <class Rows>
MONO_DEVICE bool has_tokens(const Rows& rows, int eight) {
    return kEights == 1 || (rows.mask >> 8 * eight & 0xFFu) != 0u;
}

MONO_DEVICE int group_index() { return wave::uniform(wave::thread() / kGroup); }

// Which partial tile the lane's wave leaves, of group `g`.
MONO_DEVICE int own_part(int g) { return g * kPartsOfGroup + wave::thread() % kGroup / kWave; }

// The sum of a tile's parts at row r, token t: `stride` floats from one part to the next.
MONO_DEVICE float tile_sum(const float* parts, int count, int stride, int r, int t) {
    float sum = 0.0f;
    for (int p = 0; p < count; ++p) sum += parts[p * stride + tile_place(r, t)];
    return sum;
}

}  // namespace mono

#endif

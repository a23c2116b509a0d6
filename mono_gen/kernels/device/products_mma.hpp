// Products on NVIDIA's tensor cores, sm_90: m16n8k16 of f16, which holds fp8 exactly, and of bf16, which holds fp8 and fp4
// with their scales. A warp holds a chunk: lane l the pieces of rows l / 4 and l / 4 + 8 at k group l % 4. Which k of its
// pieces meets which slot of the instruction is free, as long as the token's is the same. Tokens come converted: f16 of
// fp8, and bf16 of MXFP8, each eight elements in the order 0 4 1 5 2 6 3 7 in which fp4 comes apart.
#ifndef MONO_DEVICE_PRODUCTS_MMA_HPP
#define MONO_DEVICE_PRODUCTS_MMA_HPP

namespace mono {

enum class Elements { fp8 = 0, fp4 = 4 };

constexpr int kGroup = 32;
constexpr int kPartsOfGroup = 1;
constexpr int kPieces = 2;
template <Elements kElements>
constexpr int kScales = kElements == Elements::fp8 ? 4 : 2;
// What fits the LDS of two blocks.
template <Elements kElements>
constexpr int kPairsAhead = 1;
template <Elements kElements>
constexpr int kUnitsAhead = kElements == Elements::fp8 ? 2 : 4;

MONO_DEVICE int piece_lane(int i) { return 16 * (lane_index() % 4) + lane_index() / 4 + 8 * i; }

// Of fp4 a piece is a block; of fp8 the block of half i / 2 in which the piece lies, for row i % 2.
template <Elements kElements>
MONO_DEVICE int scale_lane(int i) {
    if constexpr (kElements == Elements::fp4) return piece_lane(i);
    return 16 * (2 * (i / 2) + lane_index() % 4 / 2) + lane_index() / 4 + 8 * (i % 2);
}

struct Tile {
    float d[8] = {};  // tokens 0 to 7, then 8 to 15
};

MONO_DEVICE int tile_token(int i) { return 8 * (i / 4) + 2 * (lane_index() % 4) + i % 2; }
MONO_DEVICE int tile_place(int r, int t) { return 16 * t + r; }

MONO_DEVICE void store_tile(const Tile& tile, float* part) {
    for (int i = 0; i < 8; ++i) part[tile_place(lane_index() / 4 + 8 * (i % 4 / 2), tile_token(i))] = tile.d[i];
}

// Two bf16 in a word.
MONO_DEVICE unsigned times(unsigned pair, unsigned factor) {
    unsigned product;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(pair), "r"(factor));
    return product;
}

// 2 ** power in both halves; powers from -126 to 127.
MONO_DEVICE unsigned both(int power) { return static_cast<unsigned>(power + 127) * 0x00800080u; }

// An e8m0 scale in both halves: 0 is subnormal, 255 NaN.
MONO_DEVICE unsigned both_of_e8m0(unsigned code) {
    const unsigned half = code == 0u ? 0x40u : code == 255u ? 0x7FC0u : code << 7;
    return half * 0x00010001u;
}

// What the bits of fp8 and fp4 stand for once they are moved to their places in bf16, subnormals too.
constexpr int kFp8Power = 120, kFp4Power = 126;

// Byte i of two words of fp8.
template <int i>
MONO_DEVICE unsigned spread_fp8_of(unsigned low, unsigned high) {
    constexpr unsigned kSelect = static_cast<unsigned>(4 + i) << 12 | static_cast<unsigned>(i) << 4;
    const unsigned pair = __byte_perm(low, high, kSelect);
    return (pair & 0x80008000u) | (pair >> 4 & 0x07F007F0u);
}

// Nibbles i and i + 4 of eight fp4.
template <int i>
MONO_DEVICE unsigned spread_fp4(unsigned word) {
    const unsigned magnitude = i < 2 ? word << (6 - 4 * i) : word >> (4 * i - 6);
    return (word << (12 - 4 * i) & 0x80008000u) | (magnitude & 0x01C001C0u);
}

// Eight elements as pairs 0 4, 1 5, 2 6, 3 7.
MONO_DEVICE void spread_eight(unsigned word, unsigned (&pairs)[4]) {
    pairs[0] = spread_fp4<0>(word), pairs[1] = spread_fp4<1>(word);
    pairs[2] = spread_fp4<2>(word), pairs[3] = spread_fp4<3>(word);
}
MONO_DEVICE void spread_eight(unsigned low, unsigned high, unsigned (&pairs)[4]) {
    pairs[0] = spread_fp8_of<0>(low, high), pairs[1] = spread_fp8_of<1>(low, high);
    pairs[2] = spread_fp8_of<2>(low, high), pairs[3] = spread_fp8_of<3>(low, high);
}

// d += a b over 16 slots of k: a0 a2 the upper row's pairs, a1 a3 the lower one's.
MONO_DEVICE void multiply_add(float* d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The lane's token of the first or second eight; a column whose token takes no part repeats one that does.
template <class Rows>
MONO_DEVICE int column(const Rows& rows, int eight) {
    const int t = 8 * eight + lane_index() / 4;
    return (rows.mask >> t & 1u) != 0u ? t : __ffs(static_cast<int>(rows.mask)) - 1;
}

// Two fp8 as f16; `half` the upper two of the word.
MONO_DEVICE unsigned f16_of_fp8(unsigned word, int half) {
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(word >> 16 * half)));
    return pair;
}

MONO_DEVICE void multiply_add_f16(float* d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

constexpr int kActivationBytes = 2;

// 8 elements as f16 that were rounded to fp8.
MONO_DEVICE void put_fp8(Byte* row, int pack, const float (&values)[8]) {
    Quad quad;
    for (int i = 0; i < 4; ++i) quad.w[i] = f16_of_fp8(fp8_word(values + i / 2 * 4), i % 2);
    store16(row, 16u * static_cast<unsigned>(pack), quad);
}

// 8 elements of a block as bf16 that were rounded to MXFP8. A scale of NaN makes them NaN.
MONO_DEVICE void put_mxfp8(Byte* row, Byte*, int block, int eight, const float (&values)[8], unsigned code) {
    const unsigned low = fp8_word(values), high = fp8_word(values + 4), scale = both_of_e8m0(code);
    const unsigned pairs[4] = {spread_fp8_of<0>(low, high), spread_fp8_of<1>(low, high), spread_fp8_of<2>(low, high),
                               spread_fp8_of<3>(low, high)};
    Quad quad;
    for (int i = 0; i < 4; ++i) quad.w[i] = times(times(pairs[i], both(kFp8Power)), scale);
    store16(row, 16u * static_cast<unsigned>(4 * block + eight), quad);
}

template <class Rows>
MONO_DEVICE void multiply_fp8(Tile& tile, const Quad (&w)[kPieces], const Rows& rows, int k) {
    MONO_UNROLL
    for (int eight = 0; eight < 2; ++eight) {
        if ((rows.mask >> 8 * eight & 0xFFu) == 0u) continue;
        const Byte* row = rows.row(column(rows, eight));
        MONO_UNROLL
        for (int half = 0; half < 2; ++half) {
            const Quad x = load16(row, static_cast<unsigned>(2 * (k + 16 * (lane_index() % 4) + 8 * half)));
            MONO_UNROLL
            for (int i = 0; i < 2; ++i) {
                const unsigned u = w[0].w[2 * half + i], l = w[1].w[2 * half + i];
                multiply_add_f16(tile.d + 4 * eight, f16_of_fp8(u, 0), f16_of_fp8(l, 0), f16_of_fp8(u, 1), f16_of_fp8(l, 1),
                                 x.w[2 * i], x.w[2 * i + 1]);
            }
        }
    }
}

template <class Rows>
MONO_DEVICE void multiply_fp8_pair(Tile& tile, const Quad (&w0)[kPieces], const Quad (&w1)[kPieces], const Rows& rows,
                                   int k) {
    multiply_fp8(tile, w0, rows, k);
    multiply_fp8(tile, w1, rows, k + 64);
}

constexpr int kEights = 2;

// 128 k of the lane's token of one eight: of fp4 weights its block g, of fp8 16 k of each half.
template <Elements kElements>
struct MxChunk {
    Quad x[4];
    int eight;

    template <class Rows>
    MONO_DEVICE MxChunk(const Rows& rows, int k, int of) : eight(of) {
        const int g = lane_index() % 4;
        const Byte* row = rows.row(column(rows, eight));
        MONO_UNROLL
        for (int i = 0; i < 4; ++i) {
            const int at = kElements == Elements::fp4 ? 32 * g + 8 * i : 64 * (i / 2) + 16 * g + 8 * (i % 2);
            x[i] = load16(row, static_cast<unsigned>(2 * (k + at)));
        }
    }
};

// What gives a row's spread words their size: 2 ** power and its scale at once, or 2 ** power and then the scale, where
// the first is outside bf16.
struct Factor {
    unsigned at_once, first, second;
    bool is_outside;

    MONO_DEVICE Factor(unsigned code, int power)
        : at_once((code + static_cast<unsigned>(power)) * 0x00800080u), first(both(power)), second(both_of_e8m0(code)),
          is_outside(code == 0u || code + static_cast<unsigned>(power) > 254u) {}

    template <bool kAtOnce>
    MONO_DEVICE unsigned of(unsigned pair) const {
        return kAtOnce ? times(pair, at_once) : times(times(pair, first), second);
    }
};

// Eight k of two rows with the token's.
template <bool kAtOnce>
MONO_DEVICE void multiply_eight(float* d, const unsigned (&u)[4], const unsigned (&l)[4], const Factor& of_upper,
                                const Factor& of_lower, const Quad& x) {
    MONO_UNROLL
    for (int i = 0; i < 4; i += 2) {
        multiply_add(d, of_upper.of<kAtOnce>(u[i]), of_lower.of<kAtOnce>(l[i]), of_upper.of<kAtOnce>(u[i + 1]),
                     of_lower.of<kAtOnce>(l[i + 1]), x.w[i], x.w[i + 1]);
    }
}

template <bool kAtOnce, Elements kElements, int kCount>
MONO_DEVICE void multiply_scaled(float* d, const Quad (&w)[kCount], const Factor* factors, const MxChunk<kElements>& x) {
    MONO_UNROLL
    for (int i = 0; i < 4; ++i) {
        unsigned u[4], l[4];
        if constexpr (kElements == Elements::fp8) {
            const int h = i / 2, at = 2 * (i % 2);
            spread_eight(w[2 * h].w[at], w[2 * h].w[at + 1], u);
            spread_eight(w[2 * h + 1].w[at], w[2 * h + 1].w[at + 1], l);
            multiply_eight<kAtOnce>(d, u, l, factors[2 * h], factors[2 * h + 1], x.x[i]);
        } else {
            spread_eight(w[0].w[i], u);
            spread_eight(w[1].w[i], l);
            multiply_eight<kAtOnce>(d, u, l, factors[0], factors[1], x.x[i]);
        }
    }
}

template <Elements kElements, int kSelect, int kCount>
MONO_DEVICE void multiply_mx(Tile& tile, const Quad (&w)[kCount], const unsigned (&scale)[kScales<kElements>],
                             const MxChunk<kElements>& x) {
    constexpr int kPower = kElements == Elements::fp8 ? kFp8Power : kFp4Power;
    float* d = tile.d + 4 * x.eight;
    if constexpr (kElements == Elements::fp8) {
        const Factor factors[4] = {{scale[0] >> 8 * kSelect & 0xFFu, kPower}, {scale[1] >> 8 * kSelect & 0xFFu, kPower},
                                   {scale[2] >> 8 * kSelect & 0xFFu, kPower}, {scale[3] >> 8 * kSelect & 0xFFu, kPower}};
        const bool is_outside =
            factors[0].is_outside || factors[1].is_outside || factors[2].is_outside || factors[3].is_outside;
        if (__any_sync(0xFFFFFFFFu, is_outside)) return multiply_scaled<false>(d, w, factors, x);
        multiply_scaled<true>(d, w, factors, x);
    } else {
        const Factor factors[2] = {{scale[0] >> 8 * kSelect & 0xFFu, kPower}, {scale[1] >> 8 * kSelect & 0xFFu, kPower}};
        if (__any_sync(0xFFFFFFFFu, factors[0].is_outside || factors[1].is_outside)) {
            return multiply_scaled<false>(d, w, factors, x);
        }
        multiply_scaled<true>(d, w, factors, x);
    }
}

}  // namespace mono

#endif

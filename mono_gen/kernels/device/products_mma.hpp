// Products on NVIDIA's tensor cores, sm_90: m16n8k16 of bf16, which holds fp8 and fp4 values and their scales exactly.
// A warp holds a chunk: lane l the pieces of rows l / 4 and l / 4 + 8 at k group l % 4. Which k of its pieces meets which
// slot of the instruction is free, as long as the token's is the same.
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
#ifndef MONO_PAIRS
#define MONO_PAIRS (kElements == Elements::fp8 ? 1 : 1)
#endif
#ifndef MONO_UNITS
#define MONO_UNITS (kElements == Elements::fp8 ? 2 : 4)
#endif
template <Elements kElements>
constexpr int kPairsAhead = MONO_PAIRS;
template <Elements kElements>
constexpr int kUnitsAhead = MONO_UNITS;

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
MONO_DEVICE int tile_place(int r, int t) { return 16 * r + t; }

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

// Bytes 0 and 2, and 1 and 3, of four fp8.
MONO_DEVICE void spread_fp8(unsigned word, unsigned (&pairs)[2]) {
    pairs[0] = (word << 8 & 0x80008000u) | (word << 4 & 0x07F007F0u);
    pairs[1] = (word & 0x80008000u) | (word >> 4 & 0x07F007F0u);
}

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

// d += a b over 16 slots of k: a0 a2 the upper row's pairs, a1 a3 the lower one's.
MONO_DEVICE void multiply_add(float* d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// What gives spread words their size: 2 ** power and a scale, in one step unless some lane's product is outside bf16.
struct Factor {
    unsigned first, second;
    bool is_split;  // the same in all lanes

    MONO_DEVICE Factor(unsigned code, int power) {
        const unsigned sum = code + static_cast<unsigned>(power);
        is_split = __any_sync(0xFFFFFFFFu, code == 0u || sum > 254u);
        first = is_split ? both(power) : sum * 0x00800080u;
        second = both_of_e8m0(code);
    }

    MONO_DEVICE unsigned operator()(unsigned pair) const {
        const unsigned once = times(pair, first);
        return is_split ? times(once, second) : once;
    }
};

struct Plain {
    MONO_DEVICE unsigned operator()(unsigned pair) const { return times(pair, both(kFp8Power)); }
};

// The lane's token of the first or second eight; a column whose token takes no part repeats one that does.
template <class Rows>
MONO_DEVICE int column(const Rows& rows, int eight) {
    const int t = 8 * eight + lane_index() / 4;
    return (rows.mask >> t & 1u) != 0u ? t : __ffs(static_cast<int>(rows.mask)) - 1;
}

// 16 fp8 of two rows with 16 of a token.
template <class Weight, class Token>
MONO_DEVICE void multiply_piece(float* d, const Quad& upper, const Quad& lower, const Quad& x, const Weight& of_upper,
                                const Weight& of_lower, const Token& of_token) {
    MONO_UNROLL
    for (int i = 0; i < 4; ++i) {
        unsigned u[2], l[2], b[2];
        spread_fp8(upper.w[i], u);
        spread_fp8(lower.w[i], l);
        spread_fp8(x.w[i], b);
        multiply_add(d, of_upper(u[0]), of_lower(l[0]), of_upper(u[1]), of_lower(l[1]), of_token(b[0]), of_token(b[1]));
    }
}

template <class Rows>
MONO_DEVICE void multiply_fp8(Tile& tile, const Quad (&w)[kPieces], const Rows& rows, int k) {
    MONO_UNROLL
    for (int eight = 0; eight < 2; ++eight) {
        if ((rows.mask >> 8 * eight & 0xFFu) == 0u) continue;
        const Quad x = load16(rows.row(column(rows, eight)), static_cast<unsigned>(k + 16 * (lane_index() % 4)));
        multiply_piece(tile.d + 4 * eight, w[0], w[1], x, Plain(), Plain(), Plain());
    }
}

template <class Rows>
MONO_DEVICE void multiply_fp8_pair(Tile& tile, const Quad (&w0)[kPieces], const Quad (&w1)[kPieces], const Rows& rows,
                                   int k) {
    multiply_fp8(tile, w0, rows, k);
    multiply_fp8(tile, w1, rows, k + 64);
}

// A token's scale: two steps always, it may be anything.
struct TokenFactor {
    unsigned scale;
    MONO_DEVICE unsigned operator()(unsigned pair) const { return times(times(pair, both(kFp8Power)), scale); }
};

// 32 fp4 of two rows with a token's block.
template <class Token>
MONO_DEVICE void multiply_fp4(float* d, const Quad& upper, const Quad& lower, const Quad (&x)[2], const Factor& of_upper,
                              const Factor& of_lower, const Token& of_token) {
    MONO_UNROLL
    for (int j = 0; j < 4; ++j) {
        const unsigned u = upper.w[j], l = lower.w[j];
        const unsigned x0 = x[j / 2].w[2 * (j % 2)], x1 = x[j / 2].w[2 * (j % 2) + 1];
        multiply_add(d, of_upper(spread_fp4<0>(u)), of_lower(spread_fp4<0>(l)), of_upper(spread_fp4<1>(u)),
                     of_lower(spread_fp4<1>(l)), of_token(spread_fp8_of<0>(x0, x1)), of_token(spread_fp8_of<1>(x0, x1)));
        multiply_add(d, of_upper(spread_fp4<2>(u)), of_lower(spread_fp4<2>(l)), of_upper(spread_fp4<3>(u)),
                     of_lower(spread_fp4<3>(l)), of_token(spread_fp8_of<2>(x0, x1)), of_token(spread_fp8_of<3>(x0, x1)));
    }
}

template <Elements kElements, int kSelect, int kCount, class Rows>
MONO_DEVICE void multiply_mx(Tile& tile, const Quad (&w)[kCount], const unsigned (&scale)[kScales<kElements>],
                             const Rows& rows, int k) {
    const int g = lane_index() % 4;
    constexpr bool kIsFp8 = kElements == Elements::fp8;
    MONO_UNROLL
    for (int h = 0; h < (kIsFp8 ? 2 : 1); ++h) {
        const Factor of_upper(scale[2 * h] >> 8 * kSelect & 0xFFu, kIsFp8 ? kFp8Power : kFp4Power);
        const Factor of_lower(scale[2 * h + 1] >> 8 * kSelect & 0xFFu, kIsFp8 ? kFp8Power : kFp4Power);
        MONO_UNROLL
        for (int eight = 0; eight < 2; ++eight) {
            if ((rows.mask >> 8 * eight & 0xFFu) == 0u) continue;
            const int t = column(rows, eight);
            const Byte* row = rows.row(t);
            const TokenFactor of_token = {both_of_e8m0(rows.row_scales(t)[k / 32 + (kIsFp8 ? 2 * h + g / 2 : g)])};
            if constexpr (kIsFp8) {
                const Quad x = load16(row, static_cast<unsigned>(k + 64 * h + 16 * g));
                multiply_piece(tile.d + 4 * eight, w[2 * h], w[2 * h + 1], x, of_upper, of_lower, of_token);
            } else {
                const Quad x[2] = {load16(row, static_cast<unsigned>(k + 32 * g)),
                                   load16(row, static_cast<unsigned>(k + 32 * g + 16))};
                multiply_fp4(tile.d + 4 * eight, w[0], w[1], x, of_upper, of_lower, of_token);
            }
        }
    }
}

}  // namespace mono

#endif

// o_proj: per-token fp8 of the attention's output, the output projection, plus the residual. A block is 32 rows.
#ifndef MONO_DEVICE_O_PROJ_HPP
#define MONO_DEVICE_O_PROJ_HPP

#include "activations.hpp"
#include "arguments.hpp"
#include "folds.hpp"
#include "products.hpp"

namespace mono {

#define MONO_O_PROJ_ARGUMENTS(P, I, F) P(attn) P(residual) P(w_o) P(s_o) P(a) I(tokens)
MONO_ARGUMENTS(OProjArguments, MONO_O_PROJ_ARGUMENTS)

namespace o_proj {

constexpr int kK = static_cast<int>(Layer::w_o::kExtent_k);
constexpr int kRows = 32;
constexpr int kGroupsOfHalf = kGroups / 2;        // groups that split k, for each 16 rows of a block
constexpr int kPairs = kK / 128 / kGroupsOfHalf;  // of 64-k chunks, a group
constexpr int kPartsOfHalf = kGroupsOfHalf * kPartsOfGroup;
constexpr unsigned kPitch = kK + 16;

static_assert(kK % (128 * kGroupsOfHalf) == 0, "o_proj: chunks a group must be even");
static_assert(Layer::w_o::kExtent_row % kRows == 0, "o_proj: blocks of 32 rows");

struct Shared {
    union {
        float parts[2][kPartsOfHalf][kTileFloats];
        Shares<kMaxTokens> shares;
    };
    float scale[kMaxTokens];
    alignas(16) Byte rows[kMaxTokens][kPitch];  // last: a launch brings as many as it has tokens
};
static_assert(sizeof(Shared) <= kLdsBytes, "o_proj: the LDS of a block");

}  // namespace o_proj

MONO_GLOBAL void mono_o_proj_kernel(const OProjArguments args) {
    using namespace o_proj;
    MONO_LDS(Shared, lds);
    const int thread = wave::thread();
    const int tokens = static_cast<int>(args.tokens);
    const int half = group_index() / kGroupsOfHalf, group = group_index() % kGroupsOfHalf;
    const int rg = 2 * wave::block_x() + half;

    const Byte* weights = at(args.w_o, OFold::uniform(rg, 2 * group * kPairs));
    Quad w[kPairs][2][kPieces];
    MONO_UNROLL
    for (int c = 0; c < 2 * kPairs; ++c) {
        MONO_UNROLL
        for (int i = 0; i < kPieces; ++i) 
            w[c / 2][c % 2][i] = load_weights<Quad>(weights + c * OFold::kStep, OFold::lane(piece_lane(i)));
    }

    for (int t = 0; t < tokens; ++t) {
        const Row row = {at(args.attn, 2LL * kK * t), nullptr};
        float largest = 0.0f;
        for (int pack = thread; pack < kK / 8; pack += kThreads) {
            float x[8];
            row.read(pack, x);
            for (int i = 0; i < 8; ++i) largest = larger(largest, absolute(x[i]));
        }
        share(lds.shares, t, 0.0f, largest);
    }
    wave::barrier();
    for (int t = 0; t < tokens; ++t) {
        const Row row = {at(args.attn, 2LL * kK * t), nullptr};
        const float scale = token_scale(largest_of(lds.shares, t));
        for (int pack = thread; pack < kK / 8; pack += kThreads) {
            float x[8];
            row.read(pack, x);
            store_fp8(lds.rows[t], pack, x, scale);
        }
        if (thread == 0) lds.scale[t] = scale;
    }
    wave::barrier();

    const LdsRows rows = {lds.rows[0], kPitch, nullptr, 0, tokens, (1u << tokens) - 1u};
    Tile tile;
    MONO_UNROLL
    for (int p = 0; p < kPairs; ++p) multiply_fp8_pair(tile, w[p][0], w[p][1], rows, 128 * (group * kPairs + p));
    store_tile(tile, lds.parts[half][own_part(group)]);
    wave::barrier();

    const int r = thread % kRows, t = thread / kRows;
    if (t < tokens) {
        const int row = kRows * wave::block_x() + r;
        const float sum = tile_sum(lds.parts[r / 16][0], kPartsOfHalf, kTileFloats, r % 16, t);
        const float scale = load_float(at(args.s_o, OScaleFold::uniform(wave::block_x())), OScaleFold::lane(r));
        const long long place = static_cast<long long>(t) * Layer::w_o::kExtent_row + row;
        const float residual = low_bf16(static_cast<const unsigned short*>(args.residual)[place]);
        static_cast<unsigned short*>(args.a)[place] = bf16_of(sum * lds.scale[t] * scale + residual);
    }
}

}  // namespace mono

#endif

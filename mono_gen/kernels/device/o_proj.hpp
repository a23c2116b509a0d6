// o_proj: per-token fp8 of the attention's output (quantize.hpp), the output projection, plus the residual. A block is 32
// rows.
#ifndef MONO_DEVICE_O_PROJ_HPP
#define MONO_DEVICE_O_PROJ_HPP

#include "arguments.hpp"
#include "folds.hpp"
#include "products.hpp"
#include "staging.hpp"

namespace mono {

#define MONO_O_PROJ_ARGUMENTS(P, I, F) P(x8) P(x_scale) P(residual) P(w_o) P(s_o) P(a) I(tokens)
MONO_ARGUMENTS(OProjArguments, MONO_O_PROJ_ARGUMENTS)

namespace o_proj {

constexpr int kK = static_cast<int>(Layer::w_o::kExtent_k);
constexpr int kRows = 32;
constexpr int kGroupsOfHalf = kGroups / 2;        // groups that split k, for each 16 rows of a block
constexpr int kPairs = kK / 128 / kGroupsOfHalf;  // of 64-k chunks, a group
constexpr int kPartsOfHalf = kGroupsOfHalf * kPartsOfGroup;
static_assert(kK % (128 * kGroupsOfHalf) == 0, "o_proj: chunks a group must be even");
static_assert(Layer::w_o::kExtent_row % kRows == 0, "o_proj: blocks of 32 rows");

union Shared {
    StageArea<2 * kPairs, 0> stage;
    float parts[2][kPartsOfHalf][kTileFloats];  // once the weights are done with
};

}  // namespace o_proj

MONO_GLOBAL void mono_o_proj_kernel(const OProjArguments args) {
    using namespace o_proj;
    MONO_LDS(Shared, lds);
    const int thread = wave::thread(), tokens = static_cast<int>(args.tokens);
    const int half = group_index() / kGroupsOfHalf, group = group_index() % kGroupsOfHalf;
    const int rg = 2 * wave::block_x() + half;

    const Byte* weights = at(args.w_o, OFold::uniform(rg, 2 * group * kPairs));
    Staged<2 * kPairs, 0> w(lds.stage);
    MONO_UNROLL
    for (int c = 0; c < 2 * kPairs; ++c) {
        w.start<OFold>(c, weights + c * OFold::kStep);
        if (c % 2 == 1) w.end_group();
    }
    const int r = thread % kRows, t = thread / kRows;
    const float scale = load_weights<float>(at(args.s_o, OScaleFold::uniform(wave::block_x())), OScaleFold::lane(thread));
    wave::wait_for_inputs();
    const unsigned place = static_cast<unsigned>(t) * static_cast<unsigned>(Layer::w_o::kExtent_row) +
                           static_cast<unsigned>(kRows * wave::block_x() + r);
    const float x_scale = t < tokens ? static_cast<const float*>(args.x_scale)[t] : 0.0f;
    const float residual = t < tokens ? low_bf16(static_cast<const unsigned short*>(args.residual)[place]) : 0.0f;

    const TokenRows rows = {static_cast<const Byte*>(args.x8), kActivationBytes * kK, nullptr, 0, tokens, (1u << tokens) - 1u};
    Tile tile;
    MONO_UNROLL
    for (int p = 0; p < kPairs; ++p) {
        w.wait_for(p, kPairs);
        Quad first[kPieces], second[kPieces];
        for (int i = 0; i < kPieces; ++i) {
            first[i] = w.piece(2 * p, i);
            second[i] = w.piece(2 * p + 1, i);
        }
        multiply_fp8_pair(tile, first, second, rows, 128 * (group * kPairs + p));
    }
    w.done();
    store_tile(tile, lds.parts[half][own_part(group)]);
    wave::barrier();

    if (t < tokens) {
        const float sum = tile_sum(lds.parts[r / 16][0], kPartsOfHalf, kTileFloats, r % 16, t);
        static_cast<unsigned short*>(args.a)[place] = bf16_of(sum * x_scale * scale + residual);
    }
}

}  // namespace mono

#endif

// qkv: h = ar + res, gemma RMSNorm of it, per-token fp8 (quantize.hpp), and the fused projection: q, k, v, index_q,
// index_k. A block is 16 rows of the weight; its groups split k.
#ifndef MONO_DEVICE_QKV_HPP
#define MONO_DEVICE_QKV_HPP

#include "arguments.hpp"
#include "folds.hpp"
#include "products.hpp"
#include "staging.hpp"

namespace mono {

#define MONO_QKV_ARGUMENTS(P, I, F) \
    P(x8) P(x_scale) P(w_qkv) P(s_qkv) P(q) P(k) P(v) P(index_q) P(index_k) I(tokens)
MONO_ARGUMENTS(QkvArguments, MONO_QKV_ARGUMENTS)

namespace qkv {

constexpr int kChunks = kHidden / 64 / kGroups;  // of 64 k, a group
constexpr int kParts = kGroups * kPartsOfGroup;
static_assert(kHidden % (64 * kGroups) == 0, "qkv: the groups of a block split k evenly");

union Shared {
    StageArea<kChunks, 0> stage;
    float parts[kParts][kTileFloats];  // once the weights are done with
};

// Where a block's rows go: the tensor of their segment, bf16, `width` elements a token, from element `first` on.
struct Output {
    void* base;
    int width, first;
};

MONO_DEVICE Output output(const QkvArguments& args, int rg) {
    using W = Layer::w_qkv;
    static_assert(W::kBegin_k % 16 == 0 && W::kBegin_v % 16 == 0 && W::kBegin_index_q % 16 == 0 &&
                      W::kBegin_index_k % 16 == 0,
                  "qkv: a block of 16 rows lies in one segment");
    void* base = args.q;
    unsigned begin = W::kBegin_q, end = W::kEnd_q;
    const unsigned row = 16u * static_cast<unsigned>(rg);
    if (row >= W::kBegin_k) base = args.k, begin = W::kBegin_k, end = W::kEnd_k;
    if (row >= W::kBegin_v) base = args.v, begin = W::kBegin_v, end = W::kEnd_v;
    if (row >= W::kBegin_index_q) base = args.index_q, begin = W::kBegin_index_q, end = W::kEnd_index_q;
    if (row >= W::kBegin_index_k) base = args.index_k, begin = W::kBegin_index_k, end = W::kEnd_index_k;
    return {base, static_cast<int>(end - begin), static_cast<int>(row - begin)};
}

}  // namespace qkv

MONO_GLOBAL void mono_qkv_kernel(const QkvArguments args) {
    using namespace qkv;
    MONO_LDS(Shared, lds);
    const int thread = wave::thread(), tokens = static_cast<int>(args.tokens);
    const int rg = wave::block_x(), group = group_index();

    const Byte* weights = at(args.w_qkv, QkvFold::uniform(rg, group * kChunks));
    Staged<kChunks, 0> w(lds.stage);
    MONO_UNROLL
    for (int c = 0; c < kChunks; ++c) {
        w.start<QkvFold>(c, weights + c * QkvFold::kStep);
        w.end_group();
    }
    const int r = thread % 16, t = thread / 16;
    const float scale = load_weights<float>(at(args.s_qkv, QkvScaleFold::uniform(rg)), QkvScaleFold::lane(thread));
    wave::wait_for_inputs();
    const float x_scale = t < tokens ? static_cast<const float*>(args.x_scale)[t] : 0.0f;

    const Byte* x8 = static_cast<const Byte*>(args.x8);
    const TokenRows rows = {x8, kActivationBytes * kHidden, nullptr, 0, tokens, (1u << tokens) - 1u};
    Tile tile;
    MONO_UNROLL
    for (int c = 0; c < kChunks; ++c) {
        w.wait_for(c, kChunks);
        Quad pieces[kPieces];
        for (int i = 0; i < kPieces; ++i) pieces[i] = w.piece(c, i);
        multiply_fp8(tile, pieces, rows, 64 * (group * kChunks + c));
    }
    w.done();
    store_tile(tile, lds.parts[own_part(group)]);
    wave::barrier();

    if (t < tokens) {
        const float sum = tile_sum(lds.parts[0], kParts, kTileFloats, r, t);
        const Output to = output(args, rg);
        static_cast<unsigned short*>(to.base)[t * to.width + to.first + r] = bf16_of(sum * x_scale * scale);
    }
}

}  // namespace mono

#endif

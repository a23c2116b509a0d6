// qkv: h = ar + res, gemma RMSNorm of it, per-token fp8, and the fused projection: q, k, v, index_q, index_k.
// A block is 16 rows of the weight; its waves split k. Each block works the norm out for itself, its weights under way.
#ifndef MONO_DEVICE_QKV_HPP
#define MONO_DEVICE_QKV_HPP

#include "activations.hpp"
#include "arguments.hpp"
#include "folds.hpp"
#include "products.hpp"

namespace mono {

#define MONO_QKV_ARGUMENTS(P, I, F)                                                                          \
    P(ar) P(res) P(g_in) P(w_qkv) P(s_qkv) P(h) P(q) P(k) P(v) P(index_q) P(index_k) I(tokens) F(eps)
MONO_ARGUMENTS(QkvArguments, MONO_QKV_ARGUMENTS)

namespace qkv {

constexpr int kTokens = kLdsBytes < 128 * 1024 ? 8 : kMaxTokens;  // that a block's LDS holds; more are more blocks
constexpr int kChunks = kHidden / 64 / kGroups;                   // of 64 k, a group
constexpr unsigned kPitch = kHidden + 16;                         // rows 4 banks apart

static_assert(kHidden % (64 * kGroups) == 0, "qkv: the groups of a block split k evenly");
static_assert(kHidden % 8 == 0, "qkv: the norm reads 8 elements at a time");

struct Shared {
    union {
        float parts[kGroups * kPartsOfGroup][kTileFloats];
        Shares<kTokens> shares;
    };
    float scale[kTokens];
    alignas(16) Byte rows[kTokens][kPitch];  // last: a launch brings as many as it has tokens
};
static_assert(sizeof(Shared) <= kLdsBytes, "qkv: the LDS of a block");

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
    const int thread = wave::thread();
    const int rg = wave::block_x();
    const int first = wave::block_y() * kTokens;
    const int left = static_cast<int>(args.tokens) - first;
    const int tokens = left < kTokens ? left : kTokens;
    const int group = group_index();

    // The weights first: they are on their way while the norm is worked out.
    const Byte* weights = at(args.w_qkv, QkvFold::uniform(rg, group * kChunks));
    Quad w[kChunks][kPieces];
    MONO_UNROLL
    for (int c = 0; c < kChunks; ++c) {
        MONO_UNROLL
        for (int i = 0; i < kPieces; ++i) w[c][i] = load_weights<Quad>(weights + c * QkvFold::kStep, QkvFold::lane(piece_lane(i)));
    }

    const Byte* g_in = static_cast<const Byte*>(args.g_in);
    for (int t = 0; t < tokens; ++t) {
        const Row row = {at(args.ar, 2LL * kHidden * (first + t)), at(args.res, 2LL * kHidden * (first + t))};
        share_norm<kHidden>(lds.shares, t, row, g_in);
    }
    wave::barrier();
    for (int t = 0; t < tokens; ++t) {
        const Row row = {at(args.ar, 2LL * kHidden * (first + t)), at(args.res, 2LL * kHidden * (first + t))};
        const float rstd = inverse_root_mean(sum_of(lds.shares, t), kHidden, static_cast<float>(args.eps));
        const float scale = token_scale(largest_of(lds.shares, t) * rstd);
        for (int pack = thread; pack < kHidden / 8; pack += kThreads) {
            float x[8];
            row.read(pack, x);
            if (rg == 0) store16(at(args.h, 2LL * kHidden * (first + t)), 16u * static_cast<unsigned>(pack), narrowed(x));
            times_gemma(g_in, pack, x);
            for (int i = 0; i < 8; ++i) x[i] *= rstd;
            store_fp8(lds.rows[t], pack, x, scale);
        }
        if (thread == 0) lds.scale[t] = scale;
    }
    wave::barrier();

    const LdsRows rows = {lds.rows[0], kPitch, nullptr, 0, tokens, (1u << tokens) - 1u};
    Tile tile;
    MONO_UNROLL
    for (int c = 0; c < kChunks; ++c) multiply_fp8(tile, w[c], rows, 64 * (group * kChunks + c));
    store_tile(tile, lds.parts[own_part(group)]);
    wave::barrier();

    const int r = thread % 16, t = thread / 16;
    if (t < tokens) {
        const float sum = tile_sum(lds.parts[0], kGroups * kPartsOfGroup, kTileFloats, r, t);
        const float scale = load_float(at(args.s_qkv, QkvScaleFold::uniform(rg)), QkvScaleFold::lane(r));
        const Output to = output(args, rg);
        static_cast<unsigned short*>(to.base)[(first + t) * to.width + to.first + r] = bf16_of(sum * lds.scale[t] * scale);
    }
}

}  // namespace mono

#endif

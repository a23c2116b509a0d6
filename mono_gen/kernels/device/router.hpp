// router: gemma RMSNorm with g_post, the gate, sigmoid, and the four best experts of each token. Two launches: the
// logits, an expert a 64-lane group; then the ranking, a block a token.
#ifndef MONO_DEVICE_ROUTER_HPP
#define MONO_DEVICE_ROUTER_HPP

#include "activations.hpp"
#include "arguments.hpp"
#include "folds.hpp"

namespace mono {

#define MONO_LOGITS_ARGUMENTS(P, I, F) P(a) P(g_post) P(gate) P(xn) P(logits) I(tokens) F(eps)
MONO_ARGUMENTS(LogitsArguments, MONO_LOGITS_ARGUMENTS)

#define MONO_RANK_ARGUMENTS(P, I, F) P(logits) P(bias) P(ids) P(weights) I(tokens) F(route_scale)
MONO_ARGUMENTS(RankArguments, MONO_RANK_ARGUMENTS)

namespace router {

using Gate = Layer::gate;
constexpr int kRouted = static_cast<int>(Gate::kExtent_row);
constexpr int kLanes = 64;  // that share an expert's row of the gate
constexpr int kExperts = kThreads / kLanes;
constexpr int kSteps = kHidden / (8 * kLanes);

static_assert(kHidden % (8 * kLanes) == 0, "router: 64 lanes of 8 elements");
static_assert(kRouted % kExperts == 0, "router: blocks of whole experts");
static_assert(kRouted <= kThreads && kTopK <= kRouted, "router: a thread an expert");

struct LogitsShared {
    Shares<1> shares;
    float parts[kWaves];
    alignas(16) Byte xn[2 * kHidden];  // bf16
};

struct RankShared {
    float key[kRouted];  // what is ranked: the sigmoid and the bias
    float chosen[kTopK];
};

}  // namespace router

MONO_GLOBAL void mono_logits_kernel(const LogitsArguments args) {
    using namespace router;
    MONO_LDS(LogitsShared, lds);
    const int thread = wave::thread(), token = wave::block_y();
    const int group = wave::uniform(thread / kLanes);
    const int expert = kExperts * wave::block_x() + group;

    Quad w[kSteps];
    MONO_UNROLL
    for (int i = 0; i < kSteps; ++i) {
        w[i] = load_weights<Quad>(at(args.gate, GateFold::uniform(expert, i)), GateFold::lane(thread % kLanes));
    }

    const Byte* g_post = static_cast<const Byte*>(args.g_post);
    const Row row = {at(args.a, 2LL * kHidden * token), nullptr};
    share_norm<kHidden>(lds.shares, 0, row, g_post);
    wave::barrier();
    const float rstd = inverse_root_mean(sum_of(lds.shares, 0), kHidden, static_cast<float>(args.eps));
    for (int pack = thread; pack < kHidden / 8; pack += kThreads) {
        float x[8];
        row.read(pack, x);
        times_gemma(g_post, pack, x);
        for (int i = 0; i < 8; ++i) x[i] *= rstd;
        const Quad xn = narrowed(x);
        store16(lds.xn, 16u * static_cast<unsigned>(pack), xn);
        if (wave::block_x() == 0) store16(at(args.xn, 2LL * kHidden * token), 16u * static_cast<unsigned>(pack), xn);
    }
    wave::barrier();

    float sum = 0.0f;
    MONO_UNROLL
    for (int i = 0; i < kSteps; ++i) {
        float x[8], g[8];
        widen(load16(lds.xn, 16u * static_cast<unsigned>(kLanes * i + thread % kLanes)), x);
        widen(w[i], g);
        for (int j = 0; j < 8; ++j) sum += x[j] * g[j];
    }
    sum = wave_sum(sum);
    if (lane_index() == 0) lds.parts[thread / kWave] = sum;
    wave::barrier();
    if (thread < kExperts) {
        constexpr int kParts = kLanes / kWave;
        float logit = 0.0f;
        for (int p = 0; p < kParts; ++p) logit += lds.parts[kParts * thread + p];
        static_cast<float*>(args.logits)[token * kRouted + kExperts * wave::block_x() + thread] = logit;
    }
}

// The rank of an expert is how many come before it: a larger key, or the same key and a lower number. No NaN is ranked
// before a number.
MONO_GLOBAL void mono_rank_kernel(const RankArguments args) {
    using namespace router;
    MONO_LDS(RankShared, lds);
    const int expert = wave::thread(), token = wave::block_x();
    float sigmoid = 0.0f, key = 0.0f;
    if (expert < kRouted) {
        const float logit = static_cast<const float*>(args.logits)[token * kRouted + expert];
        sigmoid = sigmoid_of(logit);
        key = sigmoid + load_float(args.bias, Layer::bias::offset(expert));
        lds.key[expert] = key == key ? key : -float_of(0x7F800000u);
    }
    wave::barrier();
    int rank = 0;
    if (expert < kRouted) {
        const float mine = lds.key[expert];
        for (int other = 0; other < kRouted; ++other) {
            rank += lds.key[other] > mine || (lds.key[other] == mine && other < expert) ? 1 : 0;
        }
        if (rank < kTopK) {
            lds.chosen[rank] = sigmoid;
            static_cast<int*>(args.ids)[token * kTopK + rank] = expert;
        }
    }
    wave::barrier();
    if (expert < kTopK) {
        float sum = 0.0f;
        for (int i = 0; i < kTopK; ++i) sum += lds.chosen[i];
        static_cast<float*>(args.weights)[token * kTopK + expert] =
            lds.chosen[expert] / sum * static_cast<float>(args.route_scale);
    }
}

}  // namespace mono

#endif

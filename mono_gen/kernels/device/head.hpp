// head: gemma RMSNorm of each head of q, k, index_q and index_k, and partial NeoX RoPE. 32 lanes a head, 4 dims a lane.
#ifndef MONO_DEVICE_HEAD_HPP
#define MONO_DEVICE_HEAD_HPP

#include "activations.hpp"
#include "arguments.hpp"

namespace mono {

#define MONO_HEAD_ARGUMENTS(P, I, F)                                                                             \
    P(q) P(k) P(index_q) P(index_k) P(positions) P(g_q) P(g_k) P(g_iq) P(g_ik) P(cos_sin) P(q_out) P(k_out)      \
    P(index_q_out) P(index_k_out) I(tokens) I(length) F(eps)
MONO_ARGUMENTS(HeadArguments, MONO_HEAD_ARGUMENTS)

namespace head {

constexpr int kLanes = 32;
constexpr int kDims = 4;  // a lane
constexpr int kHalf = kRotaryDim / 2;
static_assert(kHeadDim == kLanes * kDims, "head: 32 lanes of 4 dims");
static_assert(kHalf % kDims == 0 && kRotaryDim <= kHeadDim, "head: a lane's dims lie in one half of the rotation");
static_assert((kHalf / kDims & (kHalf / kDims - 1)) == 0, "head: the partner's lane is one exclusive or away");

template <class Segment>
constexpr int heads(Segment begin, Segment end) {
    return static_cast<int>((end - begin) / kHeadDim);
}

using W = Layer::w_qkv;
constexpr int kQ = heads(W::kBegin_q, W::kEnd_q);
constexpr int kK = heads(W::kBegin_k, W::kEnd_k);
constexpr int kIndexQ = heads(W::kBegin_index_q, W::kEnd_index_q);
constexpr int kIndexK = heads(W::kBegin_index_k, W::kEnd_index_k);
constexpr int kHeads = kQ + kK + kIndexQ + kIndexK;

// One kind of head: where its rows come from and go, and its norm's weight.
struct Kind {
    const void* in;
    void* out;
    const void* g;
    int heads;  // a token
    int head;
};

MONO_DEVICE Kind kind_of(const HeadArguments& args, int head) {
    if (head < kQ) return {args.q, args.q_out, args.g_q, kQ, head};
    if (head < kQ + kK) return {args.k, args.k_out, args.g_k, kK, head - kQ};
    if (head < kQ + kK + kIndexQ) return {args.index_q, args.index_q_out, args.g_iq, kIndexQ, head - kQ - kK};
    return {args.index_k, args.index_k_out, args.g_ik, kIndexK, head - kQ - kK - kIndexQ};
}

MONO_DEVICE void read4(const void* base, long long bytes, float (&values)[kDims]) {
    const unsigned* words = reinterpret_cast<const unsigned*>(at(base, bytes));
    for (int i = 0; i < 2; ++i) values[2 * i] = low_bf16(words[i]), values[2 * i + 1] = high_bf16(words[i]);
}

}  // namespace head

MONO_GLOBAL void mono_head_kernel(const HeadArguments args) {
    using namespace head;
    const int item = wave::block_x() * (kThreads / kLanes) + wave::thread() / kLanes;
    const int last = static_cast<int>(args.tokens) * kHeads - 1;
    const bool is_idle = item > last;  // works on the last one with the others, and stores nothing
    const int token = (is_idle ? last : item) / kHeads;
    const Kind kind = kind_of(args, (is_idle ? last : item) % kHeads);
    const int d = kDims * (wave::thread() % kLanes);
    const long long row = 2LL * kHeadDim * (static_cast<long long>(token) * kind.heads + kind.head);

    float x[kDims], g[kDims];
    read4(kind.in, row + 2 * d, x);
    read4(kind.g, Layer::g_q::offset(d), g);
    float squares = 0.0f;
    for (int i = 0; i < kDims; ++i) squares += x[i] * x[i];
    for (int mask = kLanes / 2; mask > 0; mask /= 2) squares += wave::shuffle_xor(squares, mask);
    const float rstd = inverse_root_mean(squares, kHeadDim, static_cast<float>(args.eps));
    for (int i = 0; i < kDims; ++i) x[i] *= rstd * (g[i] + 1.0f);

    // NeoX: dims d and d + kHalf turn together, for d < kHalf; dims from kRotaryDim on stay.
    const long long position = static_cast<const long long*>(args.positions)[token];
    const bool is_known = position >= 0 && position < args.length;
    float cos[kDims], sin[kDims];
    read4(args.cos_sin, Layer::cos_sin::offset(is_known ? position : 0, d % kHalf), cos);
    read4(args.cos_sin, Layer::cos_sin::offset(is_known ? position : 0, kHalf + d % kHalf), sin);
    for (int i = 0; i < kDims; ++i) {
        const float partner = wave::shuffle_xor(x[i], kHalf / kDims);
        const float turned = x[i] * cos[i] + (d < kHalf ? -partner : partner) * sin[i];
        if (d < kRotaryDim) x[i] = is_known ? turned : float_of(0x7FC00000u);  // no such position: NaN, not a guess
    }
    if (is_idle) return;
    unsigned* out = reinterpret_cast<unsigned*>(at(kind.out, row + 2 * d));
    for (int i = 0; i < 2; ++i) out[i] = bf16_of(x[2 * i]) | static_cast<unsigned>(bf16_of(x[2 * i + 1])) << 16;
}

}  // namespace mono

#endif

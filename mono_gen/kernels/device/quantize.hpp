// The launches before a product: a token's activations as fp8 over one scale, or as MXFP8. A block is a token.
#ifndef MONO_DEVICE_QUANTIZE_HPP
#define MONO_DEVICE_QUANTIZE_HPP

#include "activations.hpp"
#include "arguments.hpp"

namespace mono {

// x8: fp8 [S, HIDDEN], kActivationBytes an element; x_scale: fp32 [S].
#define MONO_NORM_ARGUMENTS(P, I, F) P(ar) P(res) P(g_in) P(h) P(x8) P(x_scale) I(tokens) F(eps)
MONO_ARGUMENTS(NormArguments, MONO_NORM_ARGUMENTS)

#define MONO_FP8_ARGUMENTS(P, I, F) P(attn) P(x8) P(x_scale) I(tokens)
MONO_ARGUMENTS(Fp8Arguments, MONO_FP8_ARGUMENTS)

// x8: fp8 [S, HIDDEN], likewise; x_scales: e8m0 [S, HIDDEN / 32].
#define MONO_MX_ARGUMENTS(P, I, F) P(xn) P(x8) P(x_scales) I(tokens)
MONO_ARGUMENTS(MxArguments, MONO_MX_ARGUMENTS)

struct QuantizeShared {
    Shares<1> shares;
};

// h = bf16(ar + res), and the gemma norm of the sum before it was rounded.
MONO_GLOBAL void mono_norm_kernel(const NormArguments args) {
    MONO_LDS(QuantizeShared, lds);
    wave::let_next_start();
    const int token = wave::block_x();
    const Byte* g_in = static_cast<const Byte*>(args.g_in);
    const Row row = {at(args.ar, 2LL * kHidden * token), at(args.res, 2LL * kHidden * token)};
    share_norm<kHidden>(lds.shares, 0, row, g_in);
    wave::barrier();
    const float rstd = inverse_root_mean(sum_of(lds.shares, 0), kHidden, static_cast<float>(args.eps));
    const float scale = token_scale(largest_of(lds.shares, 0) * rstd);
    for (int pack = wave::thread(); pack < kHidden / 8; pack += kThreads) {
        float x[8];
        row.read(pack, x);
        store16(at(args.h, 2LL * kHidden * token), 16u * static_cast<unsigned>(pack), narrowed(x));
        times_gemma(g_in, pack, x);
        for (int i = 0; i < 8; ++i) x[i] *= rstd;
        store_fp8(at(args.x8, 1LL * kActivationBytes * kHidden * token), pack, x, scale);
    }
    if (wave::thread() == 0) static_cast<float*>(args.x_scale)[token] = scale;
}

#if !defined(MONO_FNUZ)

MONO_GLOBAL void mono_fp8_kernel(const Fp8Arguments args) {
    constexpr int kK = static_cast<int>(Layer::w_o::kExtent_k);
    MONO_LDS(QuantizeShared, lds);
    wave::let_next_start();
    const int token = wave::block_x();
    const Row row = {at(args.attn, 2LL * kK * token), nullptr};
    float largest = 0.0f;
    for (int pack = wave::thread(); pack < kK / 8; pack += kThreads) {
        float x[8];
        row.read(pack, x);
        for (int i = 0; i < 8; ++i) largest = larger(largest, absolute(x[i]));
    }
    share(lds.shares, 0, 0.0f, largest);
    wave::barrier();
    const float scale = token_scale(largest_of(lds.shares, 0));
    for (int pack = wave::thread(); pack < kK / 8; pack += kThreads) {
        float x[8];
        row.read(pack, x);
        store_fp8(at(args.x8, 1LL * kActivationBytes * kK * token), pack, x, scale);
    }
    if (wave::thread() == 0) static_cast<float*>(args.x_scale)[token] = scale;
}

MONO_GLOBAL void mono_mx_kernel(const MxArguments args) {
    wave::let_next_start();
    const int token = wave::block_x();
    for (int block = wave::thread(); block < kHidden / 32; block += kThreads) {
        store_mxfp8(at(args.xn, 2LL * kHidden * token), block, at(args.x8, 1LL * kActivationBytes * kHidden * token),
                    at(args.x_scales, 1LL * (kHidden / 32) * token));
    }
}

#endif

}  // namespace mono

#endif

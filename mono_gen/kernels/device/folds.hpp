// How the stages find weights: the generated header's folds, each named once. rg counts 16-row groups, kc chunks of k; a
// lane reads 16 bytes at uniform(rg, kc) + lane(l), and a dword of scales at dword(rg, kc) + lane(l).
#ifndef MONO_DEVICE_FOLDS_HPP
#define MONO_DEVICE_FOLDS_HPP

#include "layer.hpp"

#if defined(MONO_FOLDS)
#include MONO_FOLDS  // a test compares with addresses written by hand
#else

namespace mono {

using QkvFold = spec::wave_fold<Layer::w_qkv, 16, 64, 16>;
using QkvScaleFold = spec::row_fold<Layer::s_qkv, 16>;
#if !defined(MONO_FNUZ)
using OFold = spec::wave_fold<Layer::w_o, 16, 64, 16>;
using OScaleFold = spec::row_fold<Layer::s_o, 32>;
using GateFold = spec::wave_fold<Layer::gate, 1, 512, 8>;
using UpFold = spec::wave_fold<Layer::w13, 16, 128, 32>;
using UpScaleFold = spec::wave_fold<Layer::s13, 16, 4, 1>;
using DownFold = spec::wave_fold<Layer::w2, 16, 128, 32>;
using DownScaleFold = spec::wave_fold<Layer::s2, 16, 4, 1>;
using SharedUpFold = spec::wave_fold<Layer::sh_w13, 16, 64, 16>;  // two pieces of 16 bytes a 128-k chunk
using SharedUpScaleFold = spec::wave_fold<Layer::sh_s13, 16, 4, 1>;
using SharedDownFold = spec::wave_fold<Layer::sh_w2, 16, 64, 16>;
using SharedDownScaleFold = spec::wave_fold<Layer::sh_s2, 16, 4, 1>;
#endif

}  // namespace mono

#endif
#endif

// The layer's spec, as the stages call it, and the sizes that follow from it. A build names the header and the struct.
#ifndef MONO_DEVICE_LAYER_HPP
#define MONO_DEVICE_LAYER_HPP

#include "memory.hpp"
#include MONO_SPEC_HEADER

namespace mono {

namespace spec = MONO_SPEC;
using Layer = spec::MONO_STRUCT;

constexpr int kMaxTokens = 16;  // of a step; the columns of an MFMA
constexpr int kTopK = 4;        // experts a token, as the spec requires of the layer

constexpr int kHidden = static_cast<int>(Layer::w_qkv::kExtent_k);
constexpr int kQkvRows = static_cast<int>(Layer::w_qkv::kExtent_row);
constexpr int kHeadDim = static_cast<int>(Layer::g_q::kExtent_row);
constexpr int kRotaryDim = static_cast<int>(Layer::cos_sin::kExtent_k);

}  // namespace mono

#endif

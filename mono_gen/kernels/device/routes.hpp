// Which experts a step needs, and for which tokens: worked out by each block from the router's ids.
#ifndef MONO_DEVICE_ROUTES_HPP
#define MONO_DEVICE_ROUTES_HPP

#include "layer.hpp"

namespace mono {

constexpr int kRoutedExperts = static_cast<int>(Layer::gate::kExtent_row);
constexpr int kSlots = kTopK + 1;  // of a token: its experts, then the shared one
constexpr int kMostExperts = (kMaxTokens * kTopK < kRoutedExperts ? kMaxTokens * kTopK : kRoutedExperts) + 1;

struct Routes {
    int count;                    // distinct experts, the fused shared one last
    int expert[kMostExperts];     // in the order in which the ids name them first
    unsigned mask[kMostExperts];  // the tokens routed to each
    int id[kMaxTokens * kTopK];
    int is_first[kMaxTokens * kTopK];
};

// All threads of the block; a barrier stands at its end. An id that names no expert is in no mask.
MONO_DEVICE void find_experts(Routes& routes, const int* ids, int tokens, bool is_fused) {
    const int i = wave::thread(), pairs = tokens * kTopK;
    if (i < pairs) routes.id[i] = ids[i];
    wave::barrier();
    unsigned mask = 0;
    if (i < pairs) {
        const int expert = routes.id[i];
        bool is_first = expert >= 0 && expert < kRoutedExperts;
        for (int j = 0; j < pairs; ++j) {
            if (routes.id[j] != expert) continue;
            mask |= 1u << j / kTopK;
            if (j < i) is_first = false;
        }
        routes.is_first[i] = is_first ? 1 : 0;
    }
    wave::barrier();
    if (i < pairs && routes.is_first[i] != 0) {
        int place = 0;
        for (int j = 0; j < i; ++j) place += routes.is_first[j];
        routes.expert[place] = routes.id[i];
        routes.mask[place] = mask;
    }
    if (i == 0) {
        int count = 0;
        for (int j = 0; j < pairs; ++j) count += routes.is_first[j];
        if (is_fused) {
            routes.expert[count] = kRoutedExperts;
            routes.mask[count] = (1u << tokens) - 1u;
        }
        routes.count = count + (is_fused ? 1 : 0);
    }
    wave::barrier();
}

// The slot of a token that names an expert first; the last one is the shared expert's.
MONO_DEVICE int slot_of(const Routes& routes, int token, int expert) {
    for (int s = 0; s < kTopK; ++s) {
        if (routes.id[token * kTopK + s] == expert) return s;
    }
    return kTopK;
}

}  // namespace mono

#endif

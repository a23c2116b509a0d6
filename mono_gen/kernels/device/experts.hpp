// The experts, grouped: a block of up_gate is 32 columns of the intermediate for one distinct expert and every token
// routed to it; a block of down is 32 output rows for all of them. The same code serves the routed MXFP4 experts, with
// the shared one in their table where it is fused, and the separate MXFP8 shared expert.
//
// up_gate: MXFP8 of xn, times gate and up, g = min(gate, limit), u = clamp(up, -limit, limit),
//          mid = bf16(g sigmoid(1.702 g) (u + 1)) as MXFP8.
// down:    mid times w2, each expert's columns weighted, summed over a token's slots.
#ifndef MONO_DEVICE_EXPERTS_HPP
#define MONO_DEVICE_EXPERTS_HPP

#include "activations.hpp"
#include "arguments.hpp"
#include "folds.hpp"
#include "products.hpp"
#include "routes.hpp"
#include "staging.hpp"

namespace mono {

// `early` is 1 where the launch in front is up_gate, after which ids and weights are not written any more.
// x8, x_scales: xn as MXFP8 (quantize.hpp). mid, mid_scales: the same, a row a token and slot. `fused` is 1 where the table
// holds the shared expert.
#define MONO_UP_GATE_ARGUMENTS(P, I, F) \
    P(x8) P(x_scales) P(ids) P(w13) P(s13) P(mid) P(mid_scales) I(tokens) I(fused) F(limit)
MONO_ARGUMENTS(UpGateArguments, MONO_UP_GATE_ARGUMENTS)

#define MONO_DOWN_ARGUMENTS(P, I, F) P(mid) P(mid_scales) P(ids) P(weights) P(w2) P(s2) P(out) I(tokens) I(fused) I(early)
MONO_ARGUMENTS(DownArguments, MONO_DOWN_ARGUMENTS)

#define MONO_SHARED_UP_GATE_ARGUMENTS(P, I, F) P(x8) P(x_scales) P(mid) P(mid_scales) I(tokens) F(limit)
MONO_ARGUMENTS(SharedUpGateArguments, MONO_SHARED_UP_GATE_ARGUMENTS)

#define MONO_SHARED_DOWN_ARGUMENTS(P, I, F) P(mid) P(mid_scales) P(out) I(tokens)
MONO_ARGUMENTS(SharedDownArguments, MONO_SHARED_DOWN_ARGUMENTS)

namespace experts {

constexpr int kInter = static_cast<int>(Layer::w2::kExtent_k);
constexpr int kColumns = 32;  // of the intermediate, a block: one MX block of mid

// MX weights and their scales: how a lane's pieces of 16 rows and 128 k are found.
template <class Weight, class Scale, class WeightFold, class ScaleFold_, Elements kType, bool kIsTable>
struct Mx {
    using W = Weight;
    using S = Scale;
    static constexpr Elements kElements = kType;
    static constexpr int kHalves = kType == Elements::fp8 ? 2 : 1;  // 64-k halves of 16 bytes a lane; fp4 has 128 k in them
    static constexpr int kCount = kHalves * kPieces;
    using Fold = WeightFold;
    using ScaleFold = ScaleFold_;
    static_assert(ScaleFold::kSelectRows == 2 && ScaleFold::kSelectChunks == 2,
                  "a scale dword serves two 16-row groups and two chunks: chunks a wave must be even");

    // Where an expert's weights begin; the separate shared expert stands alone.
    static MONO_DEVICE long long weight_base(int expert) {
        if constexpr (kIsTable) return W::base(expert);
        return 0;
    }
    static MONO_DEVICE long long scale_base(int expert) {
        if constexpr (kIsTable) return S::base(expert);
        return 0;
    }

    // Where 16 rows and 128 k begin, and their scales: of two 16-row groups and two chunks. `more` chunks on are known when
    // it is compiled: a step each.
    static MONO_DEVICE const Byte* tile(const Byte* weights, int rg, int chunk, int more = 0) {
        static_assert(Fold::kStepChunks == kHalves, "a step is 128 k");
        return weights + Fold::uniform(rg, kHalves * chunk) + more * Fold::kStep;
    }
    static MONO_DEVICE const Byte* scale_tile(const Byte* scales, int rg, int chunk, int more = 0) {
        return scales + ScaleFold::dword(rg, chunk) + more / ScaleFold::kStepChunks * ScaleFold::kStep;
    }

    // Slots `slot` on of a stage: a tile, of fp8 in two halves.
    template <class Stage>
    static MONO_DEVICE void start(Stage& stage, int slot, const Byte* tile) {
        MONO_UNROLL
        for (int h = 0; h < kHalves; ++h) stage.template start<Fold>(slot + h, tile + Fold::uniform(0, h));
    }

    // Dwords `first` on.
    template <class Stage>
    static MONO_DEVICE void start_scales(Stage& stage, int first, const Byte* tile) {
        MONO_UNROLL
        for (int i = 0; i < kScales<kType>; ++i) {
            stage.start_word(first + i, tile, ScaleFold::lane(scale_lane<kType>(i)));
        }
    }

    // 16 rows, 128 k: slots and dwords of the stage; kSelect the byte of the dwords, once `shift` bits are off.
    template <int kSelect, class Stage>
    static MONO_DEVICE void multiply(Tile& tile, const Stage& stage, int slot, int word, int shift, const MxChunk<kType>& x) {
        Quad w[kCount];
        unsigned scale[kScales<kType>];
        MONO_UNROLL
        for (int i = 0; i < kCount; ++i) w[i] = stage.piece(slot + i / kPieces, i % kPieces);
        MONO_UNROLL
        for (int i = 0; i < kScales<kType>; ++i) scale[i] = stage.word(word + i) >> shift;
        multiply_mx<kType, kSelect>(tile, w, scale, x);
    }
};

using RoutedUp = Mx<Layer::w13, Layer::s13, UpFold, UpScaleFold, Elements::fp4, true>;
using RoutedDown = Mx<Layer::w2, Layer::s2, DownFold, DownScaleFold, Elements::fp4, true>;
using SharedUp = Mx<Layer::sh_w13, Layer::sh_s13, SharedUpFold, SharedUpScaleFold, Elements::fp8, false>;
using SharedDown = Mx<Layer::sh_w2, Layer::sh_s2, SharedDownFold, SharedDownScaleFold, Elements::fp8, false>;

// --- up and gate ---

constexpr int kHalvesOfGroup = kGroup / 32;            // 16-row halves of a block's 32 columns, a group
constexpr int kSplits = kGroups * kHalvesOfGroup / 2;  // of k
constexpr int kChunkPairs = kHidden / 256 / kSplits;   // of two 128-k chunks, a group
constexpr int kUpParts = kSplits * kPartsOfGroup;
static_assert(kHidden % (256 * kSplits) == 0, "up_gate: chunks a wave must be even");
static_assert(kInter % kColumns == 0, "up_gate: blocks of 32 columns");

// A pair of chunks under way: gate and up of the group's halves, and the dwords of their scales.
template <class M>
struct UpPair {
    static constexpr int kTiles = 2 * kHalvesOfGroup * 2 * M::kHalves;
    static constexpr int kWords = 2 * kScales<M::kElements>;
    static constexpr int kAhead = kPairsAhead<M::kElements> < kChunkPairs ? kPairsAhead<M::kElements> : kChunkPairs;
    using Area = StageArea<kAhead * kTiles, kAhead * kWords>;
    using Stage = Staged<kAhead * kTiles, kAhead * kWords>;

    static constexpr MONO_DEVICE int tile(int slot, int part, int half, int chunk) {
        return slot * kTiles + ((part * kHalvesOfGroup + half) * 2 + chunk) * M::kHalves;
    }
    static constexpr MONO_DEVICE int word(int slot, int part) { return slot * kWords + part * kScales<M::kElements>; }

    // Pair `more` / 2 of those from chunk `first` on.
    static MONO_DEVICE void start(Stage& stage, int slot, const Byte* weights, const Byte* scales, int half, int first,
                                  int more) {
        constexpr int kUp = static_cast<int>(M::W::kBegin_up / 16);
        static_assert(M::W::kBegin_up % 32 == 0 && M::W::kBegin_gate == 0, "up_gate: a scale dword's rows are gate or up");
        MONO_UNROLL
        for (int part = 0; part < 2; ++part) {
            const int rg = kUp * part + 2 * wave::block_x();
            MONO_UNROLL
            for (int h = 0; h < kHalvesOfGroup; ++h) {
                MONO_UNROLL
                for (int c = 0; c < 2; ++c) {
                    M::start(stage, tile(slot, part, h, c), M::tile(weights, rg + half + h, first, more + c));
                }
            }
            M::start_scales(stage, word(slot, part), M::scale_tile(scales, rg, first, more));
        }
        stage.end_group();
    }

    static MONO_DEVICE void multiply(Tile (&tiles)[2][kHalvesOfGroup], const Stage& stage, int slot, int half,
                                     const TokenRows& rows, int chunk) {
        using Fold = typename M::ScaleFold;
        MONO_UNROLL
        for (int at = 0; at < 2 * kEights; ++at) {
            const int c = at / kEights;
            if (!has_tokens(rows, at % kEights)) continue;
            const MxChunk<M::kElements> x(rows, 128 * (chunk + c), at % kEights);
            MONO_UNROLL
            for (int part = 0; part < 2; ++part) {
                const int w = word(slot, part);
                if constexpr (kHalvesOfGroup == 1) {
                    M::template multiply<0>(tiles[part][0], stage, tile(slot, part, 0, c), w, 8 * Fold::select(half, c), x);
                } else if (c == 0) {  // each byte of a dword is an operand select
                    M::template multiply<Fold::select(0, 0)>(tiles[part][0], stage, tile(slot, part, 0, 0), w, 0, x);
                    M::template multiply<Fold::select(1, 0)>(tiles[part][1], stage, tile(slot, part, 1, 0), w, 0, x);
                } else {
                    M::template multiply<Fold::select(0, 1)>(tiles[part][0], stage, tile(slot, part, 0, 1), w, 0, x);
                    M::template multiply<Fold::select(1, 1)>(tiles[part][1], stage, tile(slot, part, 1, 1), w, 0, x);
                }
            }
        }
    }
};

template <class M>
struct UpShared {
    Routes routes;
    union {
        alignas(16) typename UpPair<M>::Area stage;
        float parts[2][2][kUpParts][kTileFloats];  // gate and up, 16-row halves; once the weights are done with
    };
    float mid[kMaxTokens][kColumns];
};

MONO_DEVICE float swiglu(float gate, float up, float limit) {
    const float g = smaller(gate, limit);
    const float u = smaller(larger(up, -limit), limit);
    return g * sigmoid_of(1.702f * g) * (u + 1.0f);
}

// One expert's 32 columns for the tokens of `mask`; token t's mid row is `row_of(t)`.
template <class M, class Arguments, class RowOf>
MONO_DEVICE void up_gate(UpShared<M>& lds, const Arguments& args, const Byte* weights, const Byte* scales, unsigned mask,
                         const RowOf& row_of) {
    using Pair = UpPair<M>;
    const int thread = wave::thread(), block = wave::block_x(), tokens = static_cast<int>(args.tokens);
    const int group = group_index();
    const int split = group % kSplits, half = group / kSplits * kHalvesOfGroup;
    const int first = 2 * kChunkPairs * split;

    typename Pair::Stage stage(lds.stage);
    MONO_UNROLL
    for (int p = 0; p < Pair::kAhead; ++p) Pair::start(stage, p, weights, scales, half, first, 2 * p);
    wave::wait_for_inputs();

    const TokenRows rows = {static_cast<const Byte*>(args.x8), kActivationBytes * kHidden,
                            static_cast<const Byte*>(args.x_scales), kHidden / 32, tokens, mask};
    Tile tiles[2][kHalvesOfGroup];
    MONO_UNROLL
    for (int p = 0; p < kChunkPairs; ++p) {
        stage.template wait<Pair::kAhead - 1>();
        Pair::multiply(tiles, stage, p % Pair::kAhead, half, rows, first + 2 * p);
        if (p + Pair::kAhead < kChunkPairs) {
            stage.free_slot();
            Pair::start(stage, p % Pair::kAhead, weights, scales, half, first, 2 * (p + Pair::kAhead));
        } else {
            stage.end_group();  // empty: the waits count groups
        }
    }
    stage.done();
    for (int part = 0; part < 2; ++part) {
        for (int h = 0; h < kHalvesOfGroup; ++h) {
            store_tile(tiles[part][h], lds.parts[part][half + h][own_part(split)]);
        }
    }
    wave::barrier();

    for (int i = thread; i < tokens * kColumns; i += kThreads) {
        const int t = i / kColumns, column = i % kColumns;
        const float gate = tile_sum(lds.parts[0][column / 16][0], kUpParts, kTileFloats, column % 16, t);
        const float up = tile_sum(lds.parts[1][column / 16][0], kUpParts, kTileFloats, column % 16, t);
        lds.mid[t][column] = rounded_to_bf16(swiglu(gate, up, static_cast<float>(args.limit)));
    }
    wave::barrier();
    // 8 columns a thread; each works the block's scale out for itself.
    if (thread < tokens * (kColumns / 8)) {
        const int t = thread / (kColumns / 8), eight = thread % (kColumns / 8);
        if ((mask >> t & 1u) != 0u) {
            float largest = 0.0f;
            for (int i = 0; i < kColumns; ++i) largest = larger(largest, absolute(lds.mid[t][i]));
            const BlockScale scale(largest);
            float values[8];
            for (int i = 0; i < 8; ++i) values[i] = lds.mid[t][8 * eight + i] * scale.inverse;
            const long long row = row_of(t);
            put_mxfp8(at(args.mid, row * kActivationBytes * kInter), at(args.mid_scales, row * (kInter / 32)), block, eight,
                      values, scale.code);
        }
    }
}

// --- down ---

constexpr int kRows = 32;
constexpr int kGroupsOfHalf = kGroups / 2;  // groups that share the units, for each 16 rows of a block
constexpr int kDownParts = kGroupsOfHalf * kPartsOfGroup;
constexpr int kDownChunks = kInter / 128;
static_assert(kInter % 128 == 0, "down: whole chunks");

template <class M>
struct DownShared {
    static constexpr int kAhead = kUnitsAhead<M::kElements>;  // units, of 16 rows and 128 k, under way at once
    using Area = StageArea<kAhead * M::kHalves, kAhead * kScales<M::kElements>>;
    using Stage = Staged<kAhead * M::kHalves, kAhead * kScales<M::kElements>>;

    Routes routes;
    alignas(16) Area stage;
    float weight[kMostExperts][kMaxTokens];
    short row[kMostExperts][kMaxTokens];  // of mid
    unsigned lost;                        // tokens with an id that names no expert
    float parts[2][kDownParts][kTileFloats];
};

// Mid rows of one expert: where each token's lies; one that is not routed there reads another's, for nothing.
struct MidRows {
    const Byte* values;
    const Byte* scales;
    const short* rows;
    int tokens;
    unsigned mask;

    MONO_DEVICE const Byte* row(int token) const {
        return values + static_cast<long long>(rows[token]) * kActivationBytes * kInter;
    }
    MONO_DEVICE const Byte* row_scales(int token) const {
        return scales + static_cast<long long>(rows[token]) * (kInter / 32);
    }
};

MONO_DEVICE void add_weighted(Tile& sum, const Tile& tile, const float* weights, int tokens) {
    for (int i = 0; i < static_cast<int>(sizeof(tile.d) / sizeof(float)); ++i) {
        const int t = tile_token(i);
        const float weight = t < tokens ? weights[t] : 0.0f;
        if (weight != 0.0f) sum.d[i] += tile.d[i] * weight;  // what a token is not routed to may hold anything
    }
}

// `prepare` makes the tables of mid rows and weights, once the first units are under way and their expert is known.
template <class M, class Arguments, class Prepare>
MONO_DEVICE void down(DownShared<M>& lds, const Arguments& args, const void* weights, const void* scales,
                      const Prepare& prepare) {
    constexpr int kAhead = DownShared<M>::kAhead, kWords = kScales<M::kElements>;
    const int thread = wave::thread(), block = wave::block_x(), tokens = static_cast<int>(args.tokens);
    const int half = group_index() / kGroupsOfHalf, group = group_index() % kGroupsOfHalf;
    const int rg = 2 * block + half;
    const int units = wave::uniform(lds.routes.count) * kDownChunks;

    typename DownShared<M>::Stage stage(lds.stage);
    const auto start = [&](int slot, int unit) {
        if (unit < units) {
            const int expert = wave::uniform(lds.routes.expert[unit / kDownChunks]), chunk = unit % kDownChunks;
            M::start(stage, slot * M::kHalves, M::tile(at(weights, M::weight_base(expert)), rg, chunk));
            M::start_scales(stage, slot * kWords, M::scale_tile(at(scales, M::scale_base(expert)), rg, chunk));
        }
        stage.end_group();
    };
    MONO_UNROLL
    for (int i = 0; i < kAhead; ++i) start(i, group + i * kGroupsOfHalf);
    prepare();
    wave::wait_for_inputs();
    wave::barrier();

    Tile sum;
    for (int base = group; base < units; base += kAhead * kGroupsOfHalf) {
        MONO_UNROLL
        for (int i = 0; i < kAhead; ++i) {
            const int unit = base + i * kGroupsOfHalf, u = unit / kDownChunks, chunk = unit % kDownChunks;
            stage.template wait<kAhead - 1>();
            if (unit < units) {
                const MidRows rows = {static_cast<const Byte*>(args.mid), static_cast<const Byte*>(args.mid_scales),
                                      lds.row[u], tokens, lds.routes.mask[u]};
                Tile tile;
                MONO_UNROLL
                for (int eight = 0; eight < kEights; ++eight) {
                    if (!has_tokens(rows, eight)) continue;
                    const MxChunk<M::kElements> x(rows, 128 * chunk, eight);
                    const int shift = 8 * M::ScaleFold::select(half, chunk % 2);
                    M::template multiply<0>(tile, stage, i * M::kHalves, i * kWords, shift, x);
                }
                add_weighted(sum, tile, lds.weight[u], tokens);
            }
            stage.free_slot();
            start(i, unit + kAhead * kGroupsOfHalf);
        }
    }
    store_tile(sum, lds.parts[half][own_part(group)]);
    wave::barrier();

    const int r = thread % kRows, t = thread / kRows;
    if (t < tokens) {
        const float total = tile_sum(lds.parts[r / 16][0], kDownParts, kTileFloats, r % 16, t);
        const long long place = static_cast<long long>(t) * M::W::kExtent_row + kRows * block + r;
        static_cast<unsigned short*>(args.out)[place] = (lds.lost >> t & 1u) != 0u ? 0x7FC0u : bf16_of(total);
    }
}

}  // namespace experts

MONO_GLOBAL void mono_up_gate_kernel(const UpGateArguments args) {
    using namespace experts;
    MONO_LDS(UpShared<RoutedUp>, lds);
    wave::let_next_start();
    const int tokens = static_cast<int>(args.tokens);
    find_experts(lds.routes, static_cast<const int*>(args.ids), tokens, args.fused != 0);
    const int u = wave::block_y();
    if (u >= lds.routes.count) return wave::wait_for_inputs();  // the whole block: fewer experts than there might have been
    const int expert = wave::uniform(lds.routes.expert[u]);
    const auto row_of = [&](int t) { return t * kSlots + slot_of(lds.routes, t, expert); };
    up_gate<RoutedUp>(lds, args, at(args.w13, Layer::w13::base(expert)), at(args.s13, Layer::s13::base(expert)),
                      lds.routes.mask[u], row_of);
}

MONO_GLOBAL void mono_down_kernel(const DownArguments args) {
    using namespace experts;
    MONO_LDS(DownShared<RoutedDown>, lds);
    const int tokens = static_cast<int>(args.tokens);
    find_experts(lds.routes, static_cast<const int*>(args.ids), tokens, args.fused != 0);
    const auto prepare = [&] {
        for (int i = wave::thread(); i < lds.routes.count * kMaxTokens; i += kThreads) {
            const int u = i / kMaxTokens, t = i % kMaxTokens;
            if (t >= tokens) continue;
            const int expert = lds.routes.expert[u];
            const bool is_routed = (lds.routes.mask[u] >> t & 1u) != 0u;
            float weight = is_routed && expert == kRoutedExperts ? 1.0f : 0.0f;
            for (int s = 0; s < kTopK; ++s) {
                if (lds.routes.id[t * kTopK + s] != expert) continue;
                weight += static_cast<const float*>(args.weights)[t * kTopK + s];
            }
            lds.weight[u][t] = weight;
            lds.row[u][t] = static_cast<short>(t * kSlots + (is_routed ? slot_of(lds.routes, t, expert) : 0));
        }
        if (wave::thread() == 0) {
            unsigned lost = 0;
            for (int i = 0; i < tokens * kTopK; ++i) {
                if (lds.routes.id[i] < 0 || lds.routes.id[i] >= kRoutedExperts) lost |= 1u << i / kTopK;
            }
            lds.lost = lost;
        }
    };
    down<RoutedDown>(lds, args, args.w2, args.s2, prepare);
}

// --- the separate shared expert: every token, weight 1; its weights as the spec's table hands them over ---

MONO_GLOBAL void mono_shared_up_gate_kernel(const SharedUpGateArguments args, const Layer::sh_args table) {
    using namespace experts;
    MONO_LDS(UpShared<SharedUp>, lds);
    wave::let_next_start();
    const unsigned mask = (1u << args.tokens) - 1u;
    up_gate<SharedUp>(lds, args, static_cast<const Byte*>(table.sh_w13), static_cast<const Byte*>(table.sh_s13), mask,
                      [](int t) { return t; });
}

MONO_GLOBAL void mono_shared_down_kernel(const SharedDownArguments args, const Layer::sh_args table) {
    using namespace experts;
    MONO_LDS(DownShared<SharedDown>, lds);
    const int t = wave::thread();
    if (t < kMaxTokens) {
        lds.weight[0][t] = 1.0f;
        lds.row[0][t] = static_cast<short>(t);
    }
    if (t == 0) {
        lds.routes.count = 1;
        lds.routes.expert[0] = 0;
        lds.routes.mask[0] = (1u << args.tokens) - 1u;
        lds.lost = 0;
    }
    wave::barrier();
    down<SharedDown>(lds, args, table.sh_w2, table.sh_s2, [] {});
}

}  // namespace mono

#endif

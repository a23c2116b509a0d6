// The stages of one MiniMax-M3 MoE layer's decode step, as a library with a plain C interface: one translation unit for
// AMD, NVIDIA and the host. A build defines MONO_SPEC_HEADER, MONO_SPEC and MONO_STRUCT, and MONO_FNUZ for gfx942.
#include "device/qkv.hpp"
#include "device/quantize.hpp"
#if !defined(MONO_FNUZ)
#include "device/experts.hpp"
#include "device/head.hpp"
#include "device/o_proj.hpp"
#include "device/router.hpp"
#endif

#if !defined(MONO_DEVICE_ONLY)

#include "device/launch.hpp"

namespace mono {

// What each launch is called, and the words of its arguments.
struct Stage {
    const char* name;
    const char* words;
};

constexpr Stage kStages[] = {
    {"norm", NormArguments::words},
    {"qkv", QkvArguments::words},
#if !defined(MONO_FNUZ)
    {"head", HeadArguments::words},
    {"fp8", Fp8Arguments::words},
    {"o_proj", OProjArguments::words},
    {"logits", LogitsArguments::words},
    {"rank", RankArguments::words},
    {"mx", MxArguments::words},
    {"up_gate", UpGateArguments::words},
    {"down", DownArguments::words},
    {"shared_up_gate", SharedUpGateArguments::words},
    {"shared_down", SharedDownArguments::words},
#endif
};

template <class Arguments>
int tokens_of(const Arguments* args) {
    return static_cast<int>(args->tokens);
}

inline int blocks(long long count, int each) { return static_cast<int>((count + each - 1) / each); }

}  // namespace mono

#define MONO_EXPORT extern "C" __attribute__((visibility("default")))

MONO_EXPORT unsigned long long mono_struct_id() { return mono::Layer::kStructId; }
MONO_EXPORT int mono_field_count() { return mono::Layer::kFieldCount; }
MONO_EXPORT unsigned long long mono_field_id(int i) { return mono::Layer::kFieldIds[i]; }
MONO_EXPORT const char* mono_words(const char* stage) {
    for (const mono::Stage& s : mono::kStages) {
        const char *a = s.name, *b = stage;
        while (*a != '\0' && *a == *b) ++a, ++b;
        if (*a == *b) return s.words;
    }
    return nullptr;
}
MONO_EXPORT int mono_activation_bytes() { return mono::kActivationBytes; }
MONO_EXPORT const char* mono_error() { return mono::error_text(); }

// Each returns 0, or not and says why in mono_error(). Launches are enqueued on `stream`; the host's are done on return. The
// product after a quantizing launch is launched early where the machine can: its weights are under way meanwhile.
MONO_EXPORT int mono_norm(const mono::NormArguments* args, void* stream) {
    return mono::launch<mono::QuantizeShared>(mono::mono_norm_kernel, {mono::tokens_of(args), 1}, stream, *args);
}

MONO_EXPORT int mono_qkv(const mono::QkvArguments* args, void* stream) {
    return mono::launch_early<mono::qkv::Shared>(mono::mono_qkv_kernel, {mono::kQkvRows / 16, 1}, stream, *args);
}

#if !defined(MONO_FNUZ)

MONO_EXPORT int mono_head(const mono::HeadArguments* args, void* stream) {
    using namespace mono::head;
    const int grid = mono::blocks(args->tokens * kHeads, mono::kThreads / kLanes);
    return mono::launch<mono::NoShared>(mono::mono_head_kernel, {grid, 1}, stream, *args);
}

MONO_EXPORT int mono_fp8(const mono::Fp8Arguments* args, void* stream) {
    return mono::launch<mono::QuantizeShared>(mono::mono_fp8_kernel, {mono::tokens_of(args), 1}, stream, *args);
}

MONO_EXPORT int mono_o_proj(const mono::OProjArguments* args, void* stream) {
    using namespace mono::o_proj;
    const int grid = static_cast<int>(mono::Layer::w_o::kExtent_row) / kRows;
    return mono::launch_early<Shared>(mono::mono_o_proj_kernel, {grid, 1}, stream, *args);
}

MONO_EXPORT int mono_logits(const mono::LogitsArguments* args, void* stream) {
    using namespace mono::router;
    const mono::Grid grid = {kRouted / kExperts, mono::tokens_of(args)};
    return mono::launch<LogitsShared>(mono::mono_logits_kernel, grid, stream, *args);
}

MONO_EXPORT int mono_rank(const mono::RankArguments* args, void* stream) {
    const mono::Grid grid = {mono::tokens_of(args), 1};
    return mono::launch<mono::router::RankShared>(mono::mono_rank_kernel, grid, stream, *args);
}

MONO_EXPORT int mono_mx(const mono::MxArguments* args, void* stream) {
    return mono::launch<mono::NoShared>(mono::mono_mx_kernel, {mono::tokens_of(args), 1}, stream, *args);
}

MONO_EXPORT int mono_up_gate(const mono::UpGateArguments* args, void* stream) {
    using namespace mono::experts;
    const long long pairs = args->tokens * mono::kTopK;
    const long long most = (pairs < mono::kRoutedExperts ? pairs : mono::kRoutedExperts) + args->fused;
    const mono::Grid grid = {kInter / kColumns, static_cast<int>(most)};
    return mono::launch_early<UpShared<RoutedUp>>(mono::mono_up_gate_kernel, grid, stream, *args);
}

MONO_EXPORT int mono_down(const mono::DownArguments* args, void* stream) {
    using namespace mono::experts;
    const int grid = static_cast<int>(mono::Layer::w2::kExtent_row) / kRows;
    if (args->early == 0) return mono::launch<DownShared<RoutedDown>>(mono::mono_down_kernel, {grid, 1}, stream, *args);
    return mono::launch_early<DownShared<RoutedDown>>(mono::mono_down_kernel, {grid, 1}, stream, *args);
}

MONO_EXPORT int mono_shared_up_gate(const mono::SharedUpGateArguments* args, const mono::Layer::sh_args* table, void* stream) {
    using namespace mono::experts;
    const mono::Grid grid = {kInter / kColumns, 1};
    return mono::launch_early<UpShared<SharedUp>>(mono::mono_shared_up_gate_kernel, grid, stream, *args, *table);
}

MONO_EXPORT int mono_shared_down(const mono::SharedDownArguments* args, const mono::Layer::sh_args* table, void* stream) {
    using namespace mono::experts;
    const int grid = static_cast<int>(mono::Layer::sh_w2::kExtent_row) / kRows;
    return mono::launch_early<DownShared<SharedDown>>(mono::mono_shared_down_kernel, {grid, 1}, stream, *args, *table);
}

#endif
#endif

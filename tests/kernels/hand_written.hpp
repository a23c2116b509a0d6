// The addresses of the public kernels, as their authors wrote them: what the generated folds are compared with. The
// sizes of the real layer are typed here on purpose; the names are those of mono_gen/kernels/device/folds.hpp.
#ifndef MONO_TESTS_HAND_WRITTEN_HPP
#define MONO_TESTS_HAND_WRITTEN_HPP

namespace mono {

struct QkvFold {
    static constexpr int kStep = 1024;
    static MONO_HD constexpr int uniform(int rg, int kc) { return (rg * 192 + 2 * kc) * 512; }
    static MONO_HD constexpr int lane(int l) { return 16 * l; }
};
struct QkvScaleFold {
    static MONO_HD constexpr int uniform(int rg) { return 4 * 16 * rg; }
    static MONO_HD constexpr int lane(int tid) { return 4 * (tid % 16); }
};
struct OFold {
    static constexpr int kStep = 1024;
    static MONO_HD constexpr int uniform(int rg, int kc) { return (rg * 64 + 2 * kc) * 512; }
    static MONO_HD constexpr int lane(int l) { return 16 * l; }
};
struct OScaleFold {
    static MONO_HD constexpr int uniform(int task) { return 4 * 32 * task; }
    static MONO_HD constexpr int lane(int tid) { return 4 * (tid % 32); }
};
struct GateFold {
    static MONO_HD constexpr int uniform(int e, int i) { return 2 * (e * 6144 + 64 * i * 8); }
    static MONO_HD constexpr int lane(int l) { return 2 * (l * 8); }
};
struct UpFold {
    static constexpr int kStep = 1024, kStepChunks = 1;
    static MONO_HD constexpr int uniform(int rg, int kc) { return (rg * 96 + 2 * kc) * 512; }
    static MONO_HD constexpr int lane(int l) { return 16 * l; }
};
struct DownFold {
    static constexpr int kStep = 1024, kStepChunks = 1;
    static MONO_HD constexpr int uniform(int rg, int kc) { return (rg * 12 + 2 * kc) * 512; }
    static MONO_HD constexpr int lane(int l) { return 16 * l; }
};
// kc2: pairs of 128-k chunks.
template <int kc2>
struct HandScales {
    static constexpr int kSelectRows = 2, kSelectChunks = 2;
    static constexpr int kStep = 256, kStepChunks = 2;
    static MONO_HD constexpr int dword(int rg, int kc) { return (rg / 2 * kc2 + kc / 2) * 256; }
    static MONO_HD constexpr int lane(int l) { return 4 * l; }
    static MONO_HD constexpr int select(int rg, int kc) { return 2 * (kc % 2) + rg % 2; }
};
using UpScaleFold = HandScales<24>;
using DownScaleFold = HandScales<3>;
using SharedUpScaleFold = HandScales<24>;
using SharedDownScaleFold = HandScales<3>;

// chunks: of 128 k. Half of a lane's 32 bytes: c counts 64-k halves.
template <int chunks>
struct HandTiles {
    static constexpr int kStep = 2048, kStepChunks = 2;
    static MONO_HD constexpr int uniform(int rg, int c) { return (rg * chunks + c / 2) * 2048 + c % 2 * 16; }
    static MONO_HD constexpr int lane(int l) { return 32 * l; }
};
using SharedUpFold = HandTiles<48>;
using SharedDownFold = HandTiles<6>;

}  // namespace mono

#endif

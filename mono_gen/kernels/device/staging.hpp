// Weights under way: pieces that a lane has asked for and multiplies later. On AMD and on the host they are registers; on
// NVIDIA, which has fewer of them, LDS that only this lane writes and reads, filled by asynchronous copies.
#ifndef MONO_DEVICE_STAGING_HPP
#define MONO_DEVICE_STAGING_HPP

#include "products.hpp"

namespace mono {

// Tiles of 16 rows and 64 lanes' pieces of 16 bytes, one after another: tile `slot` of a group begins at piece `slot` of
// each lane, and has kPieces of them.
#if defined(MONO_CUDA) && !defined(MONO_DOT)

// What a block keeps: kTiles tiles a group, kWords dwords a lane.
template <int kTiles, int kWords>
struct StageArea {
    Quad quads[kWaves][kTiles][64];
    unsigned words[kWords > 0 ? kWords : 1][kThreads];
};

// Lanes copy pieces that follow each other, and read those of their rows. A piece of row r and k group g lies so that
// neither meets a bank twice. All of it is volatile, which keeps its order, and touches no other memory: loads of
// activations pass a wait.
template <int kTiles, int kWords>
struct Staged {
    StageArea<kTiles, kWords>& area;

    MONO_DEVICE explicit Staged(StageArea<kTiles, kWords>& given) : area(given) {}

    static MONO_DEVICE int place(int g, int r) { return 16 * g + (r ^ 2 * g); }

    template <class Fold>
    MONO_DEVICE void start(int tile, const Byte* base) {
        MONO_UNROLL
        for (int i = 0; i < kPieces; ++i) {
            const int l = lane_index() + 32 * i;
            copy<16>(&area.quads[wave::thread() / kWave][tile][place(l / 16, l % 16)], base + Fold::lane(l));
        }
    }
    MONO_DEVICE void start_word(int i, const Byte* base, int lane) {
        copy<4>(&area.words[i][wave::thread()], base + lane);
    }

    MONO_DEVICE Quad piece(int tile, int i) const {
        const int g = lane_index() % 4, r = lane_index() / 4 + 8 * i;
        Quad q;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(q.w[0]), "=r"(q.w[1]), "=r"(q.w[2]), "=r"(q.w[3])
                     : "r"(address(&area.quads[wave::thread() / kWave][tile][place(g, r)])));
        return q;
    }
    MONO_DEVICE unsigned word(int i) const {
        unsigned w;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(address(&area.words[i][wave::thread()])));
        return w;
    }

    // Ends a group of starts, and waits for all groups but the last `kLeft`: this lane's and, as it reads their pieces, the
    // other lanes'.
    MONO_DEVICE static void end_group() { asm volatile("cp.async.commit_group;"); }
    template <int kLeft>
    MONO_DEVICE static void wait() {
        asm volatile("cp.async.wait_group %0;\n\tbar.warp.sync 0xffffffff;" ::"n"(kLeft));
    }
    // Waits for group `i` of `count` that were all started; both are known in an unrolled loop.
    MONO_DEVICE static void wait_for(int i, int count) {
        const int left = count - 1 - i;
        if (left == 0) return wait<0>();
        if (left == 1) return wait<1>();
        if (left == 2) return wait<2>();
        if (left == 3) return wait<3>();
        if (left == 4) return wait<4>();
        return wait<5>();
    }
    // Before a slot is filled again: every lane of the warp has read it.
    MONO_DEVICE static void free_slot() { asm volatile("bar.warp.sync 0xffffffff;"); }
    // The block's LDS may hold something else now.
    MONO_DEVICE static void done() {
        wait<0>();
        wave::barrier();
    }

  private:
    static MONO_DEVICE unsigned address(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

    template <int kBytes>
    static MONO_DEVICE void copy(void* to, const Byte* from) {
        if constexpr (kBytes == 16) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(to)), "l"(from));
        } else {
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address(to)), "l"(from));
        }
    }
};

#else

template <int kTiles, int kWords>
struct StageArea {};

// Registers: the compiler waits for each where it is used. Slots are known when it is compiled, loops are unrolled.
template <int kTiles, int kWords>
struct Staged {
    Quad quads[kTiles][kPieces] = {};
    unsigned words[kWords > 0 ? kWords : 1] = {};

    MONO_DEVICE explicit Staged(StageArea<kTiles, kWords>&) {}

    template <class Fold>
    MONO_DEVICE void start(int tile, const Byte* base) {
        for (int i = 0; i < kPieces; ++i) quads[tile][i] = load_weights<Quad>(base, Fold::lane(piece_lane(i)));
    }
    MONO_DEVICE void start_word(int i, const Byte* base, int lane) { words[i] = load_weights<unsigned>(base, lane); }
    MONO_DEVICE Quad piece(int tile, int i) const { return quads[tile][i]; }
    MONO_DEVICE unsigned word(int i) const { return words[i]; }

    MONO_DEVICE static void end_group() {}
    template <int kLeft>
    MONO_DEVICE static void wait() {}
    MONO_DEVICE static void wait_for(int, int) {}
    MONO_DEVICE static void free_slot() {}
    MONO_DEVICE static void done() {}  // LDS holds none of it
};

#endif

}  // namespace mono

#endif

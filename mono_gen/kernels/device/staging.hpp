// Weights under way: pieces that a lane has asked for and multiplies later. On AMD and on the host they are registers; on
// NVIDIA, which has fewer of them, LDS that only this lane writes and reads, filled by asynchronous copies.
#ifndef MONO_DEVICE_STAGING_HPP
#define MONO_DEVICE_STAGING_HPP

#include "memory.hpp"

namespace mono {

#if defined(MONO_CUDA)

// What a block keeps of kQuads pieces and kWords dwords a lane.
template <int kQuads, int kWords>
struct StageArea {
    Quad quads[kQuads][kThreads];
    unsigned words[kWords > 0 ? kWords : 1][kThreads];
};

// All of it is volatile, which keeps its order, and touches no other memory: loads of activations pass a wait.
template <int kQuads, int kWords>
struct Staged {
    StageArea<kQuads, kWords>& area;

    MONO_DEVICE explicit Staged(StageArea<kQuads, kWords>& given) : area(given) {}

    MONO_DEVICE void start_quad(int i, const Byte* base, int lane) {
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&area.quads[i][wave::thread()]));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(base + lane));
    }
    MONO_DEVICE void start_word(int i, const Byte* base, int lane) {
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&area.words[i][wave::thread()]));
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(base + lane));
    }
    MONO_DEVICE Quad quad(int i) const {
        const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(&area.quads[i][wave::thread()]));
        Quad q;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(q.w[0]), "=r"(q.w[1]), "=r"(q.w[2]), "=r"(q.w[3])
                     : "r"(from));
        return q;
    }
    MONO_DEVICE unsigned word(int i) const {
        const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(&area.words[i][wave::thread()]));
        unsigned w;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(from));
        return w;
    }

    // Ends a group of starts, and waits for all groups but the last `kLeft`.
    MONO_DEVICE static void end_group() { asm volatile("cp.async.commit_group;"); }
    template <int kLeft>
    MONO_DEVICE static void wait() {
        asm volatile("cp.async.wait_group %0;" ::"n"(kLeft));
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
    // The block's LDS may hold something else now.
    MONO_DEVICE static void done() {
        wait<0>();
        wave::barrier();
    }
};

#else

template <int kQuads, int kWords>
struct StageArea {};

// Registers: the compiler waits for each where it is used. `i` is known when it is compiled, loops are unrolled.
template <int kQuads, int kWords>
struct Staged {
    Quad quads[kQuads] = {};
    unsigned words[kWords > 0 ? kWords : 1] = {};

    MONO_DEVICE explicit Staged(StageArea<kQuads, kWords>&) {}

    MONO_DEVICE void start_quad(int i, const Byte* base, int lane) { quads[i] = load_weights<Quad>(base, lane); }
    MONO_DEVICE void start_word(int i, const Byte* base, int lane) { words[i] = load_weights<unsigned>(base, lane); }
    MONO_DEVICE Quad quad(int i) const { return quads[i]; }
    MONO_DEVICE unsigned word(int i) const { return words[i]; }

    MONO_DEVICE static void end_group() {}
    template <int kLeft>
    MONO_DEVICE static void wait() {}
    MONO_DEVICE static void wait_for(int, int) {}
    MONO_DEVICE static void done() {}  // LDS holds none of it
};

#endif

}  // namespace mono

#endif

// The host wave executor: a kernel's source as it runs on a GPU, a fiber a lane. A kernel calls what is in mono::wave,
// and mono::host::launch runs it. The matrix instructions stand in mfma.hpp.
//
// All lanes of a wave meet at a wave operation, all threads of a block at a barrier; where they do not, the launch ends
// with a report. A site is where the call stands: a function of a kernel that wraps one should take the site of its own
// caller, by the same default arguments, or two calls of it on two branches look like one.
//
// Compiled into a shared library, everything here is hidden: two libraries of a process have nothing in common.
//
//     mono::host::Launch launch{160, 1, 512, 64, sizeof(Lds), seed};
//     if (!mono::host::launch(launch, [&] { qkv(arguments); })) { std::puts(mono::host::last_error().c_str()); }
#pragma once

#include <cstring>
#include <string>

#include "launch.hpp"

namespace mono {
namespace host __attribute__((visibility("hidden"))) {

inline Registers& registers() { return current->wave->registers; }

inline void check_uniform(Wave& wave) {
    const Registers& r = wave.registers;
    for (int l = 1; l < wave.size; ++l) {
        if (r.value[l] != r.value[0]) {
            wave.block->failure = not_uniform(wave);
            give_up();
        }
    }
}

inline void exchange(Wave& wave) {
    Registers& r = wave.registers;
    for (int l = 0; l < wave.size; ++l) {
        const int from = l ^ r.mask[l];
        if (from < 0 || from >= wave.size) {
            wave.block->failure = where(wave.lanes[l]) + ": lane " + std::to_string(l) + " ^ mask " +
                                  std::to_string(r.mask[l]) + " is no lane; " + text(wave);
            give_up();
        }
        r.result[l] = r.value[from];
    }
}

inline void gather_bits(Wave& wave) {
    Registers& r = wave.registers;
    r.ballot = 0;
    for (int l = 0; l < wave.size; ++l) {
        r.ballot |= static_cast<unsigned long long>(r.value[l]) << l;
    }
}

inline constexpr Operation kUniform{"uniform", &check_uniform};
inline constexpr Operation kShuffleXor{"shuffle_xor", &exchange};
inline constexpr Operation kBallot{"ballot", &gather_bits};

}  // namespace host

namespace wave __attribute__((visibility("hidden"))) {

inline int thread() { return host::current->thread; }
inline int block_x() { return host::current->wave->block->x; }
inline int block_y() { return host::current->wave->block->y; }

// The LDS of the block, of which T is the whole. Every byte is 0xFF when the block starts.
template <class T>
T& lds(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    static_assert(alignof(T) <= 256, "the LDS is aligned to 256 bytes");
    host::Wave& wave = *host::current->wave;
    if (static_cast<long long>(sizeof(T)) > wave.block->lds_bytes) {
        wave.block->failure = "lds, " + text(host::Site{file, line}) + ": " + std::to_string(sizeof(T)) +
                              " bytes, but the launch gives " + std::to_string(wave.block->lds_bytes) + "; " +
                              text(wave);
        host::give_up();
    }
    return *reinterpret_cast<T*>(wave.block->lds);
}

// Returns when every thread of the block waits here.
inline void barrier(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    host::wait_at(host::kBarrier, {file, line});
}

// v, which all lanes of the wave hold alike.
inline int uniform(int v, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    host::registers().value[host::current->lane] = static_cast<unsigned>(v);
    host::wait_at(host::kUniform, {file, line});
    return v;
}

// What lane ^ mask hands in as v.
template <class T>
T shuffle_xor(T v, int mask, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    static_assert(sizeof(T) == 4, "lanes exchange registers of 4 bytes");
    host::Registers& r = host::registers();
    const int lane = host::current->lane;
    std::memcpy(&r.value[lane], &v, 4);
    r.mask[lane] = mask;
    host::wait_at(host::kShuffleXor, {file, line});
    std::memcpy(&v, &r.result[lane], 4);
    return v;
}

// Bit l is what lane l hands in.
inline unsigned long long ballot(bool v, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    host::Registers& r = host::registers();
    r.value[host::current->lane] = v;
    host::wait_at(host::kBallot, {file, line});
    return r.ballot;
}

}  // namespace wave
}  // namespace mono

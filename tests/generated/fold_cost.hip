// The inner loop of each weight tensor's reads, without the products: what a wave's lanes read is added up. The addresses
// come from the test: the header's fold, or the formula that the vendor's kernels write by hand. For AMD alone.
#include "minimax_m3.hpp"

#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE __attribute__((device)) inline

namespace spec = mono::minimax_m3;

typedef unsigned char Byte;
struct alignas(16) Quad {
    unsigned w[4];
};

template <class T>
using Global = const __attribute__((address_space(1))) T*;

DEVICE int thread() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
DEVICE int block() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
DEVICE unsigned uniform(unsigned value) {
    return static_cast<unsigned>(__builtin_amdgcn_readfirstlane(static_cast<int>(value)));
}

// A scalar base and 32 bits a lane. Without readfirstlane clang would add the lane to a base outside the loop, and the
// uniform part to that in every lane.
template <class T>
DEVICE T load(const Byte* base, int lane) {
    const auto address = reinterpret_cast<unsigned long long>(base);
    const unsigned low = uniform(static_cast<unsigned>(address)), high = uniform(static_cast<unsigned>(address >> 32));
    const auto bytes = reinterpret_cast<Global<Byte>>(static_cast<unsigned long long>(high) << 32 | low);
    return *reinterpret_cast<Global<T>>(bytes + static_cast<unsigned>(lane));
}

DEVICE unsigned mixed(unsigned sum, Quad q) { return sum * 3 + (q.w[0] ^ q.w[1] ^ q.w[2] ^ q.w[3]); }
DEVICE unsigned mixed(unsigned sum, unsigned word) { return sum * 3 + word; }

DEVICE int wave_index() { return static_cast<int>(uniform(static_cast<unsigned>(thread() / 64))); }

// A wave's pieces, a T a lane each.
template <class T, class Address, bool kUnrolled, int kCount>
DEVICE void stream(const Byte* w, unsigned* out, int e) {
    const Address address{e, block(), wave_index()};
    const Byte* tile = w + address.tile();
    const int lane = address.lane(thread() % 64);
    unsigned sum = 0;
    if constexpr (kUnrolled) {
#pragma clang loop unroll(full)
        for (int i = 0; i < kCount; ++i) sum = mixed(sum, load<T>(tile + Address::step(i), lane));
    } else {
#pragma clang loop unroll(disable)
        for (int i = 0; i < kCount; ++i) sum = mixed(sum, load<T>(tile + Address::step(i), lane));
    }
    out[thread()] = sum;
}

// The scales of a wave's chunks, two chunks a dword, and of each the byte that an operand select would take.
template <class Address, bool kUnrolled, int kCount>
DEVICE void scales(const Byte* s, unsigned* out, int e) {
    const Address address{e, block(), wave_index()};
    const Byte* tile = s + address.tile();
    const int lane = address.lane(thread() % 64);
    unsigned sum = 0;
    const auto add = [&](int i) {
        const unsigned dword = load<unsigned>(tile + Address::step(i), lane);
        sum = mixed(sum, dword >> (8 * address.select(i)) & 0xFF);
        sum = mixed(sum, dword >> (8 * address.select(i + 1)) & 0xFF);
    };
    if constexpr (kUnrolled) {
#pragma clang loop unroll(full)
        for (int i = 0; i < kCount; i += 2) add(i);
    } else {
#pragma clang loop unroll(disable)
        for (int i = 0; i < kCount; i += 2) add(i);
    }
    out[thread()] = sum;
}

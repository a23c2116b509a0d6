// A block while it runs: its lanes, its waves, its LDS. One OS thread runs it; what is here is of that thread alone.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fiber.hpp"

namespace mono {
namespace host __attribute__((visibility("hidden"))) {

constexpr int kMostLanes = 64;      // of a wave
constexpr int kMostThreads = 1024;  // of a block
constexpr int kGuardBytes = 4096;   // on each side of the LDS
constexpr int kRows = 16, kMostK = 128;  // of a matrix instruction's tile

struct Wave;
struct Block;

// A place in the source.
struct Site {
    const char* file;
    int line;
};

inline bool operator==(const Site& a, const Site& b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// What lanes wait for. Two operations are one only if they are the same object.
struct Operation {
    const char* name;
    void (*run)(Wave&);  // once all lanes of the wave wait; null for the barrier, at which all waves of the block wait
};

struct Lane {
    Fiber fiber;
    Wave* wave = nullptr;
    int lane = 0;    // in its wave
    int thread = 0;  // in its block
    bool returned = false;
    const Operation* operation = nullptr;  // that it waits at, or waited at last
    Site site{};
};

// What the lanes of a wave hand to an operation, and what it hands back: a lane writes its own part before it waits and
// reads it after, and `run` is the only one that touches the others' in between.
struct Registers {
    unsigned value[kMostLanes], result[kMostLanes];
    unsigned long long ballot;
    int mask[kMostLanes];
    unsigned a[kMostLanes][8], b[kMostLanes][8];
    unsigned scale_a[kMostLanes], scale_b[kMostLanes];
    float d[kMostLanes][4];
};

struct Wave {
    Block* block = nullptr;
    Lane* lanes = nullptr;
    int wave = 0;  // in its block
    int size = 0;
    int returned = 0;

    // A pass runs each lane that has not returned once, up to where it waits: every `step`-th lane from `at` on, around
    // and around. `step` is odd and a wave's size a power of two, so that all lanes come; each pass has its own order.
    unsigned at = 0, step = 1;
    int left = 0;                 // lanes that the pass has not run yet
    const Lane* first = nullptr;  // the first lane of the pass that waits
    bool apart = false;           // a lane of the pass waits at another operation or site than the first

    Registers registers;
};

struct Block {
    int x = 0, y = 0;
    int wave_count = 0;
    int returned_waves = 0;
    int ready[kMostThreads / 32] = {};  // waves that may go on; the others have returned or wait at the barrier
    int ready_count = 0;
    unsigned long long random = 0;
    std::string failure;  // the report that ended the block

    void (*entry)() = nullptr;
    void* body = nullptr;

    std::unique_ptr<Lane[]> lanes;
    std::unique_ptr<Wave[]> waves;
    int lane_count = 0;
    Stacks stacks;
    Fiber own;  // the OS thread's

    std::vector<unsigned char> memory;  // a guard zone, the LDS, a guard zone
    unsigned char* lds = nullptr;
    long long lds_bytes = 0;

    alignas(64) float a[kRows * kMostK];  // operands of a matrix instruction, decoded: [row][k]
    alignas(64) float b[kMostK * kRows];  // [k][column]
};

// The lane that this OS thread runs; null outside a launch.
inline thread_local Lane* current = nullptr;

// The next number of a sequence that the seed determines (splitmix64).
inline unsigned long long next_random(unsigned long long& state) {
    unsigned long long z = state += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

}  // namespace host
}  // namespace mono

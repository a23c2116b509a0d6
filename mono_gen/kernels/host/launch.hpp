// A launch: every block of a grid, shared out among OS threads. Results and reports do not depend on their number.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "schedule.hpp"

namespace mono {
namespace host __attribute__((visibility("hidden"))) {

// threads: of a block, a multiple of the wave, which has 64 or 32 lanes.
// seed:    another one runs the lanes of a wave and the waves of a block in another order.
struct Launch {
    int grid_x = 1, grid_y = 1, threads = 64, wave = 64;
    long long lds_bytes = 0;
    unsigned long long seed = 0;
};

// The report of this OS thread's last launch; empty if there was none.
inline std::string& mutable_last_error() {
    static thread_local std::string text;
    return text;
}

inline const std::string& last_error() { return mutable_last_error(); }

// Blocks between launches: their stacks and LDS are kept.
class IdleBlocks {
public:
    std::unique_ptr<Block> take() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (idle_.empty()) {
            return std::make_unique<Block>();
        }
        std::unique_ptr<Block> block = std::move(idle_.back());
        idle_.pop_back();
        return block;
    }

    void put(std::unique_ptr<Block> block) {
        const std::lock_guard<std::mutex> lock(mutex_);
        idle_.push_back(std::move(block));
    }

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Block>> idle_;
};

inline IdleBlocks& idle_blocks() {
    static IdleBlocks blocks;
    return blocks;
}

// What a byte of a guard zone holds, told apart from zeros, from the poison and from its neighbours.
inline unsigned char guard_byte(long long at) { return static_cast<unsigned char>(0x31 + (at & 127)); }

// Room for a block of the launch; false where the system has none.
inline bool provide(Block& block, const Launch& launch) {
    if (!block.stacks.provide(launch.threads)) {
        return false;
    }
    if (block.lane_count < launch.threads) {
        block.lanes = std::make_unique<Lane[]>(static_cast<std::size_t>(launch.threads));
        block.waves = std::make_unique<Wave[]>(static_cast<std::size_t>(launch.threads / 32));
        block.lane_count = launch.threads;
    }
    constexpr std::size_t kAlign = 256;
    block.memory.resize(2 * kGuardBytes + kAlign + static_cast<std::size_t>(launch.lds_bytes));
    const std::size_t past = reinterpret_cast<std::uintptr_t>(block.memory.data() + kGuardBytes) % kAlign;
    block.lds = block.memory.data() + kGuardBytes + (kAlign - past) % kAlign;
    block.lds_bytes = launch.lds_bytes;
    return true;
}

// All lanes at their entry, the block's random numbers at those that the seed gives it, the LDS poisoned.
inline void prepare(Block& block, const Launch& launch, int x, int y, void (*entry)(), void* body) {
    block.x = x;
    block.y = y;
    block.wave_count = launch.threads / launch.wave;
    block.returned_waves = 0;
    block.random = launch.seed;
    block.random = next_random(block.random) ^ ((static_cast<unsigned long long>(y) << 32) | static_cast<unsigned>(x));
    std::string().swap(block.failure);
    block.entry = entry;
    block.body = body;
    for (int w = 0; w < block.wave_count; ++w) {
        Wave& wave = block.waves.get()[w];
        wave.block = &block;
        wave.lanes = block.lanes.get() + w * launch.wave;
        wave.wave = w;
        wave.size = launch.wave;
        wave.returned = 0;
        for (int l = 0; l < wave.size; ++l) {
            Lane& lane = wave.lanes[l];
            lane.wave = &wave;
            lane.lane = l;
            lane.thread = w * launch.wave + l;
            lane.returned = false;
            lane.operation = nullptr;
            lane.fiber.stack = block.stacks.at(lane.thread);
            lane.fiber.bytes = Stacks::kBytes;
            start(lane.fiber, entry, static_cast<std::size_t>(l % 16) * 256);
        }
    }
    std::memset(block.lds, 0xFF, static_cast<std::size_t>(block.lds_bytes));
    for (int i = 0; i < kGuardBytes; ++i) {
        block.lds[-1 - i] = guard_byte(-1 - i);
        block.lds[block.lds_bytes + i] = guard_byte(block.lds_bytes + i);
    }
}

// What is wrong with a launch, or nothing.
inline std::string refusal(const Launch& launch) {
    const auto number = [](const char* what, long long value, const char* expected) {
        return std::string("launch: ") + what + " is " + std::to_string(value) + ", not " + expected;
    };
    if (launch.wave != 64 && launch.wave != 32) {
        return number("wave", launch.wave, "64 or 32");
    }
    if (launch.threads < launch.wave || launch.threads > kMostThreads || launch.threads % launch.wave != 0) {
        return number("threads", launch.threads, "a multiple of the wave, up to 1024");
    }
    if (launch.grid_x < 1 || launch.grid_y < 1) {
        return number(launch.grid_x < 1 ? "grid_x" : "grid_y", std::min(launch.grid_x, launch.grid_y), "1 or more");
    }
    if (launch.lds_bytes < 0 || launch.lds_bytes > (1 << 30)) {
        return number("lds_bytes", launch.lds_bytes, "0 to 2^30");
    }
    return {};
}

// How many OS threads run the blocks: MONO_HOST_THREADS, else as many as the machine has; 0 where it is no number. A
// stack and its guard page are two mappings, of which a process has 65530 by default: at most half of them are used.
inline int os_threads(const Launch& launch, long long blocks) {
    long long wanted = std::max(1U, std::thread::hardware_concurrency());
    if (const char* set = std::getenv("MONO_HOST_THREADS")) {
        char* end = nullptr;
        wanted = std::strtoll(set, &end, 10);
        if (end == set || *end != '\0' || wanted < 1) {
            return 0;
        }
    }
    const long long stacks = std::max(1, 16000 / launch.threads);
    return static_cast<int>(std::min({wanted, blocks, stacks}));
}

// The report of the first block, in row order, that ends with one. Blocks start in row order, so that the blocks before
// it have all been run to their ends, whichever OS thread took them.
struct FirstReport {
    std::mutex mutex;
    std::atomic<long long> block;
    std::string text;

    void offer(long long at, std::string report) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (at < block) {
            block = at;
            text = std::move(report);
        }
    }
};

inline bool run_grid(const Launch& launch, void (*entry)(), void* body) {
    if (current != nullptr) {
        current->wave->block->failure = "a kernel can not launch another; " + text(*current->wave);
        give_up();
    }
    std::string& error = mutable_last_error();
    error = refusal(launch);
    if (!error.empty()) {
        return false;
    }
    const long long blocks = static_cast<long long>(launch.grid_x) * launch.grid_y;
    const int workers = os_threads(launch, blocks);
    if (workers == 0) {
        error = "launch: the environment variable MONO_HOST_THREADS is not a number of threads";
        return false;
    }
    FirstReport first;
    first.block = blocks;
    std::atomic<long long> next{0};
    const auto work = [&] {
        std::unique_ptr<Block> block = idle_blocks().take();
        if (!provide(*block, launch)) {
            first.offer(-1, "launch: no memory for " + std::to_string(launch.threads) + " stacks");
            return;
        }
        for (long long at = next++; at < first.block; at = next++) {
            const int x = static_cast<int>(at % launch.grid_x), y = static_cast<int>(at / launch.grid_x);
            prepare(*block, launch, x, y, entry, body);
            run_lanes(*block);
            std::string report = block->failure.empty() ? past_the_lds(*block, guard_byte) : block->failure;
            if (!report.empty()) {
                first.offer(at, std::move(report));
            }
        }
        idle_blocks().put(std::move(block));
    };
    std::vector<std::thread> others;
    for (int i = 1; i < workers; ++i) {
        others.emplace_back(work);
    }
    work();
    for (std::thread& other : others) {
        other.join();
    }
    error = first.text;
    return error.empty();
}

// What a lane runs, from its stack's first frame to its last.
template <class Body>
void lane_entry() noexcept {
    started();
    (*static_cast<Body*>(current->wave->block->body))();
    return_lane();
}

// Runs body() as every thread of every block. False after a report, which is in last_error(): the block that it is
// about is given up where it stood, without destructors, and no further block starts. Later launches work. A launch
// that can not be (a wave of 48 lanes) is refused in the same way. The body throws nothing.
template <class Body>
bool launch(const Launch& launch, Body&& body) {
    using Called = std::remove_reference_t<Body>;
    return run_grid(launch, &lane_entry<Called>, const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace host
}  // namespace mono

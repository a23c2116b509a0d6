// The schedule of a block: which lane runs, which wave, and what they wait for.
//
// A wave runs in passes. In a pass each lane runs, in an order that the seed shuffles, until it waits at an operation
// or returns; no other lane runs meanwhile. Then all lanes of the wave wait at the same operation, which is carried
// out, or the block ends with a report. The seed also chooses the wave that goes on. Between two operations neither
// lanes nor waves have an order that a kernel may lean on, though on a GPU the lanes of a wave go together.
#pragma once

#include "report.hpp"
#include "state.hpp"

namespace mono {
namespace host __attribute__((visibility("hidden"))) {

inline constexpr Operation kBarrier{"barrier", nullptr};

// Ends the block of the current lane, whose `failure` says why. No destructor runs: let no frame below own anything.
[[noreturn]] inline void give_up() {
    Lane& lane = *current;
    switch_fiber(lane.fiber, lane.wave->block->own, true);
    __builtin_unreachable();
}

inline Lane* next_of_pass(Wave& wave) {
    Lane* lane = nullptr;
    do {
        lane = &wave.lanes[wave.at];
        wave.at = (wave.at + wave.step) & (static_cast<unsigned>(wave.size) - 1);
    } while (lane->returned);
    --wave.left;
    return lane;
}

// The first lane of a new pass.
inline Lane* begin_pass(Wave& wave, unsigned long long random) {
    const unsigned last = static_cast<unsigned>(wave.size) - 1;
    wave.at = static_cast<unsigned>(random) & last;
    wave.step = (static_cast<unsigned>(random >> 8) & last) | 1U;
    wave.left = wave.size - wave.returned;
    wave.first = nullptr;
    wave.apart = false;
    return next_of_pass(wave);
}

inline void make_ready(Block& block) {
    for (int w = 0; w < block.wave_count; ++w) {
        block.ready[w] = w;
    }
    block.ready_count = block.wave_count;
}

inline void make_wait(Block& block, int wave) {
    int at = 0;
    while (block.ready[at] != wave) {
        ++at;
    }
    block.ready[at] = block.ready[--block.ready_count];
}

// The lane that goes on after a pass of `last`, or at the start of a block (null); null when all have returned.
inline Lane* next_of_block(Block& block, Wave* last) {
    if (block.ready_count == 0) {
        if (block.returned_waves == block.wave_count) {
            return nullptr;
        }
        bool together = block.returned_waves == 0;
        for (int w = 1; w < block.wave_count; ++w) {
            together = together && block.waves.get()[w].lanes[0].site == block.waves.get()[0].lanes[0].site;
        }
        if (!together) {
            block.failure = apart(block);
            give_up();
        }
        make_ready(block);
        last = nullptr;
    }
    // Three times in four the wave goes on whose stacks are in the cache.
    const unsigned long long random = next_random(block.random);
    const bool may_stay = last != nullptr && last->returned < last->size && last->first->operation->run != nullptr;
    if (may_stay && random >> 62 != 0) {
        return begin_pass(*last, random);
    }
    const int chosen = block.ready[(random >> 32) % static_cast<unsigned>(block.ready_count)];
    return begin_pass(block.waves.get()[chosen], random);
}

// The lane that goes on once every lane of the wave waits or has returned.
inline Lane* end_pass(Wave& wave) {
    Block& block = *wave.block;
    if (wave.returned == wave.size) {
        ++block.returned_waves;
        make_wait(block, wave.wave);
    } else if (wave.returned > 0 || wave.apart) {
        block.failure = apart(wave);
        give_up();
    } else if (wave.first->operation->run == nullptr) {
        make_wait(block, wave.wave);
    } else {
        wave.first->operation->run(wave);
    }
    return next_of_block(block, &wave);
}

// Makes the current lane wait; returns when the operation has been carried out.
inline void wait_at(const Operation& operation, const Site& site) {
    Lane& lane = *current;
    Wave& wave = *lane.wave;
    lane.operation = &operation;
    lane.site = site;
    if (wave.first == nullptr) {
        wave.first = &lane;
    } else if (wave.first->operation != &operation || !(wave.first->site == site)) {
        wave.apart = true;
    }
    Lane* next = wave.left > 0 ? next_of_pass(wave) : end_pass(wave);
    if (next != &lane) {
        current = next;
        switch_fiber(lane.fiber, next->fiber);
    }
}

// The last thing that a lane does.
[[noreturn]] inline void return_lane() {
    Lane& lane = *current;
    Wave& wave = *lane.wave;
    lane.returned = true;
    ++wave.returned;
    Lane* next = wave.left > 0 ? next_of_pass(wave) : end_pass(wave);
    current = next;
    switch_fiber(lane.fiber, next != nullptr ? next->fiber : wave.block->own, true);
    __builtin_unreachable();
}

// Runs a block whose lanes all stand at their entry. Its report, if there is one, is in `failure`.
inline void run_lanes(Block& block) {
    make_ready(block);
    describe_own_stack(block.own);
    current = next_of_block(block, nullptr);
    switch_fiber(block.own, current->fiber);
    current = nullptr;
}

}  // namespace host
}  // namespace mono

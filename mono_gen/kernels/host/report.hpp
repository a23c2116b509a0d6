// Reports: who waits where, as text. Files stand without their folders.
#pragma once

#include <string>
#include <vector>

#include "state.hpp"

namespace mono {
namespace host __attribute__((visibility("hidden"))) {

inline std::string text(const Site& site) {
    const char* slash = std::strrchr(site.file, '/');
    return std::string(slash == nullptr ? site.file : slash + 1) + ":" + std::to_string(site.line);
}

inline std::string text(const Block& block) {
    return "block " + std::to_string(block.x) + "," + std::to_string(block.y);
}

inline std::string text(const Wave& wave) { return text(*wave.block) + " wave " + std::to_string(wave.wave); }

// "lanes 0-3, 7" of ascending numbers.
inline std::string text(const std::string& noun, const std::vector<int>& numbers) {
    std::string out = noun + (numbers.size() == 1 ? " " : "s ");
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t end = i + 1;
        while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) {
            ++end;
        }
        out += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
        if (end - i > 1) {
            out += "-" + std::to_string(numbers[end - 1]);
        }
        i = end;
    }
    return out;
}

// Members of which the same is to be said: where they wait, what they hold; an empty text for those that returned.
struct Group {
    std::string what;
    std::vector<int> numbers;
};

inline void add(std::vector<Group>& groups, const std::string& what, int number) {
    for (Group& group : groups) {
        if (group.what == what) {
            group.numbers.push_back(number);
            return;
        }
    }
    groups.push_back({what, {number}});
}

// again: from the second group on; null: the same as in the first.
struct Verbs {
    const char *of_many, *of_one, *again;
};

constexpr Verbs kWait{"wait at", "waits at", "at"};
constexpr Verbs kHold{"hold", "holds", nullptr};

// "lanes 0-31 wait at shuffle_xor, qkv.hpp:40; lanes 32-63 at barrier, qkv.hpp:44"; of many groups the first.
inline std::string text(const std::string& noun, const std::vector<Group>& groups, const Verbs& verbs) {
    constexpr std::size_t kMostGroups = 6;
    std::string out;
    bool said = false;
    for (std::size_t i = 0; i < groups.size() && i < kMostGroups; ++i) {
        const Group& group = groups[i];
        out += (i == 0 ? "" : "; ") + text(noun, group.numbers);
        if (group.what.empty()) {
            out += " returned";
        } else {
            const char* verb = group.numbers.size() == 1 ? verbs.of_one : verbs.of_many;
            out += std::string(" ") + (said && verbs.again != nullptr ? verbs.again : verb) + " " + group.what;
            said = true;
        }
    }
    return groups.size() > kMostGroups ? out + "; and others" : out;
}

inline std::string where(const Lane& lane) {
    return lane.returned ? std::string() : lane.operation->name + (", " + text(lane.site));
}

// Why a wave can not go on.
inline std::string apart(const Wave& wave) {
    std::vector<Group> groups;
    for (int l = 0; l < wave.size; ++l) {
        add(groups, where(wave.lanes[l]), l);
    }
    return text("lane", groups, kWait) + "; " + text(wave);
}

// Why the waves of a block can not go on: each has returned, or all of its lanes wait at one barrier.
inline std::string apart(const Block& block) {
    std::vector<Group> groups;
    for (int w = 0; w < block.wave_count; ++w) {
        add(groups, where(block.waves.get()[w].lanes[0]), w);
    }
    return text("wave", groups, kWait) + "; " + text(block);
}

// Lanes that hand `uniform` different values.
inline std::string not_uniform(const Wave& wave) {
    std::vector<Group> groups;
    for (int l = 0; l < wave.size; ++l) {
        add(groups, std::to_string(static_cast<int>(wave.registers.value[l])), l);
    }
    return where(wave.lanes[0]) + ": " + text("lane", groups, kHold) + "; " + text(wave);
}

// Why the bytes around the LDS are not what they were, or nothing.
inline std::string past_the_lds(const Block& block, unsigned char (*guard)(long long)) {
    for (long long at = -kGuardBytes; at < block.lds_bytes + kGuardBytes; ++at) {
        if (at == 0) {
            at = block.lds_bytes;
        }
        if (block.lds[at] != guard(at)) {
            return "wrote past the LDS: byte " + std::to_string(at) + " of " + std::to_string(block.lds_bytes) + "; " +
                   text(block);
        }
    }
    return {};
}

}  // namespace host
}  // namespace mono

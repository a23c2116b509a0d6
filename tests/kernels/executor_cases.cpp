// Kernels for the tests of the host wave executor, each by its name. A mark such as [here] names the line of a site.
#include <cstring>
#include <map>
#include <string>

#include "mfma.hpp"

using mono::host::Launch;
using namespace mono;

namespace {

int* out = nullptr;     // of the case that runs
int arrived = 0;        // how many threads have written to out, in cases of one block
Launch launch_of_case;  // as the test asks for it

int lane() { return wave::thread() % launch_of_case.wave; }
int wave_index() { return wave::thread() / launch_of_case.wave; }
int index() {
    return (wave::block_y() * launch_of_case.grid_x + wave::block_x()) * launch_of_case.threads + wave::thread();
}

struct Lds {
    int word[1024];
};

// --- reports ---

void diverge_in_one_wave() {
    if (wave::block_x() == 3 && wave_index() == 2 && lane() >= 32) {
        wave::barrier();  // [diverge: barrier]
    } else {
        wave::shuffle_xor(1, 1);  // [diverge: shuffle]
    }
}

void one_operation_at_two_sites() {
    if (lane() < 16 || lane() >= 48 || lane() == 20) {
        wave::ballot(true);  // [two sites: first]
    } else {
        wave::ballot(true);  // [two sites: second]
    }
}

void another_count_of_rounds() {
    for (int i = 0; i < (lane() == 5 ? 4 : 3); ++i) {
        wave::uniform(i);  // [rounds: uniform]
    }
    wave::barrier();  // [rounds: barrier]
}

void return_before_a_wave_operation() {
    if (lane() == 7) {
        return;
    }
    wave::ballot(true);  // [returned: ballot]
}

void return_before_a_barrier() {
    if (wave::thread() >= 100) {
        return;
    }
    wave::barrier();  // [returned: barrier]
}

void a_wave_returns_before_a_barrier() {
    if (wave_index() == 0) {
        return;
    }
    wave::barrier();  // [returned wave: barrier]
}

void a_wave_meets_one_barrier_less() {
    for (int i = 0; i < (wave_index() == 4 ? 2 : 3); ++i) {
        wave::barrier();  // [one less: barrier]
    }
}

void barriers_at_two_sites() {
    if (wave_index() < 3) {
        wave::barrier();  // [two barriers: first]
    } else {
        wave::barrier();  // [two barriers: second]
    }
}

void not_uniform() {
    wave::uniform(lane() < 4 ? -1 : 8);  // [not uniform]
}

void uniform_nowhere() { wave::uniform(lane()); }

int wave_sum(int v, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    for (int mask = launch_of_case.wave / 2; mask != 0; mask /= 2) {
        v += wave::shuffle_xor(v, mask, file, line);
    }
    return v;
}

void a_wrapper_hands_on_its_site() {
    if (lane() < 8) {
        wave_sum(1);  // [wrapper: first]
    } else {
        wave_sum(2);  // [wrapper: second]
    }
}

void two_instructions() {
    const unsigned a[8] = {}, b[8] = {}, c[2] = {};
    float d[4] = {};
    if (lane() < 1) {
        wave::mfma_f32_16x16x32_fp8_fp8(c, c, d);  // [two instructions: dense]
    } else {
        wave::mfma_scale_f32_16x16x128_f8f6f4<wave::Elements::fp8, wave::Elements::fp8, 0, 0>(
            a, b, d, 0, 0);  // [two instructions: scaled]
    }
}

void mfma_alone() {
    const unsigned a[2] = {};
    float d[4] = {};
    wave::mfma_f32_16x16x32_fp8_fp8(a, a, d);  // [mfma]
}

void shuffle_with_no_lane() {
    wave::shuffle_xor(1, launch_of_case.wave);  // [no lane]
}

void lds_too_large() {
    wave::lds<Lds>();  // [lds]
}

void write_past_the_lds() {
    if (wave::block_x() == 1 && wave::thread() == 0) {
        reinterpret_cast<volatile unsigned char*>(&wave::lds<Lds>())[sizeof(Lds) + 5] = 0;
    }
}

void write_before_the_lds() {
    if (wave::thread() == 63) {
        reinterpret_cast<volatile int*>(&wave::lds<Lds>())[-1] = -1;
    }
}

void launch_in_a_kernel() {
    host::launch(launch_of_case, [] {});
}

void odd_blocks_fail() {
    // Of blocks 3, 5, 7, which may run at the same time, 7 ends first and 5 last.
    for (int i = 0; i < (wave::block_x() == 3 ? 2000 : wave::block_x() == 5 ? 6000 : 1); ++i) {
        wave::ballot(true);
    }
    if (wave::block_x() % 2 == 1 && wave::block_x() > 2) {
        wave::uniform(lane());
    }
}

// --- values ---

void exchange() {
    int sum = 0;
    for (int mask = 1; mask < launch_of_case.wave; mask *= 2) {
        const int whole = wave::shuffle_xor(1000 + wave::thread(), mask);
        const float half = wave::shuffle_xor(0.5F * static_cast<float>(wave::thread()), mask);
        sum += (whole - 1000) * (half == 0.5F * static_cast<float>(whole - 1000) ? mask : 0);
    }
    out[index()] = sum;
}

void votes() {
    const unsigned long long bits = wave::ballot(lane() % 3 == wave_index() % 3);
    out[2 * index()] = static_cast<int>(bits & 0xFFFFFFFF);
    out[2 * index() + 1] = static_cast<int>(bits >> 32);
}

void uniform_values() { out[index()] = wave::uniform(wave_index() - 3); }

void sums() { out[index()] = wave_sum(wave::thread()); }

void coordinates() {
    out[index()] = wave::block_x() * 1000000 + wave::block_y() * 10000 + wave::thread();
}

// Each thread passes a number on to the next, over and over.
void ring() {
    Lds& lds = wave::lds<Lds>();
    int v = index();
    for (int round = 0; round < 5; ++round) {
        lds.word[wave::thread()] = v;
        wave::barrier();
        v = (v + 3 * lds.word[(wave::thread() + 65) % launch_of_case.threads]) % 1000003;
        wave::barrier();
    }
    out[index()] = v;
}

// The same without the second barrier.
void racy_ring() {
    Lds& lds = wave::lds<Lds>();
    int v = index();
    for (int round = 0; round < 5; ++round) {
        lds.word[wave::thread()] = v;
        wave::barrier();
        v = (v + 3 * lds.word[(wave::thread() + 65) % launch_of_case.threads]) % 1000003;
    }
    out[index()] = v;
}

// Waves that lean on each other's progress: one writes, all read a few wave operations later.
void racy_waves() {
    Lds& lds = wave::lds<Lds>();
    lds.word[wave::thread()] = wave::thread();
    for (int i = 0; i < 4; ++i) {
        wave::ballot(true);
    }
    out[index()] = lds.word[wave::thread() ^ 256];
}

// Lanes of one wave that lean on an order among themselves.
void racy_lanes() {
    Lds& lds = wave::lds<Lds>();
    lds.word[wave_index()] = lane();
    wave::uniform(0);
    out[index()] = lds.word[wave_index()];
}

void order() { out[arrived++] = wave::thread(); }

void order_after_a_barrier() {
    wave::barrier();
    out[arrived++] = wave::thread();
}

void order_of_waves() {
    for (int i = 0; i < 8; ++i) {
        wave::ballot(true);
        if (lane() == 0) {
            out[arrived++] = wave_index();
        }
    }
}

void poison() {
    Lds& lds = wave::lds<Lds>();
    int wrong = 0;
    for (int i = wave::thread(); i < 1024; i += launch_of_case.threads) {
        wrong += lds.word[i] != -1;
    }
    out[index()] = wrong;
    wave::barrier();
    std::memset(&lds, 0, sizeof lds);
}

void finish_apart() {
    out[index()] = wave_sum(1);
    if (lane() % 2 == 0) {
        return;
    }
    out[index()] += 1;
}

const std::map<std::string, void (*)()> kCases = {
    {"diverge_in_one_wave", diverge_in_one_wave},
    {"one_operation_at_two_sites", one_operation_at_two_sites},
    {"another_count_of_rounds", another_count_of_rounds},
    {"return_before_a_wave_operation", return_before_a_wave_operation},
    {"return_before_a_barrier", return_before_a_barrier},
    {"a_wave_returns_before_a_barrier", a_wave_returns_before_a_barrier},
    {"a_wave_meets_one_barrier_less", a_wave_meets_one_barrier_less},
    {"barriers_at_two_sites", barriers_at_two_sites},
    {"not_uniform", not_uniform},
    {"uniform_nowhere", uniform_nowhere},
    {"a_wrapper_hands_on_its_site", a_wrapper_hands_on_its_site},
    {"two_instructions", two_instructions},
    {"mfma_alone", mfma_alone},
    {"shuffle_with_no_lane", shuffle_with_no_lane},
    {"lds_too_large", lds_too_large},
    {"write_past_the_lds", write_past_the_lds},
    {"write_before_the_lds", write_before_the_lds},
    {"launch_in_a_kernel", launch_in_a_kernel},
    {"odd_blocks_fail", odd_blocks_fail},
    {"exchange", exchange},
    {"votes", votes},
    {"uniform_values", uniform_values},
    {"sums", sums},
    {"coordinates", coordinates},
    {"ring", ring},
    {"racy_ring", racy_ring},
    {"racy_waves", racy_waves},
    {"racy_lanes", racy_lanes},
    {"order", order},
    {"order_after_a_barrier", order_after_a_barrier},
    {"order_of_waves", order_of_waves},
    {"poison", poison},
    {"finish_apart", finish_apart},
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// The report of a case, empty if there is none.
EXPORT const char* run_case(const char* name, const Launch* launch, int* results) {
    out = results;
    arrived = 0;
    launch_of_case = *launch;
    const bool is_fine = host::launch(*launch, kCases.at(name));
    return is_fine == host::last_error().empty() ? host::last_error().c_str() : "true and a report, or false and none";
}

#ifdef MONO_TEST_MAIN
// Every case, for a run under a sanitizer.
#include <cstdio>
#include <vector>

int main() {
    std::vector<int> results(1 << 20);
    for (const auto& entry : kCases) {
        for (const int threads : {512, 64}) {
            const Launch launch{5, 2, threads, 64, entry.first == "lds_too_large" ? 100 : 4096, 7};
            std::printf("%s: %s\n", entry.first.c_str(), run_case(entry.first.c_str(), &launch, results.data()));
        }
    }
}
#endif

// Prints what a GPU's matrix instructions take: the operand table of mono_gen/operands.py, decoded from the instructions.
//
//     hipcc -std=c++17 --offload-arch=gfx950 probe.hip -o probe && ./probe > seen.txt     (gfx942: add -DMONO_FNUZ)
//     python -m mono_gen.operands gfx950 | diff - seen.txt
//
// No difference means that the table holds on this GPU. One operand is 1.0 at one element of one lane, the other is 1.0
// where a bit of an element's number is set: where D is not 0, the two elements met, at the same k. A scale is 2.0 where a
// bit of its lane's number is set: where D is 2.0, the lane's scale multiplied.
//
// Products cannot tell the names of rows, columns and k. They are named in the order of the lanes and elements of A (rows,
// k) and B (columns), and the 32-blocks of k in the order of the lanes whose A scale multiplies them; what is measured is
// everything else: B's k, all scales, all bytes that op_sel takes, D. The exit status is 0 if each element was seen once.
#if defined(MONO_DEVICE_ONLY)
#include "device/platform.hpp"
#else
#include "device/launch.hpp"
#endif

namespace mono {
namespace probe {

// A product to be made. The one-hot operand is A (0) or B (1); `pattern` 0 is 1.0 everywhere in the other one, n > 0 where
// bit n - 1 of the element's number is set. The scale of A (0) or B (1) varies by `scale_bit` of the lane's number, if any.
struct Item {
    int one_hot, place, pattern, scaled, scale_bit, select;
};

constexpr int kCells = 64 * 4;  // of D: lane * 4 + register
constexpr unsigned char kZero = 0, kOne = 1, kTwo = 2, kOther = 3;

// An operand's registers: kElements of kBits bits, 1.0 being kUnit. Elements are numbered lane by lane.
template <int kElements, int kBits, unsigned kUnit>
struct Operand {
    static constexpr int kCount = kElements;
    static constexpr int kRegisters = kElements * kBits / 32;

    static MONO_DEVICE void fill(unsigned (&registers)[kRegisters], bool is_one_hot, const Item& item) {
        MONO_UNROLL
        for (int i = 0; i < kRegisters; ++i) registers[i] = 0;
        MONO_UNROLL
        for (int e = 0; e < kElements; ++e) {
            const int at = lane_index() * kElements + e;
            const bool in_pattern = item.pattern == 0 || (at >> (item.pattern - 1) & 1) != 0;
            const bool is_unit = is_one_hot ? at == item.place : in_pattern;
            registers[e * kBits / 32] |= is_unit ? kUnit << (e * kBits % 32) : 0u;
        }
    }
};

using Fp8 = Operand<8, 8, kFnuz ? 0x40 : 0x38>;

struct DenseFp8 {
    using A = Fp8;
    using B = Fp8;
    static MONO_DEVICE void multiply(const unsigned (&a)[2], const unsigned (&b)[2], float (&d)[4], const Item&) {
        wave::mfma_f32_16x16x32_fp8_fp8(a, b, d);
    }
};

#if !defined(MONO_FNUZ)

#if defined(MONO_AMD)
typedef __bf16 Halves8 __attribute__((ext_vector_type(8)));

MONO_DEVICE void multiply_bf16(const unsigned (&a)[4], const unsigned (&b)[4], float (&d)[4]) {
    const wave::Words4 wide_a = {a[0], a[1], a[2], a[3]}, wide_b = {b[0], b[1], b[2], b[3]};
    const wave::Floats4 c = {d[0], d[1], d[2], d[3]};
    const wave::Floats4 r = __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(Halves8, wide_a),
                                                                    __builtin_bit_cast(Halves8, wide_b), c, 0, 0, 0);
    for (int i = 0; i < 4; ++i) d[i] = r[i];
}
#else
inline void multiply_bf16(const unsigned (&a)[4], const unsigned (&b)[4], float (&d)[4]) {
    wave::mfma_f32_16x16x32_bf16(a, b, d);
}
#endif

struct DenseBf16 {
    using A = Operand<8, 16, 0x3F80>;
    using B = A;
    static MONO_DEVICE void multiply(const unsigned (&a)[4], const unsigned (&b)[4], float (&d)[4], const Item&) {
        multiply_bf16(a, b, d);
    }
};

using wave::Elements;

template <Elements kType>
struct ScaledOperand : Operand<32, 8, 0x38> {};

template <>
struct ScaledOperand<Elements::fp4> : Operand<32, 4, 0x2> {};

template <Elements kA, Elements kB>
struct Scaled {
    using A = ScaledOperand<kA>;
    using B = ScaledOperand<kB>;

    // e8m0: 127 is 1.0. The bytes that the instruction should not take are 16.0.
    static MONO_DEVICE unsigned scale(const Item& item, int side) {
        const bool is_two = item.scaled == side && item.scale_bit >= 0 && (lane_index() >> item.scale_bit & 1) != 0;
        const unsigned others = 0x83838383u & ~(0xFFu << 8 * item.select);
        return others | (is_two ? 128u : 127u) << 8 * item.select;
    }

    static MONO_DEVICE void multiply(const unsigned (&a)[A::kRegisters], const unsigned (&b)[B::kRegisters],
                                     float (&d)[4], const Item& item) {
        const unsigned of_a = scale(item, 0), of_b = scale(item, 1);
        switch (item.select) {
            case 0: return wave::mfma_scale_f32_16x16x128_f8f6f4<kA, kB, 0, 0>(a, b, d, of_a, of_b);
            case 1: return wave::mfma_scale_f32_16x16x128_f8f6f4<kA, kB, 1, 1>(a, b, d, of_a, of_b);
            case 2: return wave::mfma_scale_f32_16x16x128_f8f6f4<kA, kB, 2, 2>(a, b, d, of_a, of_b);
            default: return wave::mfma_scale_f32_16x16x128_f8f6f4<kA, kB, 3, 3>(a, b, d, of_a, of_b);
        }
    }
};

#endif

// An item a wave; what D holds afterwards, a byte a cell.
template <class Pair>
MONO_DEVICE void run(const Item* items, int count, unsigned char* cells) {
    const int at = wave::block_x() * kWaves + wave::uniform(wave::thread() / kWave);
    if (at >= count) return;
    const Item item = items[at];
    unsigned a[Pair::A::kRegisters], b[Pair::B::kRegisters];
    Pair::A::fill(a, item.one_hot == 0, item);
    Pair::B::fill(b, item.one_hot == 1, item);
    float d[4] = {0, 0, 0, 0};
    Pair::multiply(a, b, d, item);
    MONO_UNROLL
    for (int i = 0; i < 4; ++i) {
        const unsigned char code = d[i] == 0 ? kZero : d[i] == 1 ? kOne : d[i] == 2 ? kTwo : kOther;
        cells[at * kCells + lane_index() * 4 + i] = code;
    }
}

}  // namespace probe
}  // namespace mono

#define MONO_PROBE(name, ...)                                                                                 \
    MONO_GLOBAL void name(const mono::probe::Item* items, int count, unsigned char* cells) {                  \
        mono::probe::run<mono::probe::__VA_ARGS__>(items, count, cells);                                      \
    }

MONO_PROBE(mono_probe_fp8, DenseFp8)
#if !defined(MONO_FNUZ)
MONO_PROBE(mono_probe_bf16, DenseBf16)
MONO_PROBE(mono_probe_fp8_fp8, Scaled<mono::probe::Elements::fp8, mono::probe::Elements::fp8>)
MONO_PROBE(mono_probe_fp8_fp4, Scaled<mono::probe::Elements::fp8, mono::probe::Elements::fp4>)
MONO_PROBE(mono_probe_fp4_fp8, Scaled<mono::probe::Elements::fp4, mono::probe::Elements::fp8>)
MONO_PROBE(mono_probe_fp4_fp4, Scaled<mono::probe::Elements::fp4, mono::probe::Elements::fp4>)
#endif

#if !defined(MONO_DEVICE_ONLY)

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mono {
namespace probe {

// An instruction with types of elements for A and B, and how many a lane holds.
struct Subject {
    const char *instruction, *a, *b;
    int of_a, of_b;
    bool has_scales;
    void (*kernel)(const Item*, int, unsigned char*);
};

constexpr Subject kSubjects[] = {
    {"mfma_f32_16x16x32_fp8_fp8", "fp8", "fp8", 8, 8, false, mono_probe_fp8},
#if !defined(MONO_FNUZ)
    {"mfma_f32_16x16x32_bf16", "bf16", "bf16", 8, 8, false, mono_probe_bf16},
    {"mfma_scale_f32_16x16x128_f8f6f4", "fp8", "fp8", 32, 32, true, mono_probe_fp8_fp8},
    {"mfma_scale_f32_16x16x128_f8f6f4", "fp8", "fp4", 32, 32, true, mono_probe_fp8_fp4},
    {"mfma_scale_f32_16x16x128_f8f6f4", "fp4", "fp8", 32, 32, true, mono_probe_fp4_fp8},
    {"mfma_scale_f32_16x16x128_f8f6f4", "fp4", "fp4", 32, 32, true, mono_probe_fp4_fp4},
#endif
};

[[noreturn]] void fail(const std::string& why) {
    std::fprintf(stderr, "probe: %s\n", why.c_str());
    std::exit(2);
}

constexpr int kNone = -1;

using Cells = std::vector<unsigned char>;  // kCells an item

#if defined(MONO_HOST)

Cells measure(const Subject& subject, const std::vector<Item>& items) {
    const int count = static_cast<int>(items.size());
    Cells cells(items.size() * kCells);
    if (launch<NoShared>(subject.kernel, {(count + kWaves - 1) / kWaves, 1}, nullptr, items.data(), count, cells.data()) != 0) {
        fail(error_text());
    }
    return cells;
}

#else

void check(hipError_t error) {
    if (error != hipSuccess) fail(hipGetErrorString(error));
}

Cells measure(const Subject& subject, const std::vector<Item>& items) {
    const int count = static_cast<int>(items.size());
    Cells cells(items.size() * kCells);
    void *of_items = nullptr, *of_cells = nullptr;
    check(hipMalloc(&of_items, items.size() * sizeof(Item)));
    check(hipMalloc(&of_cells, cells.size()));
    check(hipMemcpy(of_items, items.data(), items.size() * sizeof(Item), hipMemcpyHostToDevice));
    check(hipMemset(of_cells, kOther, cells.size()));
    if (launch<NoShared>(subject.kernel, {(count + kWaves - 1) / kWaves, 1}, nullptr, static_cast<const Item*>(of_items), count,
               static_cast<unsigned char*>(of_cells)) != 0) {
        fail(error_text());
    }
    check(hipMemcpy(cells.data(), of_cells, cells.size(), hipMemcpyDeviceToHost));
    check(hipFree(of_items));
    check(hipFree(of_cells));
    return cells;
}

#endif

// --- what meets what ---

int bits_of(int numbers) {
    int bits = 0;
    while (1 << bits < numbers) ++bits;
    return bits;
}

// The cells of D that are not 0, by item.
std::vector<std::vector<int>> reached(const Cells& cells) {
    std::vector<std::vector<int>> found(cells.size() / kCells);
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (cells[i] != kZero) found[i / kCells].push_back(static_cast<int>(i % kCells));
    }
    return found;
}

// The cells that each place of an operand reaches where the other is 1.0 everywhere.
std::vector<std::vector<int>> lines(const Subject& subject, int side, const std::vector<int>& places) {
    std::vector<Item> items;
    for (const int place : places) items.push_back({side, place, 0, kNone, kNone, 0});
    return reached(measure(subject, items));
}

// For each place of one operand, and each cell, the number whose bits were set where D has `code`: of the place of the
// other operand that it met (scaled: kNone), or of the lane whose scale multiplied.
std::vector<std::vector<int>> numbers(const Subject& subject, int side, const std::vector<int>& places, int bits,
                                      int scaled, int select) {
    std::vector<Item> items;
    for (const int place : places) {
        for (int bit = 0; bit < bits; ++bit) {
            const bool of_scale = scaled != kNone;
            items.push_back({side, place, of_scale ? 0 : bit + 1, scaled, of_scale ? bit : kNone, select});
        }
    }
    const Cells cells = measure(subject, items);
    std::vector<std::vector<int>> found(places.size(), std::vector<int>(kCells, 0));
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::size_t item = i / kCells;
        const bool is_set = cells[i] == (scaled != kNone ? kTwo : kOne);
        if (is_set) found[item / static_cast<std::size_t>(bits)][i % kCells] |= 1 << item % static_cast<std::size_t>(bits);
        if (cells[i] == kOther) found[item / static_cast<std::size_t>(bits)][i % kCells] = 1 << 30;
    }
    return found;
}

// --- one instruction ---

using Held = std::map<int, std::set<std::pair<int, int>>>;  // number of a place or a lane -> what was seen there

// Says what each lane holds; false unless that is one element a place.
bool print(const Subject& subject, const std::string& operand, const Held& held, int elements) {
    bool is_whole = true;
    for (int lane = 0; lane < 64; ++lane) {
        std::printf("%s.%s lane %d:", subject.instruction, operand.c_str(), lane);
        for (int e = 0; e < elements; ++e) {
            const auto found = held.find(lane * elements + e);
            is_whole = is_whole && found != held.end() && found->second.size() == 1;
            if (found == held.end()) {
                std::printf(" none");
                continue;
            }
            const char* before = " ";
            for (const auto& at : found->second) {
                std::printf("%s%d,%d", before, at.first, at.second);
                before = "/";
            }
        }
        std::printf("\n");
    }
    return is_whole;
}

// Numbers from 0, in the order of what they belong to.
template <class Key>
std::map<Key, int> ranks(const std::map<int, Key>& first) {
    std::map<Key, int> found;
    for (const auto& [place, key] : first) {
        const int next = static_cast<int>(found.size());
        found.emplace(key, next);
    }
    return found;
}

struct Seen {
    std::vector<int> of_a, of_b;               // by k: a place of A's first row, a place of B's first column
    std::vector<std::vector<int>> a, b;        // by k and cell: the place that the other operand met there
    std::vector<int> row_cells, column_cells;  // the cells of B's first column, one a row; of A's first row, one a column
    std::map<int, int> row, column;            // the names of those
    std::vector<int> k;                        // by k: its name
};

// Everything but the names of k.
Seen meet(const Subject& subject) {
    Seen seen;
    std::vector<int> all(static_cast<std::size_t>(64 * subject.of_b));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    const auto columns = lines(subject, 1, all);
    seen.row_cells = columns[0];
    for (const int place : all) {
        if (columns[static_cast<std::size_t>(place)] == columns[0]) seen.of_b.push_back(place);
    }
    seen.a = numbers(subject, 1, seen.of_b, bits_of(64 * subject.of_a), kNone, 0);
    std::map<int, int> first;
    for (const auto& of_k : seen.a) {
        for (const int cell : seen.row_cells) first[of_k[static_cast<std::size_t>(cell)]] = cell;
    }
    seen.row = ranks(first);
    if (first.empty()) fail(std::string(subject.instruction) + ": D is 0 whatever A and B are");
    for (const auto& of_k : seen.a) seen.of_a.push_back(of_k[static_cast<std::size_t>(first.begin()->second)]);
    seen.column_cells = lines(subject, 0, {seen.of_a[0]})[0];
    seen.b = numbers(subject, 0, seen.of_a, bits_of(64 * subject.of_b), kNone, 0);
    first.clear();
    for (const auto& of_k : seen.b) {
        for (const int cell : seen.column_cells) first[of_k[static_cast<std::size_t>(cell)]] = cell;
    }
    seen.column = ranks(first);
    return seen;
}

// Names each k: block by block in the order of the lanes of A's scales, inside a block in the order of A's places.
void name_k(Seen& seen, const std::vector<std::vector<int>>& lanes) {
    std::map<int, std::vector<int>> first;  // the first lane of a block -> the lanes of all its rows
    std::vector<std::vector<int>> of_k;
    for (std::size_t k = 0; k < seen.of_a.size(); ++k) {
        of_k.emplace_back();
        for (const int cell : seen.row_cells) of_k[k].push_back(lanes.empty() ? 0 : lanes[k][static_cast<std::size_t>(cell)]);
        first[*std::min_element(of_k[k].begin(), of_k[k].end())] = of_k[k];
    }
    const auto block = ranks(first);
    std::vector<std::pair<int, int>> order;
    for (std::size_t k = 0; k < seen.of_a.size(); ++k) {
        const auto found = block.find(of_k[k]);
        order.emplace_back(found == block.end() ? 0 : found->second, seen.of_a[k]);
    }
    std::vector<std::pair<int, int>> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    seen.k.clear();
    for (const auto& at : order) {
        seen.k.push_back(static_cast<int>(std::find(sorted.begin(), sorted.end(), at) - sorted.begin()));
    }
}

// What the lanes' scales multiply, (row, block), for a byte that op_sel takes.
Held scales(const Subject& subject, const Seen& seen, int side, int select) {
    const auto& cells = side == 0 ? seen.row_cells : seen.column_cells;
    const auto& names = side == 0 ? seen.row : seen.column;
    const auto lanes = numbers(subject, 1 - side, side == 0 ? seen.of_b : seen.of_a, 6, side, select);
    Held held;
    for (std::size_t k = 0; k < lanes.size(); ++k) {
        for (const int cell : cells) {
            held[lanes[k][static_cast<std::size_t>(cell)]].emplace(names.at(cell), seen.k[k] / 32);
        }
    }
    return held;
}

bool probe(const Subject& subject) {
    Seen seen = meet(subject);
    std::vector<std::vector<int>> lanes;
    if (subject.has_scales) lanes = numbers(subject, 1, seen.of_b, 6, 0, 0);
    name_k(seen, lanes);

    Held a, b, d;
    for (std::size_t k = 0; k < seen.of_a.size(); ++k) {
        for (const int cell : seen.row_cells) a[seen.a[k][static_cast<std::size_t>(cell)]].emplace(seen.row.at(cell), seen.k[k]);
        for (const int cell : seen.column_cells) {
            b[seen.b[k][static_cast<std::size_t>(cell)]].emplace(seen.column.at(cell), seen.k[k]);
        }
    }
    std::vector<int> of_rows, of_columns;  // a place each
    for (const int cell : seen.row_cells) of_rows.push_back(seen.a[0][static_cast<std::size_t>(cell)]);
    for (const int cell : seen.column_cells) of_columns.push_back(seen.b[0][static_cast<std::size_t>(cell)]);
    const auto rows = lines(subject, 0, of_rows), columns = lines(subject, 1, of_columns);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t j = 0; j < columns.size(); ++j) {
            std::vector<int> both;
            std::set_intersection(rows[i].begin(), rows[i].end(), columns[j].begin(), columns[j].end(),
                                  std::back_inserter(both));
            for (const int cell : both) d[cell].emplace(seen.row.at(seen.row_cells[i]), seen.column.at(seen.column_cells[j]));
        }
    }

    const std::string types = std::string(" ") + subject.a + "*" + subject.b;
    bool is_whole = print(subject, "a" + types, a, subject.of_a);
    is_whole = print(subject, "b" + types, b, subject.of_b) && is_whole;
    for (int side = 0; side < 2 && subject.has_scales; ++side) {
        for (int select = 0; select < 4; ++select) {
            const std::string name = (side == 0 ? "a_scale" : "b_scale") + types + " byte " + std::to_string(select);
            is_whole = print(subject, name, scales(subject, seen, side, select), 1) && is_whole;
        }
    }
    return print(subject, "d" + types, d, 4) && is_whole;
}

}  // namespace probe
}  // namespace mono

int main() {
    bool is_whole = true;
    for (const mono::probe::Subject& subject : mono::probe::kSubjects) is_whole = mono::probe::probe(subject) && is_whole;
    if (!is_whole) std::fprintf(stderr, "probe: not every place holds one element: see `none` and `/` above\n");
    return is_whole ? 0 : 1;
}

#endif

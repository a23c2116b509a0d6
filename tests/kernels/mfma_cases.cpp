// One call of each matrix instruction for the tests of its model: the registers of 64 lanes in, the accumulators out.
#include "mfma.hpp"

using namespace mono;
using wave::Elements;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

const unsigned *registers_a, *registers_b, *scales_a, *scales_b;  // [64][n], [64]
float* accumulators;                                              // [64][4]

template <class Call>
bool run(Call call) {
    host::Launch launch;
    return host::launch(launch, [call] {
        float d[4];
        std::memcpy(d, accumulators + 4 * wave::thread(), sizeof d);
        call(wave::thread(), d);
        std::memcpy(accumulators + 4 * wave::thread(), d, sizeof d);
    });
}

template <int kRegisters>
struct Operand {
    unsigned of[kRegisters];
    Operand(const unsigned* from, int lane) { std::memcpy(of, from + kRegisters * lane, sizeof of); }
};

template <Elements kA, Elements kB, int kSelectA, int kSelectB>
bool run_scaled() {
    return run([](int lane, float(&d)[4]) {
        const Operand<wave::registers_of(kA)> a(registers_a, lane);
        const Operand<wave::registers_of(kB)> b(registers_b, lane);
        wave::mfma_scale_f32_16x16x128_f8f6f4<kA, kB, kSelectA, kSelectB>(  // both selects known to the compiler
            a.of, b.of, d, scales_a[lane], scales_b[lane]);
    });
}

template <Elements kA, Elements kB, int kSelectA>
bool select_b(int select) {
    switch (select) {
        case 0: return run_scaled<kA, kB, kSelectA, 0>();
        case 1: return run_scaled<kA, kB, kSelectA, 1>();
        case 2: return run_scaled<kA, kB, kSelectA, 2>();
        default: return run_scaled<kA, kB, kSelectA, 3>();
    }
}

template <Elements kA, Elements kB>
bool select_a(int select, int of_b) {
    switch (select) {
        case 0: return select_b<kA, kB, 0>(of_b);
        case 1: return select_b<kA, kB, 1>(of_b);
        case 2: return select_b<kA, kB, 2>(of_b);
        default: return select_b<kA, kB, 3>(of_b);
    }
}

}  // namespace

EXPORT bool fp8_dense(const unsigned* a, const unsigned* b, float* d) {
    registers_a = a, registers_b = b, accumulators = d;
    return run([](int lane, float(&sum)[4]) {
        wave::mfma_f32_16x16x32_fp8_fp8(Operand<2>(registers_a, lane).of, Operand<2>(registers_b, lane).of, sum);
    });
}

EXPORT bool bf16_dense(const unsigned* a, const unsigned* b, float* d) {
    registers_a = a, registers_b = b, accumulators = d;
    return run([](int lane, float(&sum)[4]) {
        wave::mfma_f32_16x16x32_bf16(Operand<4>(registers_a, lane).of, Operand<4>(registers_b, lane).of, sum);
    });
}

// code_a, code_b: cbsz and blgp, 0 for fp8 and 4 for fp4.
EXPORT bool scaled(int code_a, int code_b, int select, int of_b, const unsigned* a, const unsigned* b, float* d,
                   const unsigned* scale_a, const unsigned* scale_b) {
    registers_a = a, registers_b = b, accumulators = d, scales_a = scale_a, scales_b = scale_b;
    if (code_a == 0) {
        return code_b == 0 ? select_a<Elements::fp8, Elements::fp8>(select, of_b)
                           : select_a<Elements::fp8, Elements::fp4>(select, of_b);
    }
    return code_b == 0 ? select_a<Elements::fp4, Elements::fp8>(select, of_b)
                       : select_a<Elements::fp4, Elements::fp4>(select, of_b);
}

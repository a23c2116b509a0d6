// Fibers: a stack each, and a switch between them that saves what a call keeps. It makes no system call, as swapcontext
// does, and so costs some 5 ns instead of 400. A fiber stays on the OS thread that started it.
//
// The sanitizers of addresses and of undefined behaviour work, the former because it is told of every switch. That of
// threads does not. A debugger shows the frames of the lane that runs, and `mono::host::current` says which it is.
#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__ELF__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(MONO_HOST_UCONTEXT)
#define MONO_HOST_SWITCH 1
#else
#include <ucontext.h>
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MONO_HOST_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MONO_HOST_ASAN 1
#endif
#ifdef MONO_HOST_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef MONO_HOST_SWITCH
// Saves the registers that a call keeps on the stack, and the stack pointer in *save; goes on at `resume`. In a COMDAT
// section, so that several sources of a program may include it; hidden, so that every shared library has its own.
extern "C" __attribute__((visibility("hidden"))) void mono_host_switch(void** save, void* resume);
asm(R"(
    .pushsection .text.mono_host_switch,"axG",%progbits,mono_host_switch,comdat
    .weak mono_host_switch
    .hidden mono_host_switch
    .type mono_host_switch,%function
    .p2align 4
mono_host_switch:
)"
#ifdef __x86_64__
    R"(
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)"
#else
    R"(
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)"
#endif
    R"(
    .size mono_host_switch, . - mono_host_switch
    .popsection
)");
#endif

namespace mono {
namespace host __attribute__((visibility("hidden"))) {

struct Fiber {
    char* stack = nullptr;  // its lowest byte; null for the fiber that an OS thread is by itself
    std::size_t bytes = 0;
#ifdef MONO_HOST_SWITCH
    void* at = nullptr;
#else
    ucontext_t at;
#endif
};

// The fiber starts at `entry`, which never returns, when it is switched to. Whatever it ran before is forgotten.
// offset: a multiple of 64, by which the top is lowered; whole pages apart, all tops would share few lines of a cache.
inline void start(Fiber& fiber, void (*entry)(), std::size_t offset) {
#ifdef MONO_HOST_ASAN
    __asan_unpoison_memory_region(fiber.stack, fiber.bytes);
#endif
#ifdef MONO_HOST_SWITCH
#ifdef __x86_64__
    constexpr std::size_t kWords = 8, kEntry = 6;  // 6 registers, the entry, the 0 that ends a debugger's trace
#else
    constexpr std::size_t kWords = 20, kEntry = 11;
#endif
    std::uintptr_t words[kWords] = {};
    words[kEntry] = reinterpret_cast<std::uintptr_t>(entry);
    char* top = fiber.stack + fiber.bytes - offset - sizeof words;
    std::memcpy(top, words, sizeof words);
    fiber.at = top;
#else
    getcontext(&fiber.at);
    fiber.at.uc_stack.ss_sp = fiber.stack;
    fiber.at.uc_stack.ss_size = fiber.bytes - offset;
    fiber.at.uc_link = nullptr;
    makecontext(&fiber.at, entry, 0);
#endif
}

// The first thing that a fiber's entry does.
inline void started() {
#ifdef MONO_HOST_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

// Goes on in `to`; returns when another fiber of this OS thread switches back to `from`: never, where `from` ends.
inline void switch_fiber(Fiber& from, Fiber& to, [[maybe_unused]] bool from_ends = false) {
#ifdef MONO_HOST_ASAN
    void* shadow = nullptr;
    __sanitizer_start_switch_fiber(from_ends ? nullptr : &shadow, to.stack, to.bytes);
#endif
#ifdef MONO_HOST_SWITCH
    mono_host_switch(&from.at, to.at);
#else
    swapcontext(&from.at, &to.at);
#endif
#ifdef MONO_HOST_ASAN
    __sanitizer_finish_switch_fiber(shadow, nullptr, nullptr);
#endif
}

// Where this OS thread's own stack lies, which nothing but address sanitizer asks.
inline void describe_own_stack([[maybe_unused]] Fiber& own) {
#ifdef MONO_HOST_ASAN
    pthread_attr_t attributes;
    void* stack = nullptr;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &own.bytes);
    pthread_attr_destroy(&attributes);
    own.stack = static_cast<char*>(stack);
#endif
}

// Equal stacks, each with a page below it that faults. Memory is taken as it is touched.
class Stacks {
public:
#ifdef MONO_HOST_ASAN
    static constexpr std::size_t kBytes = 512 << 10;
#else
    static constexpr std::size_t kBytes = 128 << 10;
#endif

    Stacks() = default;
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;
    ~Stacks() { unmap(); }

    // True when there are `count` stacks. Their contents are lost where there were fewer before.
    bool provide(int count) {
        if (count <= count_) {
            return true;
        }
        unmap();
        page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t bytes = static_cast<std::size_t>(count) * pitch();
        void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
            return false;
        }
        base_ = static_cast<char*>(base);
        count_ = count;
        for (int i = 0; i < count; ++i) {
            if (mprotect(base_ + static_cast<std::size_t>(i) * pitch(), page_, PROT_NONE) != 0) {
                unmap();
                return false;
            }
        }
        return true;
    }

    // The lowest byte of a stack.
    char* at(int i) const { return base_ + static_cast<std::size_t>(i) * pitch() + page_; }

private:
    std::size_t pitch() const { return kBytes + page_; }

    void unmap() {
        if (base_ != nullptr) {
            munmap(base_, static_cast<std::size_t>(count_) * pitch());
        }
        base_ = nullptr;
        count_ = 0;
    }

    char* base_ = nullptr;
    int count_ = 0;
    std::size_t page_ = 0;
};

}  // namespace host
}  // namespace mono

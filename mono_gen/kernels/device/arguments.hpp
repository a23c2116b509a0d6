// What a stage is handed: one list of names a stage makes the struct of its arguments and the text by which the
// launcher fills it. P is an address, I a 64-bit integer, F a double: eight bytes each, in the order of the list.
#ifndef MONO_DEVICE_ARGUMENTS_HPP
#define MONO_DEVICE_ARGUMENTS_HPP

#include "layer.hpp"

#define MONO_ARGUMENT_P(name) void* name;
#define MONO_ARGUMENT_I(name) long long name;
#define MONO_ARGUMENT_F(name) double name;
#define MONO_WORD_P(name) "P " #name " "
#define MONO_WORD_I(name) "I " #name " "
#define MONO_WORD_F(name) "F " #name " "

#define MONO_ARGUMENTS(Type, LIST)                                                      \
    struct Type {                                                                       \
        LIST(MONO_ARGUMENT_P, MONO_ARGUMENT_I, MONO_ARGUMENT_F)                         \
        static constexpr const char* words = LIST(MONO_WORD_P, MONO_WORD_I, MONO_WORD_F); \
    };

namespace mono {

MONO_DEVICE const Byte* at(const void* base, long long bytes) { return static_cast<const Byte*>(base) + bytes; }
MONO_DEVICE Byte* at(void* base, long long bytes) { return static_cast<Byte*>(base) + bytes; }

}  // namespace mono

#endif

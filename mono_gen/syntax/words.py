"""The words that no name in a spec may be, because a generated file in some language could not spell it."""

from __future__ import annotations

_LANGUAGE = """
spec arch import const param layout record struct extends
require pad to fill undefined split store tile lane byte pitch swizzle same as torch view permute holds feeds
align let or dim in optional when args not segments each scale convert via attest gather over
"""

_PYTHON = """
False None True and as assert async await break class continue def del elif else except finally for from global if
import in is lambda nonlocal not or pass raise return try while with yield
"""

_CPP = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if import inline int long mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try
typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""

# Macros of the standard headers that generated code, or what it is included beside, may bring in.
_CPP_MACROS = """
NULL EOF NDEBUG assert errno offsetof setjmp va_arg va_copy va_end va_start stdin stdout stderr
CHAR_BIT CHAR_MAX CHAR_MIN INT_MAX INT_MIN LONG_MAX LONG_MIN LLONG_MAX LLONG_MIN SCHAR_MAX SCHAR_MIN SHRT_MAX SHRT_MIN
UCHAR_MAX UINT_MAX ULONG_MAX ULLONG_MAX USHRT_MAX SIZE_MAX PTRDIFF_MAX PTRDIFF_MIN WCHAR_MAX WCHAR_MIN
INT8_MAX INT16_MAX INT32_MAX INT64_MAX INT8_MIN INT16_MIN INT32_MIN INT64_MIN UINT8_MAX UINT16_MAX UINT32_MAX UINT64_MAX
INT8_C INT16_C INT32_C INT64_C UINT8_C UINT16_C UINT32_C UINT64_C INTMAX_C UINTMAX_C INTMAX_MAX INTMAX_MIN UINTMAX_MAX
INTPTR_MAX INTPTR_MIN UINTPTR_MAX INFINITY NAN HUGE_VAL HUGE_VALF HUGE_VALL MATH_ERRNO MATH_ERREXCEPT
FLT_MAX FLT_MIN FLT_EPSILON FLT_DIG FLT_RADIX DBL_MAX DBL_MIN DBL_EPSILON DBL_DIG LDBL_MAX LDBL_MIN LDBL_EPSILON
M_E M_LOG2E M_LOG10E M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI M_2_SQRTPI M_SQRT2 M_SQRT1_2
BUFSIZ FILENAME_MAX FOPEN_MAX RAND_MAX EXIT_SUCCESS EXIT_FAILURE MB_CUR_MAX CLOCKS_PER_SEC
linux unix
"""

_HIP = """
hipLaunchKernelGGL hipLaunchKernelGGLInternal hipLaunchParm hipDeviceSynchronizeGGL threadIdx blockIdx blockDim gridDim
hipThreadIdx_x hipThreadIdx_y hipThreadIdx_z hipBlockIdx_x hipBlockIdx_y hipBlockIdx_z hipBlockDim_x hipBlockDim_y
hipBlockDim_z hipGridDim_x hipGridDim_y hipGridDim_z warpSize HIP_DYNAMIC_SHARED HIP_DYNAMIC_SHARED_ATTRIBUTE
HIP_KERNEL_NAME HIP_SYMBOL HIP_VERSION HIP_VERSION_MAJOR HIP_VERSION_MINOR HIP_VERSION_PATCH HIP_VECTOR_TYPE HIPRT_CB
HIP_LAUNCH_PARAM_BUFFER_POINTER HIP_LAUNCH_PARAM_BUFFER_SIZE HIP_LAUNCH_PARAM_END HIP_IPC_HANDLE_SIZE
GENERIC_GRID_LAUNCH HIP_ENABLE_WARP_SYNC_BUILTINS HIP_INCLUDE_HIP_HIP_RUNTIME_H
CUDART_CB CUDART_VERSION
"""


def _table() -> dict[str, str]:
    owners: dict[str, list[str]] = {}
    for owner, words in (
        ("the language", _LANGUAGE),
        ("Python", _PYTHON),
        ("C++", _CPP),
        ("C++ (a macro)", _CPP_MACROS),
        ("HIP", _HIP),
    ):
        for word in words.split():
            owners.setdefault(word, []).append(owner)
    return {word: " and ".join(names) for word, names in owners.items()}


LANGUAGE_WORDS = frozenset(_LANGUAGE.split())
RESERVED = _table()


def is_reserved(name: str) -> str | None:
    """Return who reserves a name, in words ("Python and C++"), or None where it is free."""
    if name.startswith("_"):
        return "C++ and Python (a leading underscore)"
    if "__" in name:
        return "C++ and Python (two underscores together)"
    return RESERVED.get(name)

"""Value changes, by the bits: the same bytes as mono_gen.runtime.numerics, which defines them.

A word is an int32 of four fp8 codes. Products with powers of two are exact in fp32, whose subnormals are kept; what is
rounded to bf16 is rounded by integers.
"""

import triton
import triton.language as tl

# cvt.rn.f16x2.e4m3x2 gives the lower code in the lower half
DECODE = tl.constexpr("""{
    .reg .b16 low, high, h0, h1, h2, h3;
    .reg .b32 pair0, pair1;
    mov.b32 {low, high}, $4;
    cvt.rn.f16x2.e4m3x2 pair0, low;
    cvt.rn.f16x2.e4m3x2 pair1, high;
    mov.b32 {h0, h1}, pair0;
    mov.b32 {h2, h3}, pair1;
    cvt.f32.f16 $0, h0;
    cvt.f32.f16 $1, h1;
    cvt.f32.f16 $2, h2;
    cvt.f32.f16 $3, h3;
}""")

# cvt.rn.satfinite.e4m3x2.f32 takes the upper value first
ENCODE = tl.constexpr("""{
    .reg .b16 low, high;
    cvt.rn.satfinite.e4m3x2.f32 low, $2, $1;
    cvt.rn.satfinite.e4m3x2.f32 high, $4, $3;
    mov.b32 $0, {low, high};
}""")


@triton.jit
def power(exponents):
    """Return 2^(exponents - 127) of 0..254 as fp32, by its bits; infinity for 255."""
    bits = tl.where(exponents == 0, 0x00400000, exponents << 23)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def decoded(codes):
    """Return the values of fp8_e4m3fn codes 0..0x7E, no sign among them, as fp32; 480 for 0x7F."""
    return (codes << 20).to(tl.float32, bitcast=True) * 1329227995784915872903807060280344576.0  # 2^120


@triton.jit
def rounded_bf16(x):
    """Return fp32 values that are not negative, as bf16 to nearest even in the upper half of their bits."""
    bits = x.to(tl.int32, bitcast=True)
    return (bits + 0x7FFF + ((bits >> 16) & 1)) & -65536


@triton.jit
def encoded(x, FNUZ: tl.constexpr):
    """Return the fp8 codes of fp32 values from 0 to the format's largest, to nearest even."""
    BIAS: tl.constexpr = 8 if FNUZ else 7
    bits = x.to(tl.int32, bitcast=True)
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - ((127 - BIAS) << 3)
    # the least unit is 2^(-2 - BIAS): it is that of the fp32 values from 2^(21 - BIAS) to their double
    shift = 16384.0 if BIAS == 7 else 8192.0
    counted = (x + shift).to(tl.int32, bitcast=True) & 0x7FFFFF
    return tl.where(bits < ((128 - BIAS) << 23), counted, normal)


@triton.jit
def decoded_words(words, PTX: tl.constexpr):
    """Return the fp32 magnitudes of the four codes of each word, lowest byte first."""
    magnitudes = words & 0x7F7F7F7F
    if PTX:
        return tl.inline_asm_elementwise(
            DECODE,
            "=f,=f,=f,=f,r",
            [magnitudes],
            dtype=(tl.float32, tl.float32, tl.float32, tl.float32),
            is_pure=True,
            pack=1,
        )
    else:
        return (
            decoded(magnitudes & 0x7F),
            decoded((magnitudes >> 8) & 0x7F),
            decoded((magnitudes >> 16) & 0x7F),
            decoded(magnitudes >> 24),
        )


@triton.jit
def encoded_words(a, b, c, d, signs, PTX: tl.constexpr, FNUZ: tl.constexpr):
    """Return words of the fp8 codes of four fp32 magnitudes, under the sign bits of other words."""
    signs = signs & -2139062144  # 0x80808080
    if PTX:
        word = tl.inline_asm_elementwise(ENCODE, "=r,f,f,f,f", [a, b, c, d], dtype=tl.int32, is_pure=True, pack=1)
    else:
        word = encoded(a, FNUZ) | (encoded(b, FNUZ) << 8) | (encoded(c, FNUZ) << 16) | (encoded(d, FNUZ) << 24)
    if FNUZ:  # zero has no sign there: a byte keeps its sign where one of its other bits is set
        signs = signs & ((word & 0x7F7F7F7F) + 0x7F7F7F7F)
    return word | signs


@triton.jit
def largest_codes(words):
    """Return the largest magnitude among the codes of the words along the last axis."""
    # a word's upper bytes decide first: what stands below the byte that is asked for does not matter
    top = tl.max(words & 0x7F7F7F7F, axis=2) >> 24
    third = tl.max(words & 0x007F7F7F, axis=2) >> 16
    second = tl.max(words & 0x00007F7F, axis=2) >> 8
    first = tl.max(words & 0x0000007F, axis=2)
    return tl.maximum(tl.maximum(top, third), tl.maximum(second, first))


@triton.jit
def largest_products(words, exponents):
    """Return the bf16 bits, in the upper half, of each block's largest product; from 0x7F800000 where it is refused."""
    codes = largest_codes(words)
    bits = rounded_bf16(decoded(codes) * power(exponents))
    return tl.where((codes == 0x7F) | (exponents == 255), 0x7F800000, bits)


@triton.jit
def quotient(c, up, down):
    """Return c / -down, correctly rounded, where up is the correctly rounded 1 / -down.

    Law: tests/runtime/test_gpu_plans.py::test_every_quotient: every significand that a product and a scale may have.
    """
    q = c * up
    return tl.fma(tl.fma(q, down, c), up, q)


@triton.jit
def quantized_fast(words, exponents, scale, PTX: tl.constexpr, FNUZ: tl.constexpr):
    """Return words of the fp8 codes of products over a scale a row; scales are at least 2^-90.

    A block's power goes into what its codes are multiplied by: all of it is exact where the quotient is not zero in
    fp8. Elsewhere the limits keep infinities out: 2^30 is past what a quotient up to 448 has.
    """
    LIMIT: tl.constexpr = 1073741824.0
    up = tl.minimum(power(exponents) * tl.div_rn(1.0, scale)[:, None], LIMIT)[:, :, None]
    down = -tl.minimum(power(254 - exponents) * scale[:, None], LIMIT)[:, :, None]
    a, b, c, d = decoded_words(words, PTX)
    return encoded_words(
        quotient(a, up, down),
        quotient(b, up, down),
        quotient(c, up, down),
        quotient(d, up, down),
        words,
        PTX,
        FNUZ,
    )


@triton.jit
def divided(c, powers, scale):
    """Return the bf16 of c x 2^n over the scale, correctly rounded."""
    return tl.div_rn(rounded_bf16(c * powers).to(tl.float32, bitcast=True), scale)


@triton.jit
def quantized_slow(words, exponents, scale, FNUZ: tl.constexpr):
    """Return words of the fp8 codes of products over a scale a row, whatever the scale."""
    powers = power(exponents)[:, :, None]
    scales = scale[:, None, None]
    a, b, c, d = decoded_words(words, False)
    return encoded_words(
        divided(a, powers, scales),
        divided(b, powers, scales),
        divided(c, powers, scales),
        divided(d, powers, scales),
        words,
        False,
        FNUZ,
    )


@triton.jit
def quantized(words, exponents, scale, FAST: tl.constexpr, PTX: tl.constexpr, FNUZ: tl.constexpr):
    """Return words of the fp8 codes of products over a scale a row."""
    if FAST:
        result = quantized_fast(words, exponents, scale, PTX, FNUZ)
    else:
        result = quantized_slow(words, exponents, scale, FNUZ)
    return result


@triton.jit
def spots(index, strides, SIZES: tl.constexpr, INNER: tl.constexpr, TIMES: tl.constexpr):
    """Return where an axis's indices lie: the sum of its digits' strides; a digit of size 0 has no end."""
    offset = index.to(tl.int64) * 0
    for i in tl.static_range(len(SIZES)):
        digit = index // INNER[i]
        if SIZES[i] > 0:
            digit = digit % SIZES[i]
        offset += digit.to(tl.int64) * (strides[i] * TIMES[i])
    return offset


@triton.jit
def blocks_of(data, exponents, row, rows, block, blocks, MASKED: tl.constexpr):
    """Return the words [rows, blocks, 8] and exponents [rows, blocks] of some blocks of some rows."""
    at = row[:, None] * blocks + block[None, :]
    word = at[:, :, None] * 8 + tl.arange(0, 8)[None, None, :]
    if MASKED:
        held = (row < rows)[:, None] & (block < blocks)[None, :]
        words = tl.load(data + word, mask=held[:, :, None] & (tl.arange(0, 8) >= 0)[None, None, :], other=0)
        powers = tl.load(exponents + at, mask=held, other=127)
    else:
        words = tl.load(data + word)
        powers = tl.load(exponents + at)
    return words, powers.to(tl.int32)


@triton.jit
def store_words(
    out,
    words,
    row,
    rows,
    block,
    blocks,
    row_strides,
    unit_strides,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
    UNIT: tl.constexpr,
    ROW_SIZES: tl.constexpr,
    ROW_INNER: tl.constexpr,
    ROW_TIMES: tl.constexpr,
    UNIT_SIZES: tl.constexpr,
    UNIT_INNER: tl.constexpr,
    UNIT_TIMES: tl.constexpr,
    ROWS_INSIDE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Store words [rows, blocks, 8] in units of UNIT words, where the digits of rows and units say."""
    A_BLOCK: tl.constexpr = 8 // UNIT
    words = tl.reshape(words, [ROWS, BLOCKS * A_BLOCK, UNIT])
    unit = tl.min(block, axis=0) * A_BLOCK + tl.arange(0, BLOCKS * A_BLOCK)
    row_at = spots(row, row_strides, ROW_SIZES, ROW_INNER, ROW_TIMES)
    unit_at = spots(unit, unit_strides, UNIT_SIZES, UNIT_INNER, UNIT_TIMES)
    if ROWS_INSIDE:  # rows lie closer together than units: the warps write along them
        words = tl.permute(words, (1, 0, 2))
        at = unit_at[:, None] + row_at[None, :]
        held = (unit < blocks * A_BLOCK)[:, None] & (row < rows)[None, :]
    else:
        at = row_at[:, None] + unit_at[None, :]
        held = (row < rows)[:, None] & (unit < blocks * A_BLOCK)[None, :]
    lane = tl.arange(0, UNIT)[None, None, :]
    if MASKED:
        tl.store(out + at[:, :, None] + lane, words, mask=held[:, :, None] & (lane >= 0))
    else:
        tl.store(out + at[:, :, None] + lane, words)


@triton.jit
def mxfp8_to_ptpc(
    data,
    exponents,
    out,
    scales,
    lost,
    rows,
    blocks,
    row_strides,
    unit_strides,
    reciprocal,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
    CHUNKS: tl.constexpr,
    UNIT: tl.constexpr,
    ROW_SIZES: tl.constexpr,
    ROW_INNER: tl.constexpr,
    ROW_TIMES: tl.constexpr,
    UNIT_SIZES: tl.constexpr,
    UNIT_INNER: tl.constexpr,
    UNIT_TIMES: tl.constexpr,
    ROWS_INSIDE: tl.constexpr,
    MASKED: tl.constexpr,
    FAST: tl.constexpr,
    PTX: tl.constexpr,
    FNUZ: tl.constexpr,
):
    """Quantize ROWS rows: their largest products, then every code over the row's scale, stored where a layout says.

    CHUNKS of BLOCKS blocks make a row and stay in registers between the two; with CHUNKS 0 a row is read twice.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    largest = tl.zeros([ROWS], tl.int32)
    held = ()
    if CHUNKS > 0:
        for chunk in tl.static_range(CHUNKS):
            block = chunk * BLOCKS + tl.arange(0, BLOCKS)
            words, powers = blocks_of(data, exponents, row, rows, block, blocks, MASKED)
            largest = tl.maximum(largest, tl.max(largest_products(words, powers), axis=1))
            held = held + ((words, powers),)
    else:
        for first in tl.range(0, blocks, BLOCKS):
            block = first + tl.arange(0, BLOCKS)
            words, powers = blocks_of(data, exponents, row, rows, block, blocks, MASKED)
            largest = tl.maximum(largest, tl.max(largest_products(words, powers), axis=1))
    tl.store(lost, 1, mask=tl.max(largest, axis=0) >= 0x7F800000)
    scale = largest.to(tl.float32, bitcast=True) * reciprocal
    scale = tl.where(scale == 0, 1.0, scale)
    tl.store(lost + 1, 1, mask=tl.min(scale, axis=0) < 8.077935669463161e-28)  # 2^-90: past what is fast
    tl.store(scales + row, scale, mask=row < rows)
    if CHUNKS > 0:
        for chunk in tl.static_range(CHUNKS):
            block = chunk * BLOCKS + tl.arange(0, BLOCKS)
            q = quantized(held[chunk][0], held[chunk][1], scale, FAST, PTX, FNUZ)
            store_words(
                out, q, row, rows, block, blocks, row_strides, unit_strides, ROWS, BLOCKS, UNIT,
                ROW_SIZES, ROW_INNER, ROW_TIMES, UNIT_SIZES, UNIT_INNER, UNIT_TIMES, ROWS_INSIDE, MASKED,
            )  # fmt: skip
    else:
        for first in tl.range(0, blocks, BLOCKS):
            block = first + tl.arange(0, BLOCKS)
            words, powers = blocks_of(data, exponents, row, rows, block, blocks, MASKED)
            q = quantized(words, powers, scale, FAST, PTX, FNUZ)
            store_words(
                out, q, row, rows, block, blocks, row_strides, unit_strides, ROWS, BLOCKS, UNIT,
                ROW_SIZES, ROW_INNER, ROW_TIMES, UNIT_SIZES, UNIT_INNER, UNIT_TIMES, ROWS_INSIDE, MASKED,
            )  # fmt: skip


@triton.jit
def mxfp8_to_bf16(data, exponents, out, lost, total, BLOCKS: tl.constexpr):
    """Write the bf16 products of BLOCKS blocks of 32 codes; `lost` is set where one is refused."""
    block = tl.program_id(0).to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    at = block[:, None] * 32 + tl.arange(0, 32)[None, :]
    held = (block < total)[:, None] & (tl.arange(0, 32) >= 0)[None, :]
    codes = tl.load(data + at, mask=held, other=0).to(tl.int32)
    powers = tl.load(exponents + block, mask=block < total, other=127).to(tl.int32)
    magnitudes = codes & 0x7F
    bits = rounded_bf16(decoded(magnitudes) * power(powers)[:, None])
    refused = (bits >= 0x7F800000) | (magnitudes == 0x7F) | (powers == 255)[:, None]
    tl.store(out + at, ((bits >> 16) | ((codes & 0x80) << 8)).to(tl.int16), mask=held)
    tl.store(lost, 1, mask=tl.max(tl.max(refused.to(tl.int32), axis=1), axis=0) > 0)


@triton.jit
def fp32_to_bf16(values, out, lost, total, TILE: tl.constexpr):
    """Write the bf16 bits, to nearest even, of TILE fp32 values; `lost` is set where one is, or becomes, not finite."""
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    bits = tl.load(values + at, mask=at < total, other=0)
    tl.store(out + at, ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).to(tl.int16), mask=at < total)
    tl.store(lost, 1, mask=tl.max(bits & 0x7FFFFFFF, axis=0) >= 0x7F7F8000)

"""The bf16 product of every fp8 code and e8m0 scale, by integers alone: no flushing mode changes a bit."""

from __future__ import annotations

from functools import lru_cache

import torch

BLOCK = 32  # elements of k under one e8m0 scale
REFUSED = 0x7FFF  # a bf16 NaN, which no product is: marks the table's entries that have no bf16 value


def bf16_bits(codes: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    """Return the bf16 bit patterns [rows, k] as int16 of codes [rows, k] under exponents [rows, k / 32], both uint8."""
    rows, k = codes.shape
    base = exponents.to(torch.int32).mul_(256).unsqueeze(-1)
    index = (base + codes.view(rows, k // BLOCK, BLOCK)).view(-1)
    return torch.index_select(product_table(codes.device), 0, index).view(rows, k)


@lru_cache(maxsize=16)
def product_table(device: torch.device) -> torch.Tensor:
    """Return the bf16 bits of every product, at exponent * 256 + code, as int16: 128 KiB a device, made once."""
    with torch.inference_mode(False):
        exponent = torch.arange(256, dtype=torch.int32, device="cpu").view(256, 1)
        code = torch.arange(256, dtype=torch.int32, device="cpu").view(1, 256)
        field, fraction = (code >> 3) & 15, code & 7
        # |value| = digits * 2^power, digits < 16, before the scale
        digits = torch.where(field > 0, fraction + 8, fraction)
        power = torch.clamp(field, min=1) - 10
        top = (digits > 1).int() + (digits > 3).int() + (digits > 7).int()  # of the highest bit
        lead = power + exponent - 127 + top  # |product| is in [2^lead, 2^(lead + 1))
        normal = ((lead + 127) << 7) + ((digits << (7 - top)) & 0x7F)
        shift = power + exponent + 6  # digits * 2^shift counts the subnormal unit, 2^-133
        right = torch.clamp(-shift, min=0)
        half_even = (1 << right) // 2 - 1 + ((digits >> right) & 1)
        subnormal = torch.where(shift >= 0, digits << torch.clamp(shift, 0, 8), (digits + half_even) >> right)
        # without a shift half_even would be (digits & 1) - 1: that branch is not taken
        magnitude = torch.where(digits == 0, 0, torch.where(lead >= -126, normal, subnormal))
        bits = magnitude - ((code >> 7) << 15)  # the sign bit of an int16
        refused = (exponent == 255) | ((code & 0x7F) == 0x7F) | ((digits > 0) & (lead > 127))
        return torch.where(refused, REFUSED, bits).to(torch.int16).view(-1).to(device)

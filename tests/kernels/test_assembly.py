"""What is counted in assembly: each kind of instruction, the innermost loops alone, the loads from a scalar base."""

from __future__ import annotations

from tests.kernels.assembly import Counts, count, has_scalar_base, kernels, loads

ASSEMBLY = """
	.globl	nest
nest:                                   ; @nest
; %bb.0:
	s_load_dwordx2 s[0:1], s[4:5], 0x0
	v_mov_b32_e32 v1, 0
	s_waitcnt lgkmcnt(0)
.LBB0_1:                                ; =>This Loop Header: Depth=1
                                        ;     Child Loop BB0_2 Depth 2
	s_add_i32 s2, s2, 1
.LBB0_2:                                ;   Parent Loop BB0_1 Depth=1
                                        ; =>  This Inner Loop Header: Depth=2
	global_load_dwordx4 v[2:5], v1, s[0:1] offset:1024
	v_mfma_f32_16x16x32_fp8_fp8 v[6:9], v[2:3], v[4:5], v[6:9]
	s_cbranch_scc1 .LBB0_4
; %bb.3:                                ;   in Loop: Header=BB0_2 Depth=2
	v_add_u32_e32 v1, 16, v1
	s_cmp_lg_u32 s3, 0
	s_cbranch_scc1 .LBB0_2
.LBB0_4:                                ;   in Loop: Header=BB0_1 Depth=1
	flat_load_dword v10, v[12:13]
	global_load_dword v10, v[12:13], off
	s_endpgm
.Lfunc_end0:
	.size	nest, .Lfunc_end0-nest
	.amdhsa_kernel nest
amdhsa.kernels:
  - .args:           []
    .group_segment_fixed_size: 64
    .name:           nest
    .private_segment_fixed_size: 16
    .sgpr_spill_count: 1
    .vgpr_spill_count: 2
amdhsa.target:   amdgcn-amd-amdhsa--gfx950
"""


def test_a_kernel_is_read_from_its_label_to_its_end() -> None:
    kernel = kernels(ASSEMBLY)["nest"]
    assert kernel.lines[0] == "s_load_dwordx2 s[0:1], s[4:5], 0x0" and kernel.lines[-1] == "s_endpgm"
    assert (kernel.lds_bytes, kernel.scratch_bytes, kernel.sgpr_spills, kernel.vgpr_spills) == (64, 16, 1, 2)


def test_instructions_are_counted_by_kind() -> None:
    assert count(kernels(ASSEMBLY)["nest"].lines) == Counts(vector=2, scalar=2, matrix=1, loads=3)


def test_only_the_innermost_loop_is_inner() -> None:
    assert count(kernels(ASSEMBLY)["nest"].inner) == Counts(vector=1, scalar=1, matrix=1, loads=1)


def test_a_scalar_base_is_told_from_an_address_a_lane() -> None:
    lines = kernels(ASSEMBLY)["nest"].lines
    assert [has_scalar_base(line) for line in loads(lines, "global_load_dwordx4")] == [True]
    assert [has_scalar_base(line) for line in loads(lines, "global_load_dword")] == [False]

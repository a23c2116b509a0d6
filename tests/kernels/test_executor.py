"""The host wave executor: every report with its place, what operations give, and that no order is kept by chance."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.generated.headers import ZIG, must_compile
from tests.kernels.executor import FLAGS, HERE, HOST, Launch, load_library, write_maps

SOURCE = "executor_cases.cpp"
Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Executor:
    """The cases as a library, and the places that its source marks."""

    library: ctypes.CDLL
    places: dict[str, str]

    def run(self, case: str, *, report: str = "", **launch: Any) -> Numbers:
        """Return what a case wrote; its report must be `report`, in which `[mark]` stands for the place of a mark."""
        found, numbers = self.try_run(case, **launch)
        for mark, place in self.places.items():
            report = report.replace(f"[{mark}]", place)
        assert found == report
        return numbers

    def try_run(self, case: str, *, grid: tuple[int, int] = (1, 1), threads: int = 512, wave: int = 64,
                lds: int = 4096, seed: int = 0) -> tuple[str, Numbers]:  # fmt: skip
        """Return the report of a case, and what it wrote."""
        numbers = np.full(max(grid[0] * grid[1] * threads * 2, 1), -999, dtype=np.int32)
        run = self.library.run_case
        run.restype = ctypes.c_char_p
        launch = Launch(*grid, threads, wave, lds, seed)
        report = run(case.encode(), ctypes.byref(launch), numbers.ctypes.data_as(ctypes.c_void_p))
        return report.decode(), numbers


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Executor:
    """Return the cases, compiled once."""
    lines = (HERE / SOURCE).read_text().splitlines()
    places = {}
    for number, line in enumerate(lines, 1):
        mark = line.partition("// [")[2].rstrip("]")
        # clang and g++ name the line at which the arguments of a call begin; a mark may stand on the line after it.
        places[mark] = f"{SOURCE}:{number if line.lstrip().startswith(('wave', 'if')) else number - 1}"
    return Executor(load_library(SOURCE, write_maps(tmp_path_factory.mktemp("executor"))), places)


@pytest.fixture(params=[64, 32])
def wave(request: pytest.FixtureRequest) -> int:
    """Return the lanes of a wave."""
    return int(request.param)


@pytest.fixture
def os_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Return a function that sets on how many OS threads launches run."""
    return lambda count: monkeypatch.setenv("MONO_HOST_THREADS", str(count))


# --- reports ---

REPORTS = {
    "diverge_in_one_wave": "lanes 0-31 wait at shuffle_xor, [diverge: shuffle]; "
    "lanes 32-63 at barrier, [diverge: barrier]; block 3,0 wave 2",
    "one_operation_at_two_sites": "lanes 0-15, 20, 48-63 wait at ballot, [two sites: first]; "
    "lanes 16-19, 21-47 at ballot, [two sites: second]; block 0,0 wave 0",
    "another_count_of_rounds": "lanes 0-4, 6-63 wait at barrier, [rounds: barrier]; "
    "lane 5 at uniform, [rounds: uniform]; block 0,0 wave 0",
    "return_before_a_wave_operation": "lanes 0-6, 8-63 wait at ballot, [returned: ballot]; lane 7 returned; "
    "block 0,0 wave 0",
    "return_before_a_barrier": "lanes 0-35 wait at barrier, [returned: barrier]; lanes 36-63 returned; "
    "block 0,0 wave 1",
    "a_wave_returns_before_a_barrier": "wave 0 returned; waves 1-7 wait at barrier, [returned wave: barrier]; "
    "block 0,0",
    "a_wave_meets_one_barrier_less": "waves 0-3, 5-7 wait at barrier, [one less: barrier]; wave 4 returned; block 0,0",
    "barriers_at_two_sites": "waves 0-2 wait at barrier, [two barriers: first]; "
    "waves 3-7 at barrier, [two barriers: second]; block 0,0",
    "not_uniform": "uniform, [not uniform]: lanes 0-3 hold -1; lanes 4-63 hold 8; block 0,0 wave 0",
    "a_wrapper_hands_on_its_site": "lanes 0-7 wait at shuffle_xor, [wrapper: first]; "
    "lanes 8-63 at shuffle_xor, [wrapper: second]; block 0,0 wave 0",
    "two_instructions": "lane 0 waits at mfma_f32_16x16x32_fp8_fp8, [two instructions: dense]; "
    "lanes 1-63 at mfma_scale_f32_16x16x128_f8f6f4, [two instructions: scaled]; block 0,0 wave 0",
    "shuffle_with_no_lane": "shuffle_xor, [no lane]: lane 0 ^ mask 64 is no lane; block 0,0 wave 0",
    "write_past_the_lds": "wrote past the LDS: byte 4101 of 4096; block 1,0",
    "write_before_the_lds": "wrote past the LDS: byte -4 of 4096; block 0,0",
    "launch_in_a_kernel": "a kernel can not launch another; block 0,0 wave 0",
}
OF_A_BLOCK = (
    "return_before_a_barrier",
    "a_wave_returns_before_a_barrier",
    "a_wave_meets_one_barrier_less",
    "barriers_at_two_sites",
)


@pytest.mark.parametrize("case", REPORTS)
def test_a_report_names_lanes_site_and_block(case: str, executor: Executor) -> None:
    threads = 512 if case in OF_A_BLOCK or case == "diverge_in_one_wave" else 64
    for seed in range(3):
        executor.run(case, report=REPORTS[case], grid=(5, 2), threads=threads, seed=seed)
    executor.run("coordinates", grid=(5, 2))  # the process goes on


def test_the_lds_of_a_launch_is_large_enough(executor: Executor) -> None:
    report = "lds, [lds]: 4096 bytes, but the launch gives 4092; block 0,0 wave 0"
    executor.run("lds_too_large", report=report, threads=64, lds=4092)
    executor.run("lds_too_large", threads=64)


def test_a_matrix_instruction_needs_64_lanes(executor: Executor) -> None:
    report = "mfma_f32_16x16x32_fp8_fp8, [mfma]: needs a wave of 64 lanes, not 32; block 0,0 wave 0"
    executor.run("mfma_alone", report=report, threads=32, wave=32)
    executor.run("mfma_alone", threads=64)


def test_a_report_of_many_groups_is_short(executor: Executor) -> None:
    report, _ = executor.try_run("uniform_nowhere", threads=64)
    assert report.endswith("lane 4 holds 4; lane 5 holds 5; and others; block 0,0 wave 0")


@pytest.mark.parametrize(
    ("launch", "report"),
    [
        ({"wave": 48}, "wave is 48, not 64 or 32"),
        ({"threads": 100}, "threads is 100, not a multiple of the wave, up to 1024"),
        ({"threads": 0}, "threads is 0, not a multiple of the wave, up to 1024"),
        ({"threads": 2048}, "threads is 2048, not a multiple of the wave, up to 1024"),
        ({"grid": (0, 1)}, "grid_x is 0, not 1 or more"),
        ({"grid": (1, -1)}, "grid_y is -1, not 1 or more"),
        ({"lds": -1}, "lds_bytes is -1, not 0 to 2^30"),
    ],
)
def test_a_launch_that_can_not_be_is_refused(launch: dict[str, Any], report: str, executor: Executor) -> None:
    assert executor.try_run("coordinates", **launch)[0] == f"launch: {report}"


@pytest.mark.parametrize("count", ["0", "-3", "two", "4x", ""])
def test_a_number_of_os_threads_that_is_none_is_refused(
    count: str, executor: Executor, os_threads: Callable[[object], None]
) -> None:
    os_threads(count)
    assert "MONO_HOST_THREADS" in executor.try_run("coordinates")[0]


def test_the_report_is_that_of_the_first_block_on_any_number_of_os_threads(
    executor: Executor, os_threads: Callable[[object], None]
) -> None:
    reports = set()
    for count in (1, 2, 4):
        os_threads(count)
        reports |= {executor.try_run("odd_blocks_fail", grid=(40, 1), threads=64, seed=5)[0] for _ in range(3)}
    assert [report.rpartition("; ")[2] for report in reports] == ["block 3,0 wave 0"]


# --- values ---


def test_threads_and_blocks_are_numbered(executor: Executor, wave: int) -> None:
    found = executor.run("coordinates", grid=(3, 2), threads=128, wave=wave)[: 3 * 2 * 128].reshape(2, 3, 128)
    y, x, thread = np.indices((2, 3, 128))
    assert np.array_equal(found, x * 1000000 + y * 10000 + thread)


def test_shuffle_xor_gives_what_the_other_lane_holds(executor: Executor, wave: int) -> None:
    found = executor.run("exchange", grid=(2, 1), wave=wave, seed=3)[:1024].reshape(2, 512)
    thread = np.arange(512)
    masks = [1 << bit for bit in range(wave.bit_length() - 1)]
    assert np.array_equal(found, [sum((thread ^ mask) * mask for mask in masks)] * 2)


def test_ballot_gives_a_bit_a_lane(executor: Executor, wave: int) -> None:
    words = executor.run("votes", threads=256, wave=wave)[:512].view(np.uint32).reshape(256, 2).astype(np.uint64)
    lane, index = np.arange(wave), np.arange(256) // wave
    expected = [sum(1 << int(at) for at in lane if at % 3 == w % 3) for w in range(256 // wave)]
    assert (words[:, 0] | (words[:, 1] << np.uint64(32))).tolist() == [expected[w] for w in index]


def test_uniform_gives_the_value_of_the_wave(executor: Executor, wave: int) -> None:
    assert executor.run("uniform_values", wave=wave)[:512].tolist() == [t // wave - 3 for t in range(512)]


def test_a_sum_over_the_wave(executor: Executor, wave: int) -> None:
    found = executor.run("sums", wave=wave)[:512]
    assert np.array_equal(found, np.repeat(np.arange(512).reshape(-1, wave).sum(axis=1), wave))


def test_lanes_may_return_at_different_places_after_the_last_operation(executor: Executor, wave: int) -> None:
    assert executor.run("finish_apart", wave=wave)[:512].tolist() == [wave, wave + 1] * 256


def test_a_barrier_is_one_of_all_waves(executor: Executor, wave: int) -> None:
    v = np.arange(6 * 512, dtype=np.int64).reshape(6, 512)
    for _ in range(5):
        v = (v + 3 * np.roll(v, -65, axis=1)) % 1000003
    for seed in range(8):
        assert np.array_equal(executor.run("ring", grid=(6, 1), wave=wave, seed=seed)[: 6 * 512], v.ravel())


def test_the_lds_is_poisoned_before_every_block(executor: Executor, os_threads: Callable[[object], None]) -> None:
    os_threads(1)
    assert not executor.run("poison", grid=(7, 1))[: 7 * 512].any()


def test_results_do_not_depend_on_the_number_of_os_threads(
    executor: Executor, os_threads: Callable[[object], None]
) -> None:
    found = []
    for count in (1, 2, 5):
        os_threads(count)
        cases = ("ring", "racy_ring", "racy_waves", "racy_lanes", "sums")
        found.append([executor.run(case, grid=(13, 3), seed=9).tolist() for case in cases])
    assert found[0] == found[1] == found[2]


# --- orders ---


@pytest.mark.parametrize("case", ["order", "order_after_a_barrier"])
def test_the_seed_shuffles_lanes_and_waves(case: str, executor: Executor, wave: int) -> None:
    orders = [executor.run(case, wave=wave, seed=seed)[:512] for seed in range(12)]
    assert all(np.array_equal(np.sort(order), np.arange(512)) for order in orders)
    assert len({order.tobytes() for order in orders}) == len(orders)
    assert len({int(order[0]) // wave for order in orders}) > 3, "the wave that goes first"
    assert len({int(order[0]) % wave for order in orders}) > 6, "the lane that goes first"
    pairs = np.array([np.argsort(order) for order in orders])  # when each thread came
    early = (pairs[:, 1:] > pairs[:, :-1]).mean(axis=0)  # a share of the seeds in which neighbours came in order
    assert early.min() < 0.5 < early.max() and 0.4 < early.mean() < 0.6
    assert np.array_equal(executor.run(case, wave=wave, seed=4)[:512], orders[4])


def test_waves_overtake_each_other_between_barriers(executor: Executor, wave: int) -> None:
    order = executor.run("order_of_waves", wave=wave)[: 8 * 512 // wave]
    assert np.array_equal(np.sort(order), np.repeat(np.arange(512 // wave), 8))
    changes = int((np.diff(order) != 0).sum())
    assert 512 // wave < changes < 8 * 512 // wave - 1


@pytest.mark.parametrize("case", ["racy_ring", "racy_waves", "racy_lanes"])
def test_a_race_gives_other_results_under_other_seeds(case: str, executor: Executor, wave: int) -> None:
    found = {executor.run(case, wave=wave, seed=seed)[:512].tobytes() for seed in range(4)}
    assert len(found) > 1
    again = {executor.run(case, wave=wave, seed=seed)[:512].tobytes() for seed in range(4)}
    assert found == again


# --- builds ---


def test_the_fallback_of_fibers_gives_the_same(executor: Executor, tmp_path: Path) -> None:
    other = Executor(load_library(SOURCE, write_maps(tmp_path), "-DMONO_HOST_UCONTEXT"), executor.places)
    for case in ("ring", "racy_waves", "order"):
        assert np.array_equal(other.run(case, seed=2), executor.run(case, seed=2))
    for case in ("not_uniform", "barriers_at_two_sites"):
        assert other.try_run(case)[0] == executor.try_run(case)[0] != ""


def test_the_headers_compile_without_exceptions_and_under_clang(tmp_path: Path) -> None:
    includes = (f"-I{HOST}", f"-I{write_maps(tmp_path)}", "-fsyntax-only", str(HERE / SOURCE))
    must_compile(["g++", *FLAGS, "-fno-exceptions", "-fno-rtti", *includes], tmp_path)
    of_zig = Path(next(p for p in sys.path if (Path(p) / "ziglang").is_dir())) / "ziglang" / "lib" / "include"
    must_compile([*ZIG, *FLAGS, "-Xclang", "-internal-isystem", "-Xclang", os.fspath(of_zig), *includes], tmp_path)


def test_every_case_has_defined_behaviour(tmp_path: Path) -> None:
    program = tmp_path / "cases"
    options = ("-O0", "-fsanitize=undefined", "-fno-sanitize-recover", "-DMONO_TEST_MAIN")
    must_compile(["g++", *FLAGS, *options, f"-I{HOST}", f"-I{write_maps(tmp_path)}", str(HERE / SOURCE),
                  "-o", str(program)], tmp_path)  # fmt: skip
    said = must_compile([str(program)], tmp_path)
    assert "runtime error" not in said and "block 3,0 wave 2" in said

"""The launcher: checks a layer and its activations, and enqueues the stages on torch's current stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch

from mono_gen.integrations.generated import generated_folder
from mono_gen.kernels.build import Build, build_library
from mono_gen.kernels.checks import Expected, require_number, require_tensors, tokens_of
from mono_gen.kernels.library import Library, Value
from mono_gen.runtime import recheck_table, require_ids
from mono_gen.runtime.errors import MonoUnsupported, Problem, refuse, show

TOP_K = 4  # experts a token, as the spec requires of the layer
EPS = 1e-6  # rms_norm_eps of the model's configuration

BF16 = torch.bfloat16


def load(
    backend: str = "host",
    *,
    header: Path | str | None = None,
    struct: str = "SparseMoeLayer",
    defines: Sequence[str] = (),
    maps: str = "",
) -> Kernels:
    """Return the launcher of the stages, compiled for a backend: "host", "hip" or "cuda".

    header:  the generated header; that of mono-gen's own minimax_m3 where none is named.
    struct:  the struct of the spec that the stages read: SparseMoeLayer, or one that extends it.
    defines: further macros of the build.
    maps:    the operand maps that the host models, as a header's text; the table's own where none is given.
    Raises:  MonoUnsupported, where it cannot be built.
    """
    path = Path(header) if header is not None else generated_folder() / "minimax_m3.hpp"
    build = Build(backend, path, struct, tuple(defines), maps=maps)
    return Kernels(backend, path, Library(build_library(build)))


class Kernels:
    """The stages of one library. Each takes a layer, a generated struct, and activations, and returns new tensors.

    Activations and what comes back are bf16 unless said otherwise, row-major, on the layer's device; S is 1 to 16
    tokens. `out`, where given, is what to write, in the order in which it comes back. Nothing is copied, and
    nothing waits for the device but a layer's first `shared`; on the host a stage is done when it returns.

    Every stage raises MonoUnsupported, with every problem, where the layer is not of the struct that the library was
    compiled for or a tensor is not what the stage takes, and KernelFault where a launch fails.
    """

    def __init__(self, backend: str, header: Path, library: Library) -> None:
        self.backend = backend
        self.header = header
        self.library = library
        self.subject = f"mono kernels ({backend})"
        self._tables: WeakKeyDictionary[Any, tuple[torch.Tensor, tuple[int, ...]]] = WeakKeyDictionary()

    def set_seed(self, seed: int) -> None:
        """Take another order of lanes and waves in what comes: of the host alone, to show what a barrier is missing."""
        if self.backend != "host":
            raise refuse(self.subject, "seed", "the host's executor", self.backend)
        self.library.set_seed(seed)

    def qkv(
        self, layer: Any, ar: torch.Tensor, res: torch.Tensor, *, eps: float = EPS, out: Sequence[torch.Tensor] = ()
    ) -> tuple[torch.Tensor, ...]:
        """Return (h, q, k, v, index_q, index_k): h = bf16(ar + res), and the projection of its norm, before the heads'.

        Shapes: ar, res, h [S, HIDDEN]; the others [S, rows of their segment].
        """
        s = self._begin(layer, "ar", ar)
        row = Expected((s, layer.g_in.shape[0]), BF16)
        parts = {name: Expected((s, end - begin), BF16) for name, (begin, end) in layer.segments["w_qkv"].items()}
        made = self._checked(layer, {"ar": (ar, row), "res": (res, row)}, {"h": row, **parts}, out)
        values = {"ar": ar, "res": res, **made, **self._fp8(ar), "tokens": s}
        self._run("norm", layer, {**values, "eps": require_number(self.subject, "eps", eps)})
        self._run("qkv", layer, values)
        return tuple(made.values())

    def head(
        self,
        layer: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        index_q: torch.Tensor,
        index_k: torch.Tensor,
        positions: torch.Tensor,
        *,
        eps: float = EPS,
        out: Sequence[torch.Tensor] = (),
    ) -> tuple[torch.Tensor, ...]:
        """Return (q, k, index_q, index_k) after each head's norm and the rotation of its first dims.

        Shapes: as `qkv` gives them; positions int64 [S]. A position that the cache does not hold makes its token NaN.
        """
        s = self._begin(layer, "q", q)
        given = {"q": q, "k": k, "index_q": index_q, "index_k": index_k}
        segments = layer.segments["w_qkv"]
        rows = {name: Expected((s, segments[name][1] - segments[name][0]), BF16) for name in given}
        tensors = {name: (t, rows[name]) for name, t in given.items()}
        tensors["positions"] = (positions, Expected((s,), torch.int64))
        made = self._checked(layer, tensors, {f"{name}_out": rows[name] for name in given}, out)
        values = {**given, "positions": positions, **made, "tokens": s, "length": layer.cos_sin.shape[0]}
        self._run("head", layer, {**values, "eps": require_number(self.subject, "eps", eps)})
        return tuple(made.values())

    def o_proj(
        self, layer: Any, attn: torch.Tensor, residual: torch.Tensor, *, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return a = bf16(attn w_o + residual).

        Shapes: attn [S, columns of w_o]; residual and a [S, HIDDEN].
        """
        s = self._begin(layer, "attn", attn)
        hidden, columns = layer.w_o.shape
        row = Expected((s, hidden), BF16)
        tensors = {"attn": (attn, Expected((s, columns), BF16)), "residual": (residual, row)}
        made = self._checked(layer, tensors, {"a": row}, _listed(out))
        values = {"attn": attn, "residual": residual, **made, **self._fp8(attn), "tokens": s}
        self._run("fp8", layer, values)
        self._run("o_proj", layer, values)
        return made["a"]

    def router(
        self, layer: Any, a: torch.Tensor, route_scale: float, *, eps: float = EPS, out: Sequence[torch.Tensor] = ()
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return (xn, ids, weights): the norm of a, its four best experts, best first, and their weights.

        Shapes: a and xn [S, HIDDEN]; ids int32 and weights fp32 [S, 4].
        """
        s = self._begin(layer, "a", a)
        row, routed = Expected((s, layer.g_post.shape[0]), BF16), layer.gate.shape[0]
        made = self._checked(layer, {"a": (a, row)}, {"xn": row, **self._slots(s)}, out)
        logits = torch.empty((s, routed), dtype=torch.float32, device=a.device)
        values = {**made, "a": a, "logits": logits, "tokens": s, "eps": require_number(self.subject, "eps", eps)}
        values["route_scale"] = require_number(self.subject, "route_scale", route_scale)
        self._run("logits", layer, values)
        self._run("rank", layer, values)
        return made["xn"], made["ids"], made["weights"]

    def moe(
        self,
        layer: Any,
        xn: torch.Tensor,
        ids: torch.Tensor,
        weights: torch.Tensor,
        limit: float,
        *,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the experts' weighted sum, the shared one with weight 1 where it is fused into their table.

        Shapes: xn and out [S, HIDDEN]; ids int32 and weights fp32 [S, 4]. An id that names no expert makes its token
        NaN.
        """
        s = self._begin(layer, "xn", xn)
        row, slots = Expected((s, layer.g_post.shape[0]), BF16), self._slots(s)
        tensors = {"xn": (xn, row), "ids": (ids, slots["ids"]), "weights": (weights, slots["weights"])}
        made = self._checked(layer, tensors, {"out": row}, _listed(out))
        values = {"xn": xn, "ids": ids, "weights": weights, **made, **self._mx(xn), "tokens": s}
        values |= _empty(self._mid(layer, s, (TOP_K + 1,)), xn.device)
        values |= {"limit": require_number(self.subject, "limit", limit), "fused": int(_is_fused(layer))}
        for stage in ("mx", "up_gate", "down"):
            self._run(stage, layer, {**values, "early": 1})  # nothing writes ids and weights between up_gate and down
        return made["out"]

    def up_gate(
        self, layer: Any, xn: torch.Tensor, ids: torch.Tensor, limit: float, *, out: Sequence[torch.Tensor] = ()
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (mid, scales), MXFP8 of each token's slots: its four experts, then the shared one where it is fused.

        Shapes: mid uint8 [S, 5, INTER] of fp8, or twice as many bytes where the backend's product converts them once;
        scales uint8 [S, 5, INTER / 32] of e8m0. A slot that no expert has written holds anything. `down` takes both.
        """
        s = self._begin(layer, "xn", xn)
        tensors = {"xn": (xn, Expected((s, layer.g_post.shape[0]), BF16)), "ids": (ids, self._slots(s)["ids"])}
        made = self._checked(layer, tensors, self._mid(layer, s, (TOP_K + 1,)), out)
        values = {"xn": xn, "ids": ids, **made, **self._mx(xn), "tokens": s, "fused": int(_is_fused(layer))}
        values["limit"] = require_number(self.subject, "limit", limit)
        self._run("mx", layer, values)
        self._run("up_gate", layer, values)
        return made["mid"], made["mid_scales"]

    def down(
        self,
        layer: Any,
        mid: torch.Tensor,
        mid_scales: torch.Tensor,
        ids: torch.Tensor,
        weights: torch.Tensor,
        *,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the weighted sum of `up_gate`'s slots through w2, [S, HIDDEN]."""
        s = self._begin(layer, "ids", ids)
        slots, rows = self._slots(s), self._mid(layer, s, (TOP_K + 1,))
        tensors = {"ids": (ids, slots["ids"]), "weights": (weights, slots["weights"])}
        tensors |= {"mid": (mid, rows["mid"]), "mid_scales": (mid_scales, rows["mid_scales"])}
        made = self._checked(layer, tensors, {"out": Expected((s, layer.g_post.shape[0]), BF16)}, _listed(out))
        values = {"mid": mid, "mid_scales": mid_scales, "ids": ids, "weights": weights, **made}
        self._run("down", layer, {**values, "tokens": s, "fused": int(_is_fused(layer)), "early": 0})
        return made["out"]

    def shared(self, layer: Any, xn: torch.Tensor, limit: float, *, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return the separate MXFP8 shared expert of xn, [S, HIDDEN]; the caller adds it to `moe`'s."""
        s = self._begin(layer, "xn", xn)
        row = Expected((s, layer.g_post.shape[0]), BF16)
        made = self._checked(layer, {"xn": (xn, row)}, {"out": row}, _listed(out))
        table = self._shared_table(layer)
        mid = _empty(self._mid(layer, s, ()), xn.device)
        values: dict[str, Value] = {"xn": xn, **mid, **made, **self._mx(xn), "tokens": s}
        values["limit"] = require_number(self.subject, "limit", limit)
        self._run("mx", layer, values)
        self._run("shared_up_gate", layer, values, table)
        self._run("shared_down", layer, values, table)
        return made["out"]

    def _begin(self, layer: Any, name: str, first: Any) -> int:
        """Return S, of a layer that the library was compiled for, on the backend's device."""
        if not hasattr(layer, "struct_id") or isinstance(layer, type):
            raise refuse(self.subject, "layer", "a generated struct, from from_layer", show(layer))
        require_ids(layer, self.subject, struct_id=self.library.struct_id, field_ids=self.library.field_ids)
        wanted = "cpu" if self.backend == "host" else "cuda"
        if layer.g_in.device.type != wanted:
            help_ = f"load(backend=...) for {layer.g_in.device.type}, or a layer on {wanted}"
            problem = Problem("layer", "device", wanted, str(layer.g_in.device), help_)
            raise MonoUnsupported(self.subject, (problem,))
        return tokens_of(self.subject, name, first)

    def _checked(
        self,
        layer: Any,
        given: dict[str, tuple[Any, Expected]],
        outputs: dict[str, Expected],
        out: Sequence[torch.Tensor] | torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Return the outputs by name, new ones where none are given, once everything is what the stage takes."""
        device = layer.g_in.device
        if isinstance(out, torch.Tensor):
            raise refuse(self.subject, "out", ", ".join(outputs), "one tensor", "give a tuple, in this order")
        if not out:
            require_tensors(self.subject, device, given)
            return _empty(outputs, device)
        if len(out) != len(outputs):
            raise refuse(self.subject, "out", ", ".join(outputs), f"{len(out)} tensors")
        made = dict(zip(outputs, out, strict=True))
        written = {name: (made[name], e) for name, e in outputs.items()}
        require_tensors(self.subject, device, {**given, **written}, tuple(outputs))
        return made

    def _run(self, stage: str, layer: Any, values: dict[str, Any], table: Sequence[int] = ()) -> None:
        """Enqueue a stage: every name that `values` does not hold is a field of the layer, or of the table."""
        named = {n: values[n] if n in values else getattr(layer, n) for _, n in self.library.words(stage)}
        device = layer.g_in.device
        if device.type == "cpu":
            self.library.run(stage, named, 0, table)
            return
        with torch.cuda.device(device):
            self.library.run(stage, named, torch.cuda.current_stream(device).cuda_stream, table)

    def _fp8(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return where a stage puts activations as fp8 over one scale a token."""
        rows, k = x.shape
        x8 = torch.empty((rows, k * self.library.activation_bytes), dtype=torch.uint8, device=x.device)
        return {"x8": x8, "x_scale": torch.empty(rows, dtype=torch.float32, device=x.device)}

    def _mx(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return where a stage puts activations as MXFP8."""
        rows, k = x.shape
        x8 = torch.empty((rows, k * self.library.activation_bytes), dtype=torch.uint8, device=x.device)
        return {"x8": x8, "x_scales": torch.empty((rows, k // 32), dtype=torch.uint8, device=x.device)}

    def _slots(self, s: int) -> dict[str, Expected]:
        """Return what router hands on: the experts of each token, and their weights."""
        return {"ids": Expected((s, TOP_K), torch.int32), "weights": Expected((s, TOP_K), torch.float32)}

    def _mid(self, layer: Any, s: int, slots: tuple[int, ...]) -> dict[str, Expected]:
        """Return what up_gate hands to down: rows of MXFP8."""
        begin, end = layer.segments["w13"]["gate"]
        rows = (s, *slots)
        return {
            "mid": Expected((*rows, (end - begin) * self.library.activation_bytes), torch.uint8),
            "mid_scales": Expected((*rows, (end - begin) // 32), torch.uint8),
        }

    def _shared_table(self, layer: Any) -> tuple[int, ...]:
        """Return the addresses of `sh_args`, in the spec's order, read once a layer and looked at again every time."""
        if layer not in self._tables:
            if self.backend != "host" and torch.cuda.is_current_stream_capturing():
                help_ = "call shared once before the capture: its table is read back from the device"
                raise refuse(self.subject, "shared", "a layer whose sh_args was read", "a capture under way", help_)
            table = layer.sh_args()
            if table is None:
                found = "none: it is fused into the routed experts' table" if _is_fused(layer) else "none"
                raise refuse(self.subject, "shared", "a separate shared expert", found, "moe runs a fused one")
            self._tables[layer] = table, tuple(table.tolist())
        table, addresses = self._tables[layer]
        recheck_table(table)
        return addresses


def _empty(expected: Mapping[str, Expected], device: torch.device) -> dict[str, torch.Tensor]:
    """Return new tensors by name."""
    return {name: torch.empty(e.shape, dtype=e.dtype, device=device) for name, e in expected.items()}


def _listed(out: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Return the one output that was given, or none."""
    return () if out is None else (out,)


def _is_fused(layer: Any) -> bool:
    """Return whether the experts' table holds the shared expert after the routed ones."""
    return bool(layer.w13.shape[0] > layer.gate.shape[0])

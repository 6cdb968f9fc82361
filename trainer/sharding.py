"""Weights shared out among the processes of a training: each holds a part, and a layer is whole only while it computes.

This is torch's `fully_shard`. Accelerate's way to the same takes no processes on CPUs, so it could not be tested here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .devices import Device
    from .start import Line

_MIB: Final = 1 << 20


def shard_model(model: Any, device: Device) -> dict[str, object]:
    """Share out a model's weights, layer by layer. Returns the line that says how much this process holds."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    whole = _bytes(model)
    mesh = init_device_mesh("cuda" if device.is_cuda else "cpu", (device.processes,))
    for layer in model.get_base_model().base_model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return {"kind": "shards", "whole_mib": round(whole / _MIB, 3), "held_mib": round(_bytes(model) / _MIB, 3)}


def gather_trained(model: Any) -> None:
    """Make the trained weights of a model whole again in every process; all of them have to call it.

    Those of a model that was not shared out stay as they are.
    """
    import torch
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor

    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            if isinstance(weight, DTensor) and weight.requires_grad:
                setattr(module, name, torch.nn.Parameter(weight.full_tensor()))


def sharded_trainer(kind: Any, device: Device) -> Any:
    """Subclass a trainer of transformers so that its model is shared out before its optimizer is made."""

    class Sharded(kind):  # type: ignore[misc]
        """Trains a model of which each process holds a part. `shards` is the line that says how much."""

        shards: Line | None = None

        def create_optimizer(self, *given: Any, **named: Any) -> Any:
            if self.shards is None:
                self.shards = shard_model(self.model, device)
                self.accelerator.prepare_model = lambda model, **_rest: model  # it would add replicas on top
            return super().create_optimizer(*given, **named)

    return Sharded


def _bytes(model: Any) -> int:
    """Bytes of a model's weights that are in this process."""
    own = (each.to_local() if hasattr(each, "to_local") else each for each in model.parameters())
    return sum(each.numel() * each.element_size() for each in own)

"""Small seeded models, and a picture of everything that a capture must leave as it was."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.overrides
import transformers
from torch import nn
from torch.nn.attention import flex_attention
from transformers.modeling_utils import AttentionInterface

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

VOCABULARY = 90
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def spread(model: nn.Module, seed: int = 0) -> nn.Module:
    """Give the model weights under which heads look at something; fresh ones are nearly uniform."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, 0, 0.12, generator=generator)
    return model.eval()


def build(name: str, config: Any, backend: str | None = None) -> Any:
    """A transformers model by class name, on its default backend or another, always alike."""
    torch.manual_seed(0)
    options = {} if backend is None else {"attn_implementation": backend}
    return spread(getattr(transformers, name)._from_config(copy.deepcopy(config), **options))


def bert_config(**changes: Any) -> Any:
    return transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=36, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=40, **changes,
    )  # fmt: skip


def gpt2_config(**changes: Any) -> Any:
    return transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=36, n_layer=2, n_head=3, **SPECIAL, **changes
    )


def llama_config(**changes: Any) -> Any:
    settings = {
        "vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 40,
        "max_position_embeddings": 64, **SPECIAL,
    }  # fmt: skip
    return transformers.LlamaConfig(**{**settings, **changes})


def t5_config(**changes: Any) -> Any:
    return transformers.T5Config(
        vocab_size=VOCABULARY, d_model=36, d_kv=12, d_ff=40, num_layers=2, num_heads=3,
        decoder_start_token_id=0, eos_token_id=2, pad_token_id=0, **changes,
    )  # fmt: skip


def token_ids(batch: int = 2, length: int = 13, seed: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, VOCABULARY, (batch, length), generator=generator)


def padded_inputs(length: int = 13, real: int = 9) -> dict[str, torch.Tensor]:
    """Two sentences, the second one short."""
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, real:] = 0
    return {"input_ids": token_ids(2, length), "attention_mask": mask}


def all_weights(cap: Any, layer: int, **choice: Any) -> torch.Tensor:
    """Every batch item and head of a layer: (batch, heads, queries, keys)."""
    count = cap.batch_size(layer, choice.get("kind"))
    return torch.stack([cap.weights(layer, None, batch=item, **choice) for item in range(count)])


def largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """Over the cells that are numbers in both; infinite where only one of them is."""
    a, b = a.double(), b.double()
    if a.shape != b.shape or not torch.equal(a.isnan(), b.isnan()):
        return math.inf
    return float((a - b).nan_to_num().abs().max().detach())


def state_of(model: nn.Module) -> dict[str, Any]:
    """Everything that a capture might leave behind, in the model and in torch."""
    from torch.nn.modules import module as globals_

    owners = (torch, torch.nn.functional, torch.overrides, torch.Tensor, torch._C._nn, nn.Module)
    names = {
        f"{owner.__name__}.{name}": id(value)
        for owner in owners
        for name, value in vars(owner).items()
        if callable(value)
    }
    return {
        "names": names,
        "interface": AttentionInterface.__dict__["get_interface"],
        "flex": flex_attention.flex_attention,
        "forward": [type(m).forward for m in model.modules()],
        "attributes": [sorted(vars(m)) for m in model.modules()],
        "hooks": [
            (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks))
            for m in model.modules()
        ],
        "global hooks": (
            len(globals_._global_forward_hooks),
            len(globals_._global_forward_pre_hooks),
            len(globals_._global_forward_hooks_always_called),
        ),
        "modes": torch._C._len_torch_function_stack(),
        "stance": torch._dynamo.eval_frame._stance.stance,
        "grad": torch.is_grad_enabled(),
        "training": [m.training for m in model.modules()],
        "backend": getattr(getattr(model, "config", None), "_attn_implementation", None),
        "random": torch.get_rng_state().tolist(),
    }

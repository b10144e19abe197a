"""A capture leaves nothing behind, whatever happens inside it, and nobody else notices it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from capture_support import (
    all_weights,
    build,
    gpt2_config,
    largest_difference,
    llama_config,
    state_of,
    t5_config,
    token_ids,
)
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from attnmap_widget import capture


@pytest.fixture
def model() -> Any:
    return build("LlamaForCausalLM", llama_config())


class HalfWayError(Exception):
    """Raised on purpose."""


def modules_that_run(model: nn.Module, ids: Tensor) -> list[nn.Module]:
    """Those whose hooks fire; lists of modules never run."""
    found: list[nn.Module] = []
    handles = [
        module.register_forward_pre_hook(lambda m, a: found.append(m)) for module in model.modules()
    ]
    with torch.no_grad():
        model(ids)
    for handle in handles:
        handle.remove()
    assert len(found) > 20
    return found


@pytest.mark.parametrize("kind", [HalfWayError, KeyboardInterrupt])
def test_exceptions_anywhere_in_the_forward(model: Any, kind: type[BaseException]) -> None:
    ids = token_ids()
    with torch.no_grad(), capture(model) as cap:
        expected = model(ids).logits
    reference = all_weights(cap, 1)
    before = state_of(model)
    for module in modules_that_run(model, ids):
        for register in (module.register_forward_pre_hook, module.register_forward_hook):

            def fail(*_: Any) -> None:
                raise kind("half way")

            handle = register(fail)
            with torch.no_grad(), pytest.raises(kind, match="half way"), capture(model):
                model(ids)
            handle.remove()
            assert state_of(model) == before
    with torch.no_grad(), capture(model) as cap:
        assert torch.equal(model(ids).logits, expected)
    assert torch.equal(all_weights(cap, 1), reference)
    assert cap.layers == [0, 1]


def test_exceptions_inside_torch_functions() -> None:
    model = nn.MultiheadAttention(24, 3)
    too_few, too_narrow = [torch.randn(5, 2, 24)] * 2, [torch.randn(5, 2, 23)] * 3
    before = state_of(model)
    for inputs in (too_few, too_narrow):
        with pytest.raises((TypeError, AssertionError)), capture(model):
            model(*inputs)
        assert state_of(model) == before
    with pytest.raises(RuntimeError), capture():
        F.scaled_dot_product_attention(
            torch.ones(2, 5, 8), torch.ones(2, 5, 9), torch.ones(2, 5, 9)
        )
    assert state_of(model) == before


def test_fifty_captures_leave_no_trace(model: Any) -> None:
    ids = token_ids()
    before = state_of(model)
    for _ in range(50):
        with torch.no_grad(), capture(model):
            model(ids)
    assert state_of(model) == before


def test_train_mode_and_random_numbers_stay() -> None:
    model = build("GPT2LMHeadModel", gpt2_config()).train()
    ids = token_ids()
    torch.manual_seed(5)
    plain = model(ids).logits
    after = torch.get_rng_state()
    torch.manual_seed(5)
    with capture(model) as cap:
        captured = model(ids).logits
    assert torch.equal(plain, captured)
    assert torch.equal(after, torch.get_rng_state())
    assert model.training
    assert all(module.training for module in model.modules())
    sums = all_weights(cap, 0).sum(-1)  # the library's own, after dropout, reach 1.11
    assert largest_difference(sums, torch.ones_like(sums)) <= 1e-6


def test_user_hooks_stay_alive(model: Any) -> None:
    seen: list[str] = []
    handles = [
        module.register_forward_hook(lambda m, a, o, name=name: seen.append(name))
        for name, module in model.named_modules()
    ]
    with torch.no_grad():
        model(token_ids())
        alone, seen[:] = list(seen), []
        with capture(model):
            model(token_ids())
        assert seen == alone
        seen.clear()
        model(token_ids())
    assert seen == alone
    for handle in handles:
        handle.remove()


def test_nested_captures_of_two_models(model: Any) -> None:
    other = build("GPT2LMHeadModel", gpt2_config())
    ids = token_ids()
    before = state_of(model)
    with torch.no_grad(), capture(model) as outer:
        model(ids)
        with capture(other) as inner, capture() as everything:
            other(ids)
            model(ids)
    assert [call.name for call in inner.calls] == ["transformer.h.0.attn", "transformer.h.1.attn"]
    assert [call.step for call in outer.calls] == [0, 0, 1, 1]
    assert len(everything.calls) == 4
    assert outer.calls[2].record is everything.calls[2].record
    assert state_of(model) == before


def test_nested_captures_of_one_model(model: Any) -> None:
    with torch.no_grad(), capture(model) as outer, capture(model, layers=[1]) as inner:
        model(token_ids())
    assert outer.layers == [0, 1]
    assert inner.layers == [1]
    assert torch.equal(all_weights(outer, 1), all_weights(inner, 1))


def test_captures_closed_out_of_order(model: Any) -> None:
    before = state_of(model)
    first, second = capture(model), capture(model)
    with torch.no_grad():
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        model(token_ids())
        second.__exit__(None, None, None)
    assert state_of(model) == before
    assert first.calls == []
    assert second.layers == [0, 1]


def test_same_model_captured_twice(model: Any) -> None:
    with torch.no_grad():
        with capture(model) as first:
            model(token_ids(seed=1))
        with capture(model) as second:
            model(token_ids(seed=2))
        with capture(model) as again:
            model(token_ids(seed=1))
    assert torch.equal(all_weights(first, 0), all_weights(again, 0))
    assert largest_difference(all_weights(first, 0), all_weights(second, 0)) > 0.01


def test_threads_do_not_see_each_other(model: Any) -> None:
    """Two threads capture one model at once; a third runs it without any capture."""
    barrier, found = threading.Barrier(3), {}

    def work(seed: int | None) -> None:
        with torch.no_grad():
            if seed is None:
                barrier.wait()
                for _ in range(5):
                    model(token_ids(1, 9, seed=9))
                return
            with capture(model) as cap:
                barrier.wait()
                for _ in range(3):
                    model(token_ids(1, 5 + seed, seed=seed))
            found[seed] = cap

    before = state_of(model)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, None)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state_of(model) == before
    for seed in (1, 2):
        assert {call.shape for call in found[seed].calls} == {(1, 6, 5 + seed, 5 + seed)}
        assert len(found[seed].calls) == 6
        with torch.no_grad(), capture(model) as alone:
            model(token_ids(1, 5 + seed, seed=seed))
        assert torch.equal(found[seed].weights(1, 2, step=0), alone.weights(1, 2))


def test_other_function_modes_still_see_everything(model: Any) -> None:
    class Count(TorchFunctionMode):
        calls = 0

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            Count.calls += 1
            return func(*args, **(kwargs or {}))

    with torch.no_grad():
        with Count():
            plain = model(token_ids()).logits
        alone, Count.calls = Count.calls, 0
        with Count(), capture(model) as cap:
            inside = model(token_ids()).logits
    assert torch.equal(plain, inside)
    assert Count.calls >= alone
    assert cap.layers == [0, 1]


def test_reading_inside_the_block_records_nothing(model: Any) -> None:
    with torch.no_grad(), capture(model) as cap:
        model(token_ids())
        weights = cap.weights(0, "mean")
        cap.weights(1, None, queries=slice(3, 5))
        assert len(cap.calls) == 2
    assert torch.equal(weights, cap.weights(0, "mean"))


def test_models_output_owns_its_tensors() -> None:
    """T5 shares its position bias between layers; a record must not lend it out."""
    model = build("T5EncoderModel", t5_config())
    with torch.no_grad(), capture(model) as cap:
        model(token_ids())
    weights = cap.weights(0, None)
    weights.zero_()
    assert float(cap.weights(0, None).sum()) > 1


def test_compiled_model_runs_eagerly_inside() -> None:
    torch._dynamo.reset()

    class Attention(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return (q @ k.transpose(-2, -1)).softmax(-1) @ k

    plain = Attention()
    compiled = torch.compile(plain, backend="eager")
    q, k = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8)
    compiled(q, k)
    before = state_of(plain)
    with capture(compiled) as cap:
        inside = compiled(q, k)
    assert torch.equal(inside, plain(q, k))
    assert torch.equal(compiled(q, k), inside)
    assert cap.calls[0].name == ""
    assert largest_difference(cap.weights(0, None, batch=1), (q @ k.mT).softmax(-1)[1]) <= 1e-6
    assert state_of(plain) == before

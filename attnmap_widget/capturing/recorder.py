"""One capture's book: which calls belong to it, their layer, kind and step, in execution order.

A softmax that was found by its scores is filed once its weights meet values (``mixing``). Until
then it is assumed to be attention only if nothing else was, and only where nothing speaks against
it: outside any module, where a learner may compute the weights and no more, and in modules that
are called attention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from torch import nn

from . import emit, inputs
from .calls import AttentionCall
from .diagnose import windows
from .gather import is_sharded
from .naming import ModuleNames, says_cross, tower_labels, tower_of
from .numbering import Numbering, Place, Spot
from .records import Record
from .session import SESSION, Running
from .windowed import fitting, windows_of

# Modules that a model runs its softmax through; the name of the attention is that of their parent.
_INNER_CLASSES = ("Softmax", "Dropout", "Identity", "HookPoint")


class Recorder:
    """Files records. ``model`` None: every call of this thread belongs to the capture."""

    def __init__(self, model: nn.Module | None, layers: frozenset[int] | None) -> None:
        self.model, self.layers = model, layers
        self.calls: list[AttentionCall] = []
        self.problems: list[str] = []
        self.layers_seen: set[int] = set()
        self._names = None if model is None else ModuleNames(model)
        self._roots: dict[nn.Module, ModuleNames] = {}
        self.inputs: list[inputs.Inputs] = []
        self._step = 0
        self._step_modules: set[nn.Module] = set()
        self._numbering = Numbering()
        self._self_names: set[str] = set()
        self._latest: dict[tuple[str, int, int, bool], Record] = {}
        self._candidates: list[tuple[Spot, Record]] = []
        self.unmet: dict[str, None] = {}

    # ------------------------------------------------------------------ steps

    def module_starts(
        self,
        module: nn.Module,
        above: list[Running],
        given: tuple[tuple[Any, ...], dict[str, Any]],
    ) -> None:
        """Note that a module is about to run below ``above``; count outermost forwards."""
        if any(self._owns(running.module) for running in above) or not self._owns(module):
            return
        if self._names is None and SESSION.mode is not None:
            SESSION.mode.provenance.learn(module)
        # An encoder and a decoder run one after the other are one step; a model run again is the
        # next.
        if module in self._step_modules:
            self._step += 1
            self._step_modules = set()
        self._step_modules.add(module)
        emit.guarded(lambda: self._remember(module, given), "reading the inputs")

    def _remember(self, module: nn.Module, given: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        with SESSION.quiet():
            found = inputs.read(self._step, module, *given)
        if found is not None:
            self.inputs.append(found)

    def _owns(self, module: nn.Module) -> bool:
        return self._names is None or module in self._names.modules

    # ------------------------------------------------------------------ places

    def spot(self, running: list[Running], cross: bool | None, square: bool) -> Spot | None:
        """Where a call happens that is happening now; None where it is not this capture's.

        ``running``: modules that execute, innermost first. ``cross``: what the interceptor knows
        of it. ``square``: as many queries as keys.
        """
        names = self._names_for(running)
        mine = self._mine(running, names)
        if self._names is not None and not mine:
            return None
        here = mine[0] if mine else None
        module = None if here is None else here.module
        parent = mine[1].module if len(mine) > 1 else None
        chain: list[tuple[str, int]] = []
        name, number, alone, assumable = "", None, False, module is None
        if names is not None and module is not None:
            name = names.modules[module]
            if (name, type(module).__name__) in names.windowed:
                return None
            chain = [(names.modules[entry.module], entry.serial) for entry in reversed(mine)]
            number, alone = names.number(name), names.is_alone(name)
            assumable = names.looks_like_attention(name)
        tower = tower_of(name)
        if self._names is None and names is not None:
            tower = (names.root, *tower)
        return Spot(
            self, name, tuple(chain), self._step, tower,
            cross=self._is_cross(name, here, parent, cross, square),
            number=number,
            alone=alone,
            wanted=self.layers is None or number is None or alone or number in self.layers,
            assumable=assumable,
            sharded=is_sharded(module),
            windows=windows_of(mine),
        )  # fmt: skip

    def place(self, spot: Spot) -> Place | None:
        """Number a call; None where its layer is not wanted: such calls count as seen."""
        return self._wanted(self._numbering.place(spot))

    def _wanted(self, place: Place) -> Place | None:
        self.layers_seen.add(place.layer)
        return place if self.layers is None or place.layer in self.layers else None

    def _names_for(self, running: list[Running]) -> ModuleNames | None:
        if self._names is not None:
            return self._names
        # No model was named: names are those below the outermost module that runs.
        if not running:
            return None
        root = running[-1].module
        if root not in self._roots:
            self._roots[root] = ModuleNames(root)
        return self._roots[root]

    def _mine(self, running: list[Running], names: ModuleNames | None) -> list[Running]:
        """Those of the running modules that this capture has names for, innermost first."""
        mine = [r for r in running if names is not None and r.module in names.modules]
        while len(mine) > 1 and type(mine[0].module).__name__ in _INNER_CLASSES:
            mine.pop(0)
        return mine

    def _is_cross(
        self,
        name: str,
        here: Running | None,
        parent: nn.Module | None,
        hint: bool | None,
        square: bool,
    ) -> bool:
        said = says_cross(name, None if here is None else here.module, parent)
        if said is None:
            said = hint
        if said is None:
            # Nothing says it. One sequence has fewer keys than queries where the keys are pooled; a
            # call that was square before is self-attention reading a cache now.
            several = here is None or here.takes_several()
            said = not square and several and name not in self._self_names
        if not said:
            self._self_names.add(name)
        return said

    # ------------------------------------------------------------------ records

    def keep(self, place: Place, record: Record, effective: bool = False) -> None:
        """File a record; ``effective``: of what was made of the weights after the softmax."""
        self._candidates.clear()
        if not effective:
            spot = place.spot
            key = (spot.name, place.layer, place.part, spot.cross)
            earlier = self._latest.get(key)
            if earlier is not None:
                record.continues(earlier)
            self._latest[key] = record
        self.calls.append(_call(place, record, effective))

    def suspect(self, spot: Spot, record: Record) -> None:
        """Note a softmax whose weights have not met values yet."""
        if spot.chain:
            self.unmet.setdefault(spot.name)
        if spot.assumable and not self.calls:
            self._candidates.append((spot, record))

    def assumed(self) -> list[AttentionCall]:
        """What is taken for attention where nothing was seen for certain."""
        numbering = Numbering()
        places = [(numbering.place(spot), record) for spot, record in self._candidates]
        return [_call(place, record) for place, record in places if self._wanted(place)]

    def finish(self) -> list[AttentionCall]:
        """All calls, each with its kind; done again whenever calls were added."""
        calls = self.calls or self.assumed()
        static = [] if self._names is None else self._names.towers
        labels = tower_labels([*static, *(call.tower for call in calls if not call.cross)] or [()])
        crossing = {call.tower for call in calls if call.cross}
        cross_labels = tower_labels(crossing or [()])
        for call in calls:
            if call.cross:
                kind = "cross" if len(crossing) < 2 else f"{cross_labels[call.tower]} cross"
            else:
                kind = labels[call.tower]
            if call.part:
                kind = f"{kind} {call.part + 1}"
            if call.effective:
                kind = "effective" if kind == "self" else f"{kind} effective"
            call.kind = kind
        _tell_apart(calls)
        return calls

    def close(self) -> None:
        """Nothing more will come: what was assumed stands. Let go of the model's modules."""
        self.calls = self.finish()
        self._candidates.clear()
        self._numbering = Numbering()  # its places refer back to this recorder
        self.model = self._names = None
        self._roots.clear()
        self._step_modules.clear()
        self._latest.clear()

    def explain(self, describe: Callable[[ModuleNames | None], str]) -> str:
        """The text for a capture that saw nothing."""
        return describe(self._names or next(iter(self._roots.values()), None))

    def left_out(self) -> str:
        """What to add to a refusal: attention that the model has and a capture does not give."""
        names = self._names or next(iter(self._roots.values()), None)
        return "" if names is None or not names.windowed else f"; {windows(names)}"


def _call(place: Place, record: Record, effective: bool = False) -> AttentionCall:
    return AttentionCall(
        layer=place.layer,
        name=place.spot.name,
        step=place.step,
        tower=place.spot.tower,
        cross=place.spot.cross,
        part=place.part,
        record=record,
        effective=effective,
        sharded=place.spot.sharded,
        windows=fitting(place.spot.windows, record.shape),
    )


def _tell_apart(calls: list[AttentionCall]) -> None:
    """Two modules of one layer and kind (window and grid attention) get kinds from their names."""
    groups: dict[tuple[int, str], set[str]] = defaultdict(set)
    for call in calls:
        groups[call.layer, call.kind].add(call.name)
    for call in calls:
        names = groups[call.layer, call.kind]
        if len(names) > 1:
            others = [name.split(".") for name in names if name != call.name]
            own = [
                part for part in call.name.split(".") if all(part not in other for other in others)
            ]
            if own:
                call.kind = own[0] if call.kind == "self" else f"{call.kind} {own[0]}"

"""One capture's book: which calls belong to it, their layer, kind and step, in execution order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from .calls import AttentionCall
from .diagnose import windows
from .gather import is_sharded
from .naming import ModuleNames, Tower, says_cross, tower_labels, tower_of
from .records import Rebuilt, Record
from .session import Running

# Modules that a model runs its softmax through; the name of the attention is that of their parent.
_INNER_CLASSES = ("Softmax", "Dropout", "Identity", "HookPoint")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call happens: everything a record is filed under."""

    recorder: Recorder
    name: str
    layer: int
    step: int
    tower: Tower
    cross: bool
    part: int
    sharded: bool = False


class Recorder:
    """Files records. ``model`` None: every call of this thread belongs to the capture."""

    def __init__(self, model: nn.Module | None, layers: frozenset[int] | None) -> None:
        self.layers = layers
        self.calls: list[AttentionCall] = []
        self.problems: list[str] = []
        self.layers_seen: set[int] = set()
        self._names = None if model is None else ModuleNames(model)
        self._roots: dict[nn.Module, ModuleNames] = {}
        self._step = 0
        self._step_modules: set[nn.Module] = set()
        self._new_step()
        self._self_names: set[str] = set()
        self._latest: dict[tuple[str, int, int], Rebuilt] = {}

    # ------------------------------------------------------------------ steps

    def module_starts(self, module: nn.Module, above: list[Running]) -> None:
        """Note that a module is about to run below ``above``; count outermost forwards."""
        if any(self._owns(running.module) for running in above) or not self._owns(module):
            return
        # An encoder and a decoder run one after the other are one step; a model run again is the
        # next.
        if module in self._step_modules:
            self._step += 1
            self._step_modules = set()
            self._new_step()
        self._step_modules.add(module)

    def _owns(self, module: nn.Module) -> bool:
        return self._names is None or module in self._names.modules

    def _new_step(self) -> None:
        self._counts: dict[tuple[Tower, bool], int] = defaultdict(int)
        self._shared: set[tuple[Tower, bool]] = set()
        self._calls_of: dict[tuple[str, bool], list[tuple[int, int]]] = defaultdict(list)

    # ------------------------------------------------------------------ places

    def place(self, running: list[Running], cross: bool | None, square: bool) -> Place | None:
        """File a call that is happening now; None where it is not this capture's or not wanted.

        ``running``: modules that execute, innermost first. ``cross``: what the interceptor knows
        of it. ``square``: as many queries as keys. Calls whose layer is not wanted count as seen.
        """
        names = self._names_for(running)
        here, parent, name = self._innermost(running, names)
        module = None if here is None else here.module
        if self._names is not None and module is None:
            return None
        if names is not None and (name, type(module).__name__) in names.windowed:
            return None
        crossing = self._is_cross(name, here, parent, cross, square)
        tower = tower_of(name)
        if self._names is None and names is not None:
            tower = (names.root, *tower)
        serial = 0 if here is None else here.serial
        layer, part = self._number(name, serial, tower, crossing, names)
        self.layers_seen.add(layer)
        if self.layers is not None and layer not in self.layers:
            return None
        return Place(
            self, name, layer, self._step, tower, crossing, part, sharded=is_sharded(module)
        )

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

    def _innermost(
        self, running: list[Running], names: ModuleNames | None
    ) -> tuple[Running | None, nn.Module | None, str]:
        mine = [r for r in running if names is not None and r.module in names.modules]
        while len(mine) > 1 and type(mine[0].module).__name__ in _INNER_CLASSES:
            mine.pop(0)
        if names is None or not mine:
            return None, None, ""
        parent = mine[1].module if len(mine) > 1 else None
        return mine[0], parent, names.modules[mine[0].module]

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

    def _number(
        self, name: str, serial: int, tower: Tower, cross: bool, names: ModuleNames | None
    ) -> tuple[int, int]:
        """The block number, and which of several calls within one run of the module this is."""
        group = (tower, cross)
        number = None if names is None else names.number(name)
        earlier = self._calls_of[name, cross]
        if number is not None and serial and any(before == serial for before, _ in earlier):
            layer = next(layer for before, layer in earlier if before == serial)
            part = sum(before == serial for before, _ in earlier)
            earlier.append((serial, layer))
            return layer, part
        if number is None or earlier or group in self._shared:
            # One module for many layers (ALBERT), or no names at all: the order of execution
            # counts.
            if earlier and number is not None:
                self._shared.add(group)
            number = self._counts[group]
        self._counts[group] += 1
        earlier.append((serial, number))
        return number, 0

    # ------------------------------------------------------------------ records

    def keep(self, place: Place, record: Record, effective: bool = False) -> None:
        """File a record; ``effective``: of what was made of the weights after the softmax."""
        if isinstance(record, Rebuilt) and not place.cross:
            earlier = self._latest.get((place.name, place.layer, place.part))
            if earlier is not None:
                record.continues(earlier)
            self._latest[place.name, place.layer, place.part] = record
        self.calls.append(
            AttentionCall(
                layer=place.layer,
                name=place.name,
                step=place.step,
                tower=place.tower,
                cross=place.cross,
                part=place.part,
                record=record,
                effective=effective,
                sharded=place.sharded,
            )
        )

    def finish(self) -> None:
        """Give every call its kind; done again whenever calls were added."""
        static = [] if self._names is None else self._names.towers
        labels = tower_labels(
            [*static, *(call.tower for call in self.calls if not call.cross)] or [()]
        )
        crossing = {call.tower for call in self.calls if call.cross}
        cross_labels = tower_labels(crossing or [()])
        for call in self.calls:
            if call.cross:
                kind = "cross" if len(crossing) < 2 else f"{cross_labels[call.tower]} cross"
            else:
                kind = labels[call.tower]
            if call.part:
                kind = f"{kind} {call.part + 1}"
            if call.effective:
                kind = "effective" if kind == "self" else f"{kind} effective"
            call.kind = kind
        _tell_apart(self.calls)

    def explain(self, describe: Callable[[ModuleNames | None], str]) -> str:
        """The text for a capture that saw nothing."""
        return describe(self._names or next(iter(self._roots.values()), None))

    def left_out(self) -> str:
        """What to add to a refusal: attention that the model has and a capture does not give."""
        names = self._names or next(iter(self._roots.values()), None)
        return "" if names is None or not names.windowed else f"; {windows(names)}"

    def forget_model(self) -> None:
        """Let go of the model's modules."""
        self._names = None
        self._roots.clear()
        self._step_modules.clear()
        self._latest.clear()


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

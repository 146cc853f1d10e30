"""Sequences that are written together, though they begin and end at moments of their own (continuous batching)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from seqloom.decoding.protocol import StepModel
from seqloom.nn.cache import STRETCH
from seqloom.nn.state import State, by_row
from seqloom.text.special import UNK

Member = TypeVar("Member")


class Steady:
    """A step model that gives each row the same numbers, to the bit, whatever other rows there are.

    Every row looks at whole stretches of what it has read, with a mask (`State.alone`), and products add up each row in
    one order (`nn.linear`). So a text that is written alone is the one that is written among two hundred.
    """

    def __init__(self, model: StepModel) -> None:
        self.model = model
        self.vocabulary_size = model.vocabulary_size

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read."""
        return self.model.start(size, source)

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time] as the model does."""
        return self.model.read(state, tokens)

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token per row."""
        return self.model.step(state.alone(), tokens)


def steady(model: StepModel) -> StepModel:
    """The model as texts are written with it: steady, where its rows can stand at places of their own and it runs on
    the processor. On a GPU, steps are recorded, and another number of rows may change the last bit."""
    device = getattr(model, "device", None)
    return Steady(model) if joins(model) and (device is None or device.type == "cpu") else model


def joins(model: StepModel) -> bool:
    """Whether rows may stand at places of their own."""
    return getattr(model, "joins", False)


def chosen(state: State, rows: Sequence[int]) -> State:
    """Some rows of a state whose rows are alone or apart."""
    return state.reorder(torch.tensor(rows, device=device_of(state))).apart()


def device_of(state: State) -> torch.device:
    """Where the rows of a state are."""
    return next(iter(state.values())).device


class Rows(Generic[Member]):
    """The sequences that are being written, in groups that take each step together.

    In a group, states have the same shapes: caches of equally many stretches, sources of equally many places. Where a
    model's rows cannot stand at places of their own, a group stands at one place.
    """

    def __init__(self, model: StepModel) -> None:
        self.model = model
        self.groups: list[Group[Member]] = []

    def __len__(self) -> int:
        """How many sequences there are."""
        return sum(map(len, self.groups))

    @torch.no_grad()
    def join(self, members: Sequence[Member], state: State) -> None:
        """Take in sequences, whose state this is, row by row; they take part in the next step."""
        self._place(members, state.alone() if joins(self.model) else state.apart())

    def leave(self, members: Iterable[Member]) -> None:
        """Let sequences go; their rows are free for others."""
        gone = set(members)
        for group in self.groups:
            group.leave(gone)
        self.groups = [group for group in self.groups if len(group)]

    @torch.no_grad()  # as in `left_to_right.stream`
    def step(self, tokens: dict[Member, int]) -> Iterator[tuple[list[Member], Tensor]]:
        """Each sequence reads its token: the members of each group, and log p of what may come next [members,
        vocabulary]."""
        for group in list(self.groups):
            moving = group.outgrown() if joins(self.model) else []
            if moving:
                members, state = group.taken(moving)
                self._place(members, state)
        self.groups = [group for group in self.groups if len(group)]
        for group in self.groups:
            yield group.step(tokens)

    def _place(self, members: Sequence[Member], state: State) -> None:
        """Put rows, all of them at one place, into the group they fit into, or into one of their own."""
        key = group_key(state, joins(self.model))
        group = next((group for group in self.groups if group.key == key), None)
        if group is None:
            group = Group(self.model, key)
            self.groups.append(group)
        group.join(members, state)


Key = tuple[Any, ...]


def group_key(state: State, own_places: bool) -> Key:
    """What rows have in common that can be stepped together."""
    place = int(state.position.max()) // STRETCH if by_row(state.position) else int(state.position)
    fixed = {name: tensor.shape[1:] for name, tensor in state.shared.items()}
    return own_places, place, tuple(fixed.items())


class Group(Generic[Member]):
    """Rows with states of the same shapes. A row without a member is free: it reads anything, and nobody listens."""

    def __init__(self, model: StepModel, key: Key) -> None:
        self.model, self.key = model, key
        self.members: list[Member | None] = []
        self.state = State()

    def __len__(self) -> int:
        return sum(member is not None for member in self.members)

    def join(self, members: Sequence[Member], state: State) -> None:
        """Rows come: into free ones first, then behind all."""
        free = [row for row, member in enumerate(self.members) if member is None][: len(members)]
        if free:
            index = torch.tensor(free, device=device_of(state))
            self.state.put_rows(index, chosen(state, range(len(free))))
            for row, member in zip(free, members, strict=False):
                self.members[row] = member
        if left := members[len(free) :]:
            # Growing copies all rows: some free ones for those who come next cost less than doing it for each.
            spare = len(self.members) // 8
            more = chosen(state, [*range(len(free), len(members)), *[0] * spare])
            self.state = State.join([self.state, more]) if self.members else more
            self.members += [*left, *[None] * spare]

    def leave(self, gone: set[Member]) -> None:
        """Free the rows of these members."""
        self.members = [None if member in gone else member for member in self.members]

    def outgrown(self) -> list[int]:
        """The rows that stand at the end of the group's stretches."""
        end = (self.key[1] + 1) * STRETCH
        places = self.state.position
        assert by_row(places)
        return [row for row, place in enumerate(places.tolist()) if place >= end and self.members[row] is not None]

    def taken(self, rows: list[int]) -> tuple[list[Member], State]:
        """Members and state of some rows, which are free then."""
        members = [member for row in rows if (member := self.members[row]) is not None]
        state = chosen(self.state, rows)
        self.leave(set(members))
        return members, state

    def step(self, tokens: dict[Member, int]) -> tuple[list[Member], Tensor]:
        """The step of all rows; the members among them, and log p of what may come next."""
        self._drop_free()
        device = device_of(self.state)
        taken = [row for row, member in enumerate(self.members) if member is not None]
        free = [row for row, member in enumerate(self.members) if member is None]
        if free and by_row(self.state.position):
            self.state.position[torch.tensor(free, device=device)] = 0  # a free row never outgrows the others
        read = [UNK if member is None else tokens[member] for member in self.members]
        log_probs, self.state = self.model.step(self.state, torch.tensor(read, device=device))
        if not by_row(self.state.position):
            self.key = group_key(self.state, False)
        members = [member for member in self.members if member is not None]
        return members, log_probs if len(taken) == len(read) else log_probs[torch.tensor(taken, device=device)]

    def _drop_free(self) -> None:
        """Once a quarter of the rows is free, copy the others together: as in `left_to_right.stream`."""
        taken = [row for row, member in enumerate(self.members) if member is not None]
        if len(taken) <= len(self.members) * 3 / 4:
            self.state = chosen(self.state, taken)
            self.members = [self.members[row] for row in taken]

"""How training goes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import Count, Fraction, NonNegative, Positive, Probability, Schema, Size, Times


class OptimizerConfig(Schema):
    kind: Literal["adamw", "adam", "sgd", "rmsprop", "adagrad", "muon"] = "adamw"
    """Adam with decoupled weight decay, Adam, SGD, RMSprop, Adagrad, or Muon (Jordan et al. 2024): orthogonalised
    momentum for the matrices between embedding and output layer, AdamW for the rest."""
    learning_rate: Positive = 1e-3
    """The peak; the schedule multiplies it."""
    other_rate: Positive | None = None
    """muon: the peak for what AdamW learns (embeddings, output layers, biases, norms); the same when not given."""
    weight_decay: NonNegative = 0.0
    """On matrices only: biases and norms are not decayed."""
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    """Adam's two decay rates."""
    momentum: Probability | None = None
    """Momentum of sgd and rmsprop, 0 when not given, and of muon, 0.95 when not given."""

    def check_keys(self) -> None:
        if self.other_rate is not None and self.kind != "muon":
            raise ValueError(f"other_rate is for kind muon: {self.kind} has one rate for all, learning_rate")


class ScheduleConfig(Schema):
    kind: Literal["constant", "linear", "cosine", "inverse-sqrt", "plateau"] = "constant"
    """How the rate goes on after the warm-up."""
    warmup: Count | Fraction = 0
    """How long the rate rises from 0: a share of the training (`0.05`), or a number of steps (`300`)."""
    final: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Where linear and cosine end, as a fraction of the peak."""
    factor: Fraction = 0.5
    """plateau: multiply by this when validation stops improving."""
    patience: Count = 0
    """plateau: how many validations without improvement to accept first."""


class AveragingConfig(Schema):
    kind: Literal["none", "exponential", "triggered", "checkpoints"] = "none"
    """`exponential`: moving average; `triggered`: plain average once validation stops improving (NT-ASGD, Merity et
    al. 2018); `checkpoints`: the mean of the last `last` checkpoints, at the end."""
    decay: Fraction = 0.999
    """exponential: the weight of the average so far."""
    patience: Times = 5
    """triggered: start when this many validations did not beat the best before them."""
    last: Times = 5
    """checkpoints: how many."""


class TrainingConfig(Schema):
    steps: Times | None = None
    """Optimiser steps; one of `steps` and `epochs` bounds the training, one epoch if neither is given."""
    epochs: Positive | None = None
    """Passes over the training text; a fraction is allowed."""
    minutes: Positive | None = None
    """Stop (with a checkpoint) after this much time, whatever the steps say. Where the clock is ahead of the steps,
    schedules follow the clock."""
    accumulate: Size = 1
    """Batches per optimiser step; gradients are normalised over all their tokens together."""
    clip: NonNegative = 1.0
    """Largest gradient norm; 0 leaves gradients as they are."""
    precision: Literal["float32", "bf16", "bf16-weights"] = "float32"
    """`bf16` computes products in bfloat16 (autocast). `bf16-weights` computes all in bfloat16, by a copy of the
    weights that is made anew for every step: faster for large Transformers. Weights stay in float32."""
    compile: bool | Literal["auto"] = False
    """`torch.compile` a language model with its loss as one program, and of other models the layers of Transformers:
    worth it on a GPU for runs of more than a minute. `auto`: on a GPU, where there are 1,000 steps or more."""
    record: bool = False
    """On one GPU, replay the steps of language models, optimiser included, as CUDA graphs: the same numbers, and less
    waiting for the processor. For adamw, adam and muon, and one batch per step."""
    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`, ..."""
    sharded: bool = False
    """Under torchrun: shard parameters and optimiser state (FSDP2) instead of replicating them (DDP)."""
    log_every: Times = 20
    """Steps between lines of `metrics.jsonl`."""
    validate_every: Times | None = None
    """Steps between validations; once per epoch when not given."""
    checkpoint_every: Times | None = None
    """Steps between checkpoints; when not given, at validations, but not more than twice a minute."""
    keep: Times = 2
    """How many checkpoints to keep beside the best one."""
    best: Literal["auto", "loss", "bleu", "reward"] = "auto"
    """Which weights are kept: those of the validation with the lowest loss, or, of models that write texts, with the
    highest BLEU or reward of what is written greedily. `auto`: by the reward where training follows one, else by the
    loss."""
    patience: Times | None = None
    """Stop when this many validations in a row brought no improvement."""
    tensorboard: bool = False
    """Also write TensorBoard events (needs the `track` extra)."""
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    averaging: AveragingConfig = AveragingConfig()

    def check_keys(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("give one of steps and epochs")
        if self.steps is None and self.epochs is None:
            self.epochs = 1.0

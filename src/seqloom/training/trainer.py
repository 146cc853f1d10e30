"""The training loop: one for every torch model in the package."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.arrays import check_seal
from seqloom.config.schema.training import TrainingConfig
from seqloom.data.stream import Stream
from seqloom.errors import CheckpointError, ConfigError
from seqloom.progress import Reporter, Silent
from seqloom.training.averaging import WeightAverage, mean_weights
from seqloom.training.checkpoints import (
    Checkpoint,
    CheckpointFolder,
    optimizer_tensors,
    random_states,
    restore_optimizer,
    restore_random_states,
    save_weights,
)
from seqloom.training.interrupts import Interrupted, Interrupts
from seqloom.training.journal import SAMPLES, Journal, named_unit
from seqloom.training.losses import Losses
from seqloom.training.objectives import Objective
from seqloom.training.optimizers import Schedule
from seqloom.training.places import CHECKPOINTS, WEIGHTS
from seqloom.training.processes import Processes
from seqloom.training.throughput import Throughput
from seqloom.training.updates import Updates
from seqloom.training.weights import load_model_weights, model_weights, whole

CHECKPOINT_PAUSE = 30.0  # seconds between checkpoints, where the configuration leaves it to the trainer
FORESEEN = 0.05  # of the time: from here on it shows how many steps there is time for
SAMPLED = 0.02  # of the time, that may go into samples
WORTH_COMPILING = 1000  # steps that win back, on a GPU, the seconds that compiling takes


@dataclass
class Progress:
    """Where training stands: everything in a checkpoint that is not a tensor of the model's."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best_loss: float = math.inf
    best_step: int = 0
    waited: int = 0
    """Validations since the best one."""
    sampled: float = 0.0
    """Seconds that went into samples."""


Samples = Callable[[], list[tuple[str, str]]]
"""What the model writes: a few texts, each with what it was given. It is the same every time for the same weights."""


class Trainer:
    """Fits `model` to `batches` by `objective`, validating, logging and checkpointing into `folder`.

    `validate()` returns figures, the one that decides among them: of losses the lowest, of others the highest is best,
    and the weights that had it become `folder/model.safetensors`. `loss` is what people call the validation loss.
    `samples` are taken after validations, for people to read in `folder/samples.jsonl`.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        batches: Stream,
        validate: Callable[[], dict[str, float]],
        config: TrainingConfig,
        folder: Path,
        processes: Processes,
        reporter: Reporter | None = None,
        loss: str = "valid_loss",
        decides: str = "valid_loss",
        samples: Samples | None = None,
    ) -> None:
        self.decides, self.samples = decides, samples
        self._sampled: Journal | None = None
        self.model = model.to(processes.device)
        objective.check(model)
        objective.prepare(model)
        self.objective = objective.to(processes.device)
        self.batches, self.validate = batches, validate
        self.config, self.folder, self.processes = config, folder, processes
        self.reporter, self.loss = reporter if reporter and processes.main else Silent(), loss
        if batches.batch_size % processes.world:
            raise ConfigError(
                f"data.batch_size ({batches.batch_size}) must be a multiple of the {processes.world} processes"
            )
        per_epoch = batches.batches_per_epoch / config.accumulate
        self.total_steps = config.steps or max(1, round((config.epochs or 1) * per_epoch))
        self.validate_every = config.validate_every or max(1, round(per_epoch))
        self.checkpoint_every, keep = config.checkpoint_every, config.keep
        if config.averaging.kind == "checkpoints":  # what is averaged must be there, and not depend on the clock
            self.checkpoint_every = config.checkpoint_every or self.validate_every
            keep = max(keep, config.averaging.last)
        self._saved_at, self._warned, self._begun_with = -math.inf, False, math.inf
        self.progress = Progress()
        self.checkpoints = CheckpointFolder(folder / CHECKPOINTS, keep, self.checkpoint_every)
        self.throughput = Throughput(model, processes.device)  # before sharding changes the parameters
        if processes.device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # TF32 products: ten times faster, good enough for training
        self._compiled = self._pays_to_compile()
        self.updates = Updates(self.model, objective, config, processes, batches.batch_size, self._compiled)
        self.schedule = Schedule(config.schedule, self.total_steps)
        self.average = WeightAverage(config.averaging, self.model)
        self.losses = Losses(processes, self._advice)

    def _pays_to_compile(self) -> bool:
        """Whether the model is compiled; where that is left to the trainer, it says what it decided."""
        config, steps = self.config, self.total_steps
        if config.compile != "auto":
            return config.compile
        on_gpu = self.processes.device.type == "cuda"
        pays = on_gpu and steps >= WORTH_COMPILING
        why = f"{steps:,} steps" if on_gpu else "it pays on a GPU"
        self.reporter.say(f"training.compile=auto: the model is {'' if pays else 'not '}compiled ({why})")
        return pays

    # ------------------------------------------------------------------------------------------------------ loop

    def fit(self) -> Progress:
        """Train to the end, or until interrupted; exact resuming goes through `resume` first."""
        journal = Journal(self.folder, self.progress.step, self.config.tensorboard) if self.processes.main else None
        if self.processes.main and self.samples is not None:
            self._sampled = Journal(self.folder, self.progress.step, name=SAMPLES)
        seconds = 60 * (self.config.minutes or math.inf) - self.progress.seconds
        if seconds <= 0:
            had = f"this run has had {self.progress.seconds / 60:.3g}"
            self.reporter.say(f"training.minutes counts from the first step, and {had}: set it to more to go on")
        self.reporter.start("training", self.progress.step, self.total_steps, max(0.0, seconds))
        try:
            with Interrupts() as interrupts:
                self._loop(journal, interrupts)
            self._finish(journal)
        finally:
            self.reporter.stop()
            for each in filter(None, (journal, self._sampled)):
                each.close()
        return self.progress

    def _loop(self, journal: Journal | None, interrupts: Interrupts) -> None:
        self.model.train()
        began = time.perf_counter() - self.progress.seconds
        self.throughput.restart()
        self._warn_of_warmup(self.total_steps, f"the training has {self.total_steps:,} steps")
        while self._ending() is None:
            self._optimise()
            step = self.progress.step
            self.progress.seconds = self._clock(began)
            last = self._ending() is not None
            if step % self.config.log_every == 0 or last:
                self._log(journal)
                stop = self.processes.any(interrupts.number is not None)
            else:
                stop = self.processes.world == 1 and interrupts.number is not None
            if step % self.validate_every == 0 or last:
                self.losses.check()
                self._validate(journal)
                self.throughput.restart()
            if last or stop or self._checkpoint_due(step):
                self.losses.check()
                self._save()
                self.throughput.restart()
            if stop and not last:
                number = interrupts.number or 15
                raise Interrupted(f"interrupted: saved at step {step}", number)
        self.reporter.say(self._ending() or "")

    def measure(self) -> None:
        """Say how good the model is before it learns, and later where it became worse."""
        figures = self._figures()
        self._begun_with = self._deciding(figures)
        self.reporter.say(f"step {self.progress.step}: {self._listed(figures)}  (as it begins)")

    def rehearse(self, seconds: float = 0.5) -> float:
        """About how many seconds `fit` will take, by a few steps and a validation. The model has learned something by
        then, and is to be thrown away."""
        self._optimise()  # the first one is slower than the others
        self.losses.check()  # waits for a GPU, as below
        began = time.perf_counter()
        while self.progress.step < 2 or (self._ending() is None and time.perf_counter() - began < seconds):
            self._optimise()
        self.losses.check()
        stepped = time.perf_counter()
        self._figures()
        validation, step = time.perf_counter() - stepped, (stepped - began) / (self.progress.step - 1)
        whole = self.total_steps * step + math.ceil(self.total_steps / self.validate_every) * validation
        return min(whole, 60 * (self.config.minutes or math.inf))

    def _checkpoint_due(self, step: int) -> bool:
        if self.checkpoint_every is not None:
            return step % self.checkpoint_every == 0
        pause = time.perf_counter() - self._saved_at
        return step % self.validate_every == 0 and self.processes.any(pause > CHECKPOINT_PAUSE)

    def _clock(self, began: float) -> float:
        """Seconds of training; where the clock decides, all processes go by that of the first."""
        seconds = time.perf_counter() - began
        return self.processes.share(seconds) if self.config.minutes is not None else seconds

    def _ending(self) -> str | None:
        """Why training is over; nothing as long as it is not."""
        config, step, total = self.config, self.progress.step, self.total_steps
        if step >= total:
            plan = f"{config.epochs:g} epochs" if config.epochs else f"{total:,} steps"
            return f"done: all {plan}"
        where = f"at step {step:,} of {total:,}"
        if config.minutes is not None and self.progress.seconds > 60 * config.minutes:
            return f"stopped: the time is over (training.minutes={config.minutes:g}), {where}"
        if config.patience is not None and self.progress.waited >= config.patience:
            return f"stopped: no improvement in a while (training.patience={config.patience}), {where}"
        return None

    def _warn_of_warmup(self, steps: float, said: str) -> None:
        """Say so where the learning rate will still be rising at the end."""
        warmup = self.schedule.warmup
        if self.schedule.by_steps and warmup > steps and not self._warned:
            self._warned = True
            self.reporter.say(
                f"warning: {said} and a warm-up of {warmup:,}, so the learning rate never reaches its peak; give "
                "training.schedule.warmup a share of the training instead, such as 0.1"
            )

    def _optimise(self) -> None:
        """One optimiser step over `accumulate` global batches, normalised by all their tokens together."""
        batches = [next(self.batches) for _ in range(self.config.accumulate)]
        tokens = sum(batch.tokens for batch in batches)
        self._unit = batches[0].unit
        self.objective.advance(self._done())
        taken = self.updates(batches, self.schedule.rate(self.progress.step, self._time_used()))
        self.average.update()
        self.progress.step += 1
        self.progress.tokens += tokens
        self.throughput.add(tokens)
        self.losses.add(self.progress.step, taken, tokens)

    def _done(self) -> float:
        """Which part of the training lies behind, by the steps or by the clock."""
        return max(self.progress.step / self.total_steps, self._time_used())

    def _time_used(self) -> float:
        """Which part of the time that there is lies behind; 0 where there is no such limit."""
        return self.progress.seconds / (60 * self.config.minutes) if self.config.minutes else 0.0

    # --------------------------------------------------------------------------------------------------- figures

    def _advice(self) -> str:
        config = self.config
        knobs = f"Lower training.optimizer.learning_rate (now {config.optimizer.learning_rate:g})"
        knobs += f" or training.clip (now {config.clip:g})" if config.clip else " or set training.clip (now off)"
        saved = self.checkpoints.all()
        kept = f"The last good checkpoint is {saved[-1]}." if saved else "No checkpoint had been written yet."
        return f"{knobs}. {kept}"

    def _log(self, journal: Journal | None) -> None:
        means, norm = self.losses.take(self.progress.step)
        speed = self.throughput.read()
        utilisation = self.throughput.utilisation(speed, self.processes.world)
        entry = {
            "step": self.progress.step,
            "epoch": self.progress.step * self.config.accumulate / self.batches.batches_per_epoch,
            "tokens": self.progress.tokens,
            **means,
            "gradient_norm": norm,
            "learning_rate": self.updates.rate,
            "tokens_per_second": speed,
            **named_unit(self._unit),
            "seconds": self.progress.seconds,
        }
        figures = f"loss {means['loss']:.4f}  {speed:,.0f} {self._unit}/s"
        if utilisation is not None:
            entry["mfu"] = utilisation
            figures += f"  MFU {utilisation:.1%}"
        if journal:
            journal.write(entry)
        self.reporter.advance(self.progress.step, figures)
        if self._time_used() > FORESEEN:
            steps = self.progress.step / self._time_used()
            self._warn_of_warmup(steps, f"there is time for about {steps:,.0f} steps")

    def _validate(self, journal: Journal | None) -> None:
        with self.average.applied():
            figures = self._figures()
            loss = self._deciding(figures)
            improved = self._keep_if_best(loss)
            self._sample()
        self.progress.waited = 0 if improved else self.progress.waited + 1
        self.schedule.validated(improved)
        self.average.validated(loss)
        self._report_validation(journal, figures, improved)

    def _deciding(self, figures: dict[str, float]) -> float:
        """The figure that says which weights are best, as a loss."""
        return figures[self.decides] if self.decides.endswith("loss") else -figures[self.decides]

    def _keep_if_best(self, loss: float) -> bool:
        """Write the weights if none before had so low a loss; whether that is so."""
        improved = loss < self.progress.best_loss
        if improved:
            self.progress.best_loss, self.progress.best_step = loss, self.progress.step
            weights = model_weights(self.model)  # of all processes, where they are sharded
            if self.processes.main:
                save_weights(weights, self.folder / WEIGHTS)
        return improved

    def _figures(self) -> dict[str, float]:
        with self._evaluated():
            return self.validate()

    def _sample(self) -> None:
        """Keep what the model writes now, unless that has taken too much of the time already: the first is always kept.
        Training goes on as if nothing had been written, whatever comes of it."""
        progress, share = self.progress, self.processes.share
        if self.samples is None or share(progress.sampled) > SAMPLED * share(progress.seconds):
            return
        began, device = time.perf_counter(), self.processes.device
        problem: Exception | None = None
        eager = torch.compiler.set_stance("force_eager") if self._compiled else nullcontext()
        try:
            with self._evaluated(), torch.random.fork_rng([device] if device.type == "cuda" else []), eager:
                written = self.samples()
            for given, text in written:
                if self._sampled:
                    self._sampled.write({"step": progress.step, "input": given, "text": text})
        except Exception as error:  # nobody loses a training over a text
            problem = error
        if self.processes.any(problem is not None):  # all of them stop, or they would wait for each other
            self.samples = None
            why = problem or "another process failed"
            self.reporter.say(f"note: no samples are written from step {progress.step} on: {why}")
        progress.sampled += time.perf_counter() - began

    @contextmanager
    def _evaluated(self) -> Iterator[None]:
        """The model as it is validated: whole, and without dropout."""
        self.model.eval()
        try:
            with self.updates.whole():  # validation calls parts of the model on their own
                yield
        finally:
            self.model.train()

    def _report_validation(self, journal: Journal | None, figures: dict[str, float], improved: bool) -> None:
        if journal:
            moment = {"step": self.progress.step, "tokens": self.progress.tokens, "seconds": self.progress.seconds}
            journal.write({**moment, **figures, **({"best": True} if improved else {})})
        worse = ", but it began better" if self.progress.best_loss > self._begun_with else ""
        best = f"  (best so far{worse})" if improved else ""
        self.reporter.say(f"step {self.progress.step}: {self._listed(figures)}{best}")

    def _listed(self, figures: dict[str, float]) -> str:
        names = {"valid_loss": self.loss}
        return "  ".join(f"{names.get(name, name)} {value:.4g}" for name, value in figures.items())

    def _finish(self, journal: Journal | None) -> None:
        """Checkpoint averaging, when asked for: keep the mean of the last checkpoints if it validates better."""
        if self.config.averaging.kind == "checkpoints":
            averaged = self.checkpoints.regular()[-self.config.averaging.last :]
            for path in averaged:
                self.checkpoints.check(path)
            weights = mean_weights([path / WEIGHTS for path in averaged])
            load_model_weights(self.model, weights, "the mean of the checkpoints")
            figures = self._figures()
            improved = self._keep_if_best(self._deciding(figures))
            self._report_validation(journal, {"averaged_checkpoints": len(averaged), **figures}, improved)
        self.processes.wait()

    # ----------------------------------------------------------------------------------------------- checkpoints

    def _save(self) -> None:
        tensors = optimizer_tensors(self.updates.optimizer)
        tensors |= {f"objective.{name}": tensor for name, tensor in model_weights(self.objective).items()}
        tensors |= {f"average.{name}": whole(tensor) for name, tensor in self.average.weights.items()}
        tensors |= {f"carried.{name}": self.processes.gather(tensor) for name, tensor in self.objective.state().items()}
        tensors |= {name: self.processes.gather(tensor) for name, tensor in random_states().items()}
        weights = model_weights(self.model)
        if self.processes.main:
            progress = {
                **asdict(self.progress),
                "total_steps": self.total_steps,
                "data": self.batches.position(),
                "losses": self.losses.state(),
                "schedule": self.schedule.state(),
                "average": self.average.state(),
            }
            self.checkpoints.save(Checkpoint(weights, tensors, progress))
        self._saved_at = time.perf_counter()
        self.processes.wait()

    def resume(self) -> bool:
        """Go on exactly where the newest checkpoint was written; False when there is none."""
        checkpoint = self.checkpoints.last()
        if checkpoint is None:
            return False
        saved = dict(checkpoint.progress)
        try:
            self.batches.seek(saved.pop("data"))
            self.losses.restore(saved.pop("losses"))
            self.schedule.restore(saved.pop("schedule"))
            average = saved.pop("average")
            saved.pop("total_steps")
            self.progress = Progress(**saved)
            load_model_weights(self.model, checkpoint.weights, str(self.checkpoints.all()[-1]))
            self._restore_tensors(checkpoint.tensors, average)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"the checkpoint in {self.folder} lacks {error}; it is of another version") from error
        if self.processes.main:
            self.checkpoints.prune()  # who was killed may have left one too many
        if self.progress.best_step:
            check_seal(self.folder / WEIGHTS)  # the best so far, which may stay the best
        return True

    def _restore_tensors(self, tensors: dict[str, Tensor], average: dict[str, Any]) -> None:
        restore_optimizer(self.updates.optimizer, tensors)
        load_model_weights(self.objective, _under("objective.", tensors), "the checkpoint's objective")
        self.average.restore(average, _under("average.", tensors))
        first, last = self.processes.own_rows(self.batches.batch_size)
        carried = _under("carried.", tensors)
        self.objective.restore({name: rows[first:last].to(self.processes.device) for name, rows in carried.items()})
        restore_random_states(tensors, self.processes.rank)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

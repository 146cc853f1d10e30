"""The ladder: several models on the same data, in one report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, groupby, product
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.config import RunConfig, Setting, Settings, listed_settings, load_config, preset_names
from seqloom.config.schema.tasks import TaskData
from seqloom.data.corpora import data_kind, data_settings
from seqloom.data.materials import remark_on_text
from seqloom.data.minimal_pairs import minimal_pairs as read_minimal_pairs
from seqloom.errors import UserError
from seqloom.keywords import hinted
from seqloom.progress import about
from seqloom.reports.ladder import Ladder, Rung
from seqloom.runs import engine
from seqloom.runs.contests import Contest, Entrant, ImageContest, PairContest, TextContest
from seqloom.runs.contests.knowledge import with_knowledge, with_phenomena
from seqloom.runs.engine import load, train_into
from seqloom.runs.folder import RunFolder, locked
from seqloom.runs.kind import kind_named
from seqloom.runs.timetable import Timetable, foreseen
from seqloom.runs.trained import Trained
from seqloom.training import Processes, Reporter, Silent
from seqloom.training.places import REPORT

QUICK = ("average", "ngram", "feedforward", "rnn", "lstm", "gru", "transformer")


@hinted()
def compare(
    sources: Sequence[str | Path],
    settings: Settings = (),
    out: str | Path = "runs/compare",
    tokens: int | None = None,
    reporter: Reporter | None = None,
    vary: Iterable[str] = (),
    seeds: int = 1,
    minutes: float | None = None,
    command: str = "",
    minimal_pairs: str | Path | Sequence[str | Path] | None = None,
) -> Ladder:
    """Train presets and YAML files on the same terms, measure all, and write `out/report.html`.

    sources: folders of finished runs may be among them; these are measured as they are. On whose terms the others are
        trained does not depend on the order: see `Contest.host`.
    settings: on top of each configuration, as for `train`.
    vary: `key=a,b,c` makes one rung of each source with each of the values; several make all combinations.
    seeds: with how many seeds each model is trained, from its configuration's on: means, how far they are apart, and
        which differences are noise. A model without chance in it is trained once.
    minutes: of training for all together, an equal share for each run that is trained by steps.
    command: what the page says that it came of; this call, where nothing is given.
    minimal_pairs: models of text are judged by these too: files, folders of them, or `blimp`.

    A run that is finished in `out` already is not trained again; one of another configuration is refused.
    """
    if seeds < 1:
        raise UserError(f"seeds={seeds}: a model is trained with one seed at least")
    settings, vary = listed_settings(settings), list(vary)
    asked = {"settings": settings, "out": str(out), "tokens": tokens, "vary": vary, "seeds": seeds, "minutes": minutes}
    pairs = [] if minimal_pairs is None else read_minimal_pairs(minimal_pairs)
    command = command or _call(sources=list(map(str, sources)), **asked, minimal_pairs=minimal_pairs)
    out, said = Path(out), reporter or Silent()
    variations = _variations(vary)
    entrants = _entrants(sources, settings, variations)
    if all(entrant.run for entrant in entrants) and (settings or variations != [()] or seeds != 1):
        raise UserError("all of these runs are finished, and settings and seeds are for models that are to be trained")
    contest_class = _contest(entrants)
    if pairs and contest_class is not TextContest:
        raise UserError("minimal pairs are judged by models of text: compare such, or leave --minimal-pairs out")
    host = contest_class.host(entrants)
    processes = Processes.join(entrants[0].config.training.device)  # once for all trainings
    try:
        configs = processes.first_alone(lambda: contest_class.on_equal_terms(host, entrants, tokens))
        if processes.main and configs and (remark := remark_on_text(next(iter(configs.values())))):
            said.say(remark)
        configs = {name: kind_named(config.model.kind).settle(config) for name, config in configs.items()}
        with locked(out) if processes.main else nullcontext():
            host_first = sorted(entrants, key=lambda entrant: entrant is not host)  # all are measured on its data
            plan = _plan(host_first, _sharing(configs, minutes, seeds), out, seeds)
            expected = _expected(plan, said, processes)
            runs = _runs(plan, len(entrants), said, processes.main, Timetable(expected))
            name, first = next(runs)
            contest = contest_class(first)
            rungs = [
                with_knowledge(contest.rung(name, trained), trained, pairs) if pairs else contest.rung(name, trained)
                for name, trained in chain([(name, first)], runs)
            ]
            joined = {name: Rung.joined(list(same)) for name, same in groupby(rungs, lambda rung: rung.name)}
            ladder = replace(contest.ladder([joined[entrant.name] for entrant in entrants]), command=command)
            ladder = with_phenomena(ladder, pairs) if pairs else ladder
            if processes.main:
                from seqloom.reports.ladder_page import write_ladder_page  # draws: matplotlib takes a second

                write_ladder_page(ladder, out / REPORT)
    finally:
        processes.leave()
    return ladder


def quickstart(
    data: str,
    out: str | Path,
    reporter: Reporter | None = None,
    seeds: int = 1,
    minutes: float | None = None,
    command: str = "",
) -> Ladder:
    """The ladder of small models on a bundled text, or the user's own, in a few minutes for each seed."""
    settings = data_settings(data)
    return compare(QUICK, settings, out, reporter=reporter, seeds=seeds, minutes=minutes, command=command)


def _call(**arguments: Any) -> str:
    """A comparison as Python asks for it."""
    return f"seqloom.compare({', '.join(f'{name}={value!r}' for name, value in arguments.items() if value)})"


def ladder_for(data: str | None) -> tuple[str, ...]:
    """The presets to compare when none are named: models of images for a folder, an idx file and a bundled set of
    images, models of pairs for aligned files (`F.src,F.tgt`), a .tsv file and a bundled corpus of pairs, language
    models for everything else."""
    if data is None:
        return TextContest.presets
    contests: dict[str, type[Contest]] = {"images": ImageContest, "pairs": PairContest}
    return contests.get(data_kind(data), TextContest).presets


def _entrants(
    sources: Sequence[str | Path], settings: list[Setting], variations: list[tuple[str, ...]]
) -> list[Entrant]:
    """What takes part: each finished run once, each configuration with every variation."""
    entrants: list[Entrant] = []
    for source in sources:
        if str(source) not in preset_names() and Path(source).is_dir():
            entrants.append(_finished(Path(source)))
            continue
        for varied in variations:
            values = [setting.partition("=")[2] for setting in varied]
            name = "-".join(values if values and len(sources) == 1 else [Path(source).stem, *values])
            config = load_config(source, [*settings, *varied])
            description = ", ".join([config.description, *varied])
            entrants.append(Entrant(name, config.model_copy(update={"description": description})))
    if not entrants:
        raise UserError("nothing to compare: name presets, configuration files or run folders")
    names = [entrant.name for entrant in entrants]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{twice!r} is in the comparison twice; give the files different names")
    return entrants


def _finished(path: Path) -> Entrant:
    """A run that takes part as it is, under its path."""
    folder = RunFolder.open(path)
    if not folder.finished:
        raise UserError(f"the run in {path} is not finished: go on with `seqloom train --resume --out {path}`")
    return Entrant(str(path), folder.config, path)


def _variations(vary: Iterable[str]) -> list[tuple[str, ...]]:
    """All combinations of the values to vary, each as settings; one of no settings where nothing varies."""
    choices = []
    for variation in vary:
        key, _, values = variation.partition("=")
        if not key or not all(values.split(",")):
            raise UserError(f"--vary {variation}: write a key and its values, e.g. --vary model.features.size=64,128")
        if key == "seed":
            raise UserError(f"--vary {variation}: all models are trained with the same seeds; --seeds 3 takes three")
        choices.append([f"{key}={value}" for value in values.split(",")])
    return list(product(*choices))


def _contest(entrants: Sequence[Entrant]) -> type[Contest]:
    """What all of them can be compared by; a mixture is refused."""
    contests = {}
    for entrant in entrants:
        contest = kind_named(entrant.config.model.kind).contest
        if contest is None:
            raise UserError(
                f"{entrant.name!r} is a model of kind {entrant.config.model.kind!r}, and there is nothing to compare "
                "these by: name models of text, of pairs, or of images that have a likelihood"
            )
        if isinstance(entrant.config.data, TaskData):
            raise UserError(
                f"{entrant.name!r} learns several tasks, and models are compared by one: train it on pairs first "
                "(data.kind=pairs)"
            )
        contests[contest] = entrant
    if len(contests) > 1:
        one, other, *_ = contests.values()
        raise UserError(
            f"{one.name!r} learns from {one.config.data.noun} and {other.name!r} from {other.config.data.noun}: there "
            "is nothing to compare them by; name models of one family only"
        )
    return next(iter(contests))


class Planned(NamedTuple):
    """A run of the comparison: trained into `path`, unless it is there already."""

    number: int
    """Of its rung, from 1."""
    name: str
    path: Path
    config: RunConfig
    said: str
    """What it is, for those who wait."""
    given: bool = False
    """Whether it is among the sources, and none of this comparison's own."""


def _plan(entrants: Sequence[Entrant], configs: dict[str, RunConfig], out: Path, seeds: int) -> list[Planned]:
    """All runs in their order. The first seed of a model has the folder of its name, so that seeds can be added to a
    comparison later; further ones stand beside it. Refuses folders that hold other runs."""
    plan = []
    for number, entrant in enumerate(entrants, start=1):
        if entrant.run is not None:
            plan.append(Planned(number, entrant.name, entrant.run, entrant.config, entrant.config.description, True))
            continue
        first = configs[entrant.name]
        several = _seeds(first, seeds)
        for seed in range(first.seed, first.seed + several):
            config = first.model_copy(update={"seed": seed})
            path = out / (entrant.name if seed == first.seed else f"{entrant.name}-seed-{seed}")
            said = config.description + (f", seed {seed}" if several > 1 else "")
            plan.append(Planned(number, entrant.name, path, config, said))
    paths = [planned.path for planned in plan]
    for planned in plan:
        if paths.count(planned.path) > 1:
            raise UserError(f"{planned.path} would hold two runs of this comparison; give the files different names")
        if not planned.given:
            RunFolder(planned.path).check_same(planned.config)
    return plan


def _seeds(config: RunConfig, seeds: int) -> int:
    """With how many seeds a model is trained."""
    return 1 if kind_named(config.model.kind).deterministic else seeds


def _sharing(configs: dict[str, RunConfig], minutes: float | None, seeds: int) -> dict[str, RunConfig]:
    """The same models with an equal share of the minutes for every training by steps; others need next to no time."""
    trained = {name: config for name, config in configs.items() if config.model.objectives}
    runs = sum(_seeds(config, seeds) for config in trained.values())
    if minutes is None or not runs:
        return configs
    shared = {
        name: config.model_copy(update={"training": config.training.model_copy(update={"minutes": minutes / runs})})
        for name, config in trained.items()
    }
    return configs | shared


def _expected(plan: Sequence[Planned], reporter: Reporter, processes: Processes) -> list[float | None]:
    """How many seconds each run will take, as far as that can be known; said before anything is trained."""
    waiting = {planned.path: planned for planned in plan if not RunFolder(planned.path).finished}
    if isinstance(reporter, Silent) or processes.world > 1 or len(waiting) < 2:
        return [None] * len(plan)
    reporter.say("timing a few steps of each model")
    models = {planned.name: planned.config for planned in waiting.values()}  # each once, however many seeds
    seconds = {name: foreseen(config, processes) for name, config in models.items()}
    unknown = [name for name, each in seconds.items() if each is None]
    expected = [seconds[planned.name] if planned.path in waiting else 0.0 for planned in plan]
    aside = f", not counting {', '.join(unknown)}" if unknown else ""
    reporter.say(f"{about(sum(each or 0.0 for each in expected))} for all of them{aside}")
    return expected


def _runs(
    plan: Sequence[Planned], models: int, reporter: Reporter, main: bool, timetable: Timetable
) -> Iterator[tuple[str, Trained]]:
    """All runs in turn, trained or opened when they are asked for."""
    for place, (number, name, path, config, said, given) in enumerate(plan):
        timetable.begin()
        reporter.after = timetable.left(place + 1)
        if main:
            left = timetable.left(place)
            time = f" ({about(left)} left)" if left else ""
            reporter.say(f"model {number} of {models}: {name}: {said}{time}")
        folder = RunFolder(path)
        if not folder.finished:
            yield name, train_into(folder, config, goes_on=folder.begun, reporter=reporter)
            continue
        own = main and not given
        with locked(path) if own else nullcontext():  # by nobody else; what one that was killed here left is cleared
            trained = load(path, config.training.device)
            if own and not (path / REPORT).is_file():
                engine.write_report(trained)
        yield name, trained

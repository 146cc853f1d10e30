"""Captioners: an encoder reads an image, a decoder writes what is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema.captioner import CaptionerConfig
from seqloom.config.schema.data import CaptionData
from seqloom.data.caption_batches import CaptionBatch, CaptionStore
from seqloom.data.captions import CaptionedImages
from seqloom.data.image_batches import as_floats
from seqloom.data.image_format import ImageFormat
from seqloom.data.materials import CaptionMaterials, held_out_captions, prepare_captions
from seqloom.data.samplers import Shuffled
from seqloom.data.sights import FeatureSights, Named, PixelSights, Sight, Sights
from seqloom.data.stream import Stream
from seqloom.errors import UserError
from seqloom.keywords import hinted
from seqloom.metrics.cider import TextCider
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.captioner import Captioner
from seqloom.nn.output import OutputLayout
from seqloom.progress import watched
from seqloom.reports.captions import ImageAttention, captions_section
from seqloom.reports.run_report import outputs_section
from seqloom.runs.assets import Assets
from seqloom.runs.capabilities import Captions
from seqloom.runs.conditional_model import Draft, HeldOut, Search, TrainedConditional, validated
from seqloom.runs.generation import Decoding, Generated
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.language_model import listed
from seqloom.runs.learning import learning
from seqloom.runs.neural_words import start_embedding, word_layout
from seqloom.runs.scores import Score
from seqloom.runs.stages import Steps
from seqloom.text.tokenizer import Tokenizer

BATCH = 200  # captions read together
HYPOTHESES = 1000  # decoded together
SHOWN = 8  # images in the report
CAPTIONED = 1000  # images that its scores are taken from, at most

Images = NDArray[Any] | str | Path | Sequence[Named] | Sequence[Sight]
"""Images [count, height, width], or [..., 3] in colour; Pillow's; or what names them: files, folders, `scenes:test`.
Where a run reads features: those of images, [count, places, size], or the files that have them."""


@dataclass(frozen=True)
class CaptionerAssets(Assets):
    """The tokeniser of captions, what images are like, and what the output layer must know of the words."""

    tokenizer: Tokenizer
    images: ImageFormat
    output: OutputLayout


@dataclass(frozen=True)
class Caption(Generated):
    """One generated caption."""

    attention: ImageAttention | None = None
    """Where the model looked for each of its tokens, when asked for."""


class TrainedCaptioner(TrainedConditional, Captions):
    """A captioner with its tokeniser: images in, captions and numbers out."""

    model: Captioner
    scored = "all captions"

    @property
    def images(self) -> ImageFormat:
        """What images the model reads."""
        return self.assets.images

    @cached_property
    def sights(self) -> Sights:
        """How it reads them: as pixels, or as the features of another encoder."""
        if self.config.data.features is not None:
            return FeatureSights(self.path, self.images)
        return PixelSights(self.path, self.images, self.config.data.margin)

    def see(self, images: Sequence[Named] = (), features: str | Path | None = None) -> Iterator[Sight]:
        """Images by their names. Where the run reads features: those that a file has of these images, or of all."""
        return self.sights.named(images, features)

    # ------------------------------------------------------------------------------------------------ generating

    @hinted(Decoding)
    def generate(
        self,
        images: Images,
        decoding: Decoding | None = None,
        first: int = 0,
        prefix: str = "",
        attention: bool = False,
        features: str | Path | None = None,
        **options: Any,
    ) -> list[list[Caption]]:
        """The captions of some images: for each, `n_best`, best first.

        Images are brought to the size and the channels that the model reads. What comes out for an image does not
        depend on the others. Options are the fields of `Decoding`: strategy (beam search when not given), beam,
        length_penalty, n_best, max_length, temperature, ...

        first: the number of the first image when many are captioned in pieces; samples depend on it.
        prefix: what each caption shall begin with.
        attention: whether to return where the model looked.
        features: where the run reads features, the file that has those of the images.
        """
        decoding = Decoding.of(decoding, options)
        decoding = replace(decoding, strategy=decoding.strategy or "beam")
        if decoding.coverage_penalty or decoding.replace_unknown:
            raise UserError("images have no words: coverage_penalty and replace_unknown are for models of pairs")
        sights = self._sights(images, features)
        if attention and not all(sight.picture is not None for sight in sights):
            raise UserError(
                f"{self.path} reads features: where it looked is drawn on images, given beside their features, and "
                "where the number of places is that of a square"
            )
        sources = np.stack([sight.source for sight in sights])
        search = Search(
            self.model,
            self.steps_in(decoding.precision),
            lambda numbers: as_floats(sources[numbers]).to(self.device),
            [self.tokenizer.encode(prefix)] * len(sources),
            decoding,
            first,
            looks=attention,
        )
        rows = max(1, HYPOTHESES // decoding.rows)
        captions = []
        starts = range(0, len(sources), rows)
        for start in watched(starts, "batches of images", len(starts)):
            numbers = np.arange(start, min(start + rows, len(sources)))
            for drafts in search.drafts(numbers, decoding.limits()):
                captions.append([self._written(draft, sights[draft.number], attention) for draft in drafts])
        return captions

    @hinted(generate)
    def caption(self, images: Images, **options: Any) -> list[str]:
        """The best caption of each image, as text."""
        return [several[0].text for several in self.generate(images, **options)]

    def _sights(self, images: Images, features: str | Path | None = None) -> list[Sight]:
        """Images as the model reads them."""
        if isinstance(images, np.ndarray):
            sights = list(self.sights.of_array(images))
        else:
            several = [images] if isinstance(images, str | Path) else list(images)
            shown = [each for each in several if isinstance(each, Sight)]
            sights = shown or list(self.see([each for each in several if not isinstance(each, Sight)], features))
        if not sights:
            raise UserError("there are no images to caption")
        return sights

    def _written(self, draft: Draft, sight: Sight, attention: bool) -> Caption:
        """A draft as text."""
        text, log_prob = self.tokenizer.decode(draft.tokens), draft.hypothesis.log_prob
        shown = None
        if attention and sight.picture is not None:
            grid = draft.weights.reshape(-1, *self.model.encoder.grid)
            shown = ImageAttention(sight.picture, self.tokenizer.tokens(draft.tokens), grid, text, log_prob)
        return Caption(text, log_prob, len(draft.hypothesis.tokens), draft.hypothesis.finished, shown)

    # --------------------------------------------------------------------------------------------------- scoring

    def score(self, images: Images, captions: str | Sequence[str]) -> list[Score]:
        """log p(caption | image) of each image with its caption; tokens with `<eos>` counted, and unknown ones."""
        sources, captions = [sight.source for sight in self._sights(images)], listed(captions)
        if len(sources) != len(captions):
            raise UserError(f"there are {len(sources)} images and {len(captions)} captions: give one for each image")
        return self.caption_scores(CaptionedImages(np.stack(sources), tuple((caption,) for caption in captions)))

    def caption_scores(self, captioned: CaptionedImages) -> list[Score]:
        """log p of every caption given its image, in order."""
        return self.target_scores(CaptionStore(captioned, self.tokenizer).batches(BATCH))

    def log_prob(self, images: Images, captions: str | Sequence[str]) -> list[float]:
        """Natural log-probability of each caption given its image."""
        return [score.log_prob for score in self.score(images, captions)]

    def held_out(self, files: str | None = None) -> HeldOut:
        """The images of a source with their captions, or the run's test or validation images."""
        captioned = held_out_captions(self.config.data, files)
        batches = validation_batches(CaptionStore(captioned, self.tokenizer))
        return HeldOut(captioned.images, list(map(list, captioned.captions)), batches)

    def own_scores(self, outputs: list[str], references: list[list[str]]) -> dict[str, Scored]:
        """CIDEr-D, which weighs words by how many of these images they are said of."""
        scores = TextCider(references).scores(outputs, references)
        signature = self.signed("mean, times 100 (of 1000)", "document frequencies of these references")
        return {"CIDEr-D": Scored(100 * float(scores.mean()), signature)}


class CaptionerKind(Kind[CaptionMaterials, CaptionerAssets, TrainedCaptioner]):
    """Any image encoder, decoder and output layer, trained on images with their captions."""

    config = CaptionerConfig
    assets = CaptionerAssets
    trained = TrainedCaptioner
    next_step = "generate {run} --image ..."

    def prepare(self, config: RunConfig, kept: CaptionerAssets | None) -> tuple[CaptionMaterials, CaptionerAssets]:
        materials = prepare_captions(config, kept.tokenizer if kept else None)
        if kept is None:
            tokenizer = materials.tokenizer
            layout = word_layout(config.model.output, materials.train.captions.tokens, tokenizer)
            kept = CaptionerAssets(tokenizer, materials.images, layout)
        return materials, kept

    def build(self, config: RunConfig, assets: CaptionerAssets) -> Captioner:
        return Captioner(config.model, assets.images.shape, assets.tokenizer.size, assets.output)

    def begin(
        self, model: Captioner, config: RunConfig, assets: CaptionerAssets, data: CaptionMaterials
    ) -> Iterable[str]:
        return start_embedding(model.embedding.weight, assets.tokenizer, config.model.embedding.vectors)

    def stages(self, work: Work[CaptionMaterials, CaptionerAssets]) -> Iterator[Steps]:
        config, model, materials = work.config, work.model, work.data
        data: CaptionData = config.data
        counts = f"{len(materials.train.images):,} images; validation: {len(materials.valid.images):,}"
        work.reporter.say(f"training: {counts}")
        yield learning(
            work,
            work.assets.tokenizer,
            Stream(materials.train, Shuffled(len(materials.train), data.batch_size), config.seed),
            lambda: validated(model, validation_batches(materials.valid)),
            lambda: materials.train.captioned.captions,
            lambda: first_captions(materials.valid),
            materials.train,
            materials.valid,
        )

    def report(self, trained: TrainedCaptioner) -> Report:
        evaluation = trained.evaluate(limit=CAPTIONED)
        step = max(1, len(evaluation.outputs) // SHOWN)
        chosen = list(range(0, len(evaluation.outputs), step))[:SHOWN]
        references = [evaluation.references[number] for number in chosen]
        if trained.config.data.features is not None:
            outputs = [evaluation.outputs[number] for number in chosen]
            rows = zip(chosen, references, outputs, strict=True)
            section = outputs_section([(f"image {number + 1}", several[0], output) for number, several, output in rows])
        else:
            shown = trained.generate(np.asarray(evaluation.sources)[chosen], attention=True)
            looks = [several[0].attention for several in shown]
            examples = [(look, several) for look, several in zip(looks, references, strict=True) if look is not None]
            section = captions_section(examples)
        scores = {name: score.value for name, score in evaluation.scores.items()}
        return Report({"images captioned": len(evaluation.outputs), **scores}, [section])


def validation_batches(captions: CaptionStore) -> Iterator[CaptionBatch]:
    """All captions once, each with its image."""
    return (batch for _, batch in captions.batches(BATCH))


def first_captions(captions: CaptionStore) -> Iterator[CaptionBatch]:
    """Every image once, with its first caption."""
    numbers = np.unique(captions.owners, return_index=True)[1]
    for first in range(0, len(numbers), BATCH):
        yield captions.batch(numbers[first : first + BATCH])


KIND = CaptionerKind()

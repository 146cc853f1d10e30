"""Images from text, patch by patch: a decoder that attends to a sentence writes an image in the codes of a codebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema.data import CaptionData
from seqloom.config.schema.text_to_patches import TextToPatchesConfig
from seqloom.data.caption_batches import CaptionStore
from seqloom.data.captions import CaptionedImages
from seqloom.data.codebook import FIRST, Codebook, as_pairs
from seqloom.data.image_batches import as_floats
from seqloom.data.image_format import ImageFormat
from seqloom.data.materials import Split, prepare_captions
from seqloom.data.pair_batches import EncodedPairs, PairBatch
from seqloom.data.samplers import Shuffled
from seqloom.data.stream import Stream
from seqloom.decoding import Greedy, Limits, Sampler, generate
from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.protocol import StepModel
from seqloom.decoding.side_by_side import side_by_side
from seqloom.errors import CheckpointError, DataError
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.text_to_patches import TextToPatches
from seqloom.nn.output.noise import unigram_noise
from seqloom.progress import remark
from seqloom.runs.assets import FORMATS, Assets, Format, save_named
from seqloom.runs.capabilities import Pixels
from seqloom.runs.conditional_model import validated
from seqloom.runs.drawing import TrainedPainter, shown
from seqloom.runs.image_model import as_pixels
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.neural_words import count_words, start_embedding
from seqloom.runs.stages import Steps
from seqloom.text.tokenizer import Tokenizer
from seqloom.training import build_objective, load_weights

BATCH = 100  # sentences read together
DRAWN = 200  # images drawn together

Pairs = Split[EncodedPairs]


@dataclass(frozen=True)
class TextToPatchesAssets(Assets):
    """The tokenisers of captions and of images."""

    tokenizer: Tokenizer
    codebook: Codebook

    @property
    def images(self) -> ImageFormat:
        """What images are like."""
        return ImageFormat(self.codebook.shape)


def _save_codebook(codebook: Codebook, path: Path) -> None:
    save_named({"codes": codebook.codes, "image": torch.tensor([codebook.height, codebook.width])}, path)


def _read_codebook(path: Path) -> Codebook:
    tensors = load_weights(path)
    try:
        if tensors["image"].dtype != torch.int64:
            raise DataError("the size of its images is not in whole numbers")
        height, width = tensors["image"].tolist()
        return Codebook(tensors["codes"], height, width)
    except (DataError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} holds no codebook ({error}): bring it back, or train again") from None


FORMATS[Codebook] = Format(".safetensors", _save_codebook, _read_codebook)


class TrainedTextToPatches(TrainedPainter):
    """A model that writes images, patch by patch."""

    model: TextToPatches

    @property
    def codebook(self) -> Codebook:
        """How images become tokens."""
        return self.assets.codebook

    @cached_property
    def steps(self) -> StepModel:
        """The model as draws use it: on a GPU, its steps are recorded and replayed."""
        return GraphSteps(self.model) if self.device.type == "cuda" else self.model

    # -------------------------------------------------------------------------------------------------- drawing

    def draw(
        self,
        texts: str | Sequence[str],
        seed: int = 0,
        n: int = 1,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> Pixels:
        """`n` images of each text, those of one text together: [texts · n, height, width], or [..., 3] in colour.

        Codes are drawn as words are: `temperature`, `top_k` and `top_p` as in `Sampler`, and with temperature 0 the
        most probable code at every place. A text is drawn the same whatever stands beside it. An error names a word
        that the model does not know.
        """
        texts = self.known(texts)
        return self._drawn(texts, [0] * len(texts), n, _chooser(seed, temperature, top_k, top_p))

    def draw_each(
        self,
        texts: Sequence[str],
        seed: int = 0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> Pixels:
        """One image of each text, each by draws of its own; what is unknown reads `<unk>`."""
        return self._drawn(texts, range(len(texts)), 1, _chooser(seed, temperature, top_k, top_p))

    def _drawn(self, texts: Sequence[str], numbers: Sequence[int], n: int, chooser: Greedy | Sampler) -> Pixels:
        """`n` images of each text; draws depend on its number."""
        limits = Limits(max_length=self.codebook.length)

        def drawn(first: int) -> Pixels:
            some = slice(first, first + rows)
            source = self.source_of(texts[some])
            prompts: list[list[int]] = [[]] * len(source.tokens)
            codes = generate(self.steps, prompts, chooser, limits, source, n, numbers[some])
            return as_pixels(self.codebook.decode(torch.tensor([each.tokens for each in codes])))

        rows = max(1, DRAWN // n)
        firsts = range(0, len(texts), rows)
        on_processor = self.device.type == "cpu"
        return np.concatenate(list(side_by_side(drawn, firsts) if on_processor else map(drawn, firsts)))

    # ------------------------------------------------------------------------------------------------- measuring

    @torch.inference_mode()
    def log_prob(self, images: CaptionedImages) -> NDArray[np.float64]:
        """log p(codes of the image | caption) for each caption, exactly."""
        pairs = as_pairs(CaptionStore(images, self.tokenizer), self.codebook)
        scores = []
        for batch in all_pairs(pairs):
            here = batch.to(self.device)
            scores.append(self.model.log_prob(here.targets, self.model.source_of(here)).double())
        return torch.cat(scores).cpu().numpy()

    def put_back(self, images: Pixels) -> Pixels:
        """What is left of images in their codes: no drawing can be better."""
        return as_pixels(self.codebook.decode(torch.from_numpy(self.codebook.encode(images)).long()))

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """How probable the codes of images are, and what is lost by taking codes for them."""
        return self.measure(self.captioned(source))

    def measure(self, captioned: CaptionedImages) -> dict[str, Scored]:
        """The figures of some images."""
        log_prob = float(self.log_prob(captioned).mean())
        lost = as_floats(captioned.images) - as_floats(self.put_back(captioned.images))
        count, size = len(self.codebook.codes), self.codebook.size
        book = f"codebook of {count} patches of {size}×{size}"
        exact = self.signed(
            "log p(codes | caption), exact for the quantised image, not a density of its pixels",
            book,
            "natural logarithms per image",
        )
        return {
            "log_prob": Scored(log_prob, exact),
            "perplexity": Scored(float(np.exp(-log_prob / self.codebook.length)), self.signed("per code", book)),
            "quantisation_error": Scored(
                float(lost.square().mean()), self.signed("mean square of what codes change of a pixel", book)
            ),
            "images": Scored(len(captioned), self.signed(book)),
        }


class TextToPatchesKind(Kind[Pairs, TextToPatchesAssets, TrainedTextToPatches]):
    """A codebook learned by k-means; then maximum likelihood of the codes of images, given their captions."""

    config = TextToPatchesConfig
    assets = TextToPatchesAssets
    trained = TrainedTextToPatches
    next_step = "images draw {run} ..."

    def prepare(self, config: RunConfig, kept: TextToPatchesAssets | None) -> tuple[Pairs, TextToPatchesAssets]:
        materials = prepare_captions(config, kept.tokenizer if kept else None)
        if kept is None:
            part: TextToPatchesConfig = config.model
            remark(f"learning a codebook of {part.codes:,} patches")
            codebook = Codebook.learned(materials.train.images, part.patch, part.codes, config.seed)
            kept = TextToPatchesAssets(materials.tokenizer, codebook)
        return Split(as_pairs(materials.train, kept.codebook), as_pairs(materials.valid, kept.codebook)), kept

    def build(self, config: RunConfig, assets: TextToPatchesAssets) -> TextToPatches:
        codebook = assets.codebook
        return TextToPatches(config.model, codebook.grid, assets.tokenizer.size, codebook.vocabulary_size)

    def begin(self, model: TextToPatches, config: RunConfig, assets: TextToPatchesAssets, data: Pairs) -> Iterable[str]:
        counts = count_words(data.train.target.tokens, assets.codebook.vocabulary_size)
        model.begin_at(unigram_noise(counts[FIRST:], 1.0))
        weight, vectors = model.source_embedding.weight, config.model.embedding.vectors
        return start_embedding(weight, assets.tokenizer, vectors)

    def stages(self, work: Work[Pairs, TextToPatchesAssets]) -> Iterator[Steps]:
        config, model, pairs = work.config, work.model, work.data
        data: CaptionData = config.data
        yield Steps(
            model,
            build_objective(config.objective),
            Stream(pairs.train, Shuffled(len(pairs.train), data.batch_size), config.seed),
            lambda: validated(model, all_pairs(pairs.valid)),
            config.training,
        )

    def report(self, trained: TrainedTextToPatches) -> Report:
        from seqloom.reports.text_to_image import codebook_section

        measured, _, images, section = shown(trained)
        figures = {name: score.value for name, score in trained.measure(measured).items()}
        book = codebook_section(as_pixels(trained.codebook.codes), images, trained.put_back(images))
        return Report(figures, [section, book])


def all_pairs(pairs: EncodedPairs) -> Iterator[PairBatch]:
    """All captions once, each with the codes of its image."""
    for first in range(0, len(pairs), BATCH):
        yield pairs.batch(np.arange(first, min(first + BATCH, len(pairs))))


def _chooser(seed: int, temperature: float, top_k: int | None, top_p: float | None) -> Greedy | Sampler:
    return Sampler(temperature, top_k, top_p, seed) if temperature else Greedy()


KIND = TextToPatchesKind()

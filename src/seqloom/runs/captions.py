"""A trained captioner with its tokeniser: images in, captions and numbers out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema import CaptionerConfig
from seqloom.data.buckets import padded
from seqloom.data.caption_batches import CaptionStore
from seqloom.data.captions import CaptionedImages
from seqloom.data.image_batches import as_floats
from seqloom.data.pictures import fitted, open_pictures
from seqloom.data.ragged import Ragged
from seqloom.decoding import Hypothesis
from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.protocol import StepModel
from seqloom.errors import UserError
from seqloom.models.captioner import Captioner, build_captioner
from seqloom.nn.output import planned
from seqloom.reports.captions import ImageAttention
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import Decoding, Generated, Score
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.language import listed
from seqloom.text import Tokenizer
from seqloom.text.special import UNK
from seqloom.training import choose_device, load_model_weights, load_weights

BATCH = 200  # images encoded together
HYPOTHESES = 1000  # decoded together

Pixels = NDArray[np.uint8]
Images = Pixels | str | Path | Sequence[str | Path | Image.Image]
"""Images [count, height, width], or [..., 3] in colour; Pillow's; or what names them: files, folders, `scenes:test`."""


@dataclass(frozen=True)
class Caption(Generated):
    """One generated caption."""

    attention: ImageAttention | None = None
    """Where the model looked for each of its tokens, when asked for."""


class TrainedCaptioner:
    """What `seqloom.load` gives back for a captioner."""

    def __init__(
        self, model: Captioner, tokenizer: Tokenizer, images: ImageFormat, config: RunConfig, path: Path
    ) -> None:
        self.model, self.tokenizer, self.images, self.config, self.path = model, tokenizer, images, config, path

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedCaptioner:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, tokenizer, images = folder.config(), folder.tokenizer(), ImageFormat.read(folder)
        assert isinstance(config.model, CaptionerConfig)
        weights = load_weights(folder.weights_file)
        model = build_captioner(config.model, images.shape, tokenizer.size, planned(weights))
        load_model_weights(model, weights, str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), tokenizer, images, config, folder.path)

    # ------------------------------------------------------------------------------------------------ generating

    def generate(
        self,
        images: Images,
        decoding: Decoding | None = None,
        first: int = 0,
        prefix: str = "",
        attention: bool = False,
        **options: Any,
    ) -> list[list[Caption]]:
        """The captions of some images: for each, `n_best`, best first.

        Images are brought to the size and the channels that the model reads. What comes out for an image does not
        depend on the others. Options are the fields of `Decoding`: strategy (beam search when not given), beam,
        length_penalty, n_best, max_length, temperature, ...

        first: the number of the first image when many are captioned in pieces; samples depend on it.
        prefix: what each caption shall begin with.
        attention: whether to return where the model looked.
        """
        decoding = decoding or Decoding(**options)
        decoding = replace(decoding, strategy=decoding.strategy or "beam")
        if decoding.coverage_penalty or decoding.replace_unknown:
            raise UserError("images have no words: coverage_penalty and replace_unknown are for models of pairs")
        pixels = self.pixels(images)
        begun = self.tokenizer.encode(prefix)
        rows = max(1, HYPOTHESES // (decoding.beam if decoding.strategy == "beam" else decoding.n_best))
        captions: list[list[Caption]] = []
        for start in range(0, len(pixels), rows):
            chosen = pixels[start : start + rows]
            numbers = range(first + start, first + start + len(chosen))
            source = as_floats(chosen).to(self.device)
            found = decoding.run(self._steps, [begun] * len(chosen), numbers, decoding.limits(), source)
            looks = self._looked(found, begun, chosen, source) if attention else None
            for several in found:
                captions.append(
                    [
                        Caption(
                            self.tokenizer.decode([*begun, *each.tokens]),
                            each.log_prob,
                            len(each.tokens),
                            next(looks) if looks else None,
                        )
                        for each in several
                    ]
                )
        return captions

    def caption(self, images: Images, **options: Any) -> list[str]:
        """The best caption of each image, as text."""
        return [several[0].text for several in self.generate(images, **options)]

    def pixels(self, images: Images) -> Pixels:
        """Images as the model reads them: [count, height, width], or [..., 3] in colour."""
        channels, height, width = self.images.shape
        if isinstance(images, np.ndarray):
            if images.dtype != np.uint8 or images.ndim not in (3, 4):
                raise UserError("images are arrays of bytes, [count, height, width] or [count, height, width, 3]")
            pictures: Iterator[Image.Image] = map(Image.fromarray, images)
        else:
            pictures = _pictures([images] if isinstance(images, str | Path) else images)
        found = [fitted(picture, width, height, channels == 3) for picture in pictures]
        if not found:
            raise UserError("there are no images to caption")
        return np.stack(found)

    @torch.inference_mode()
    def _looked(
        self, found: list[list[Hypothesis]], begun: list[int], pixels: Pixels, source: Tensor
    ) -> Iterator[ImageAttention]:
        """Where the model looked for each hypothesis: all are read once more, at once."""
        owners = [number for number, several in enumerate(found) for _ in several]
        flat = [hypothesis for several in found for hypothesis in several]
        rows = [[*begun, *each.tokens] for each in flat]
        tokens, lengths = padded(Ragged.of_rows(rows), np.arange(len(rows)))
        weights = self.model.attention(tokens.to(self.device), source[torch.tensor(owners)])
        grids = weights.float().unflatten(2, self.model.encoder.grid).cpu().numpy()
        for row, number, grid, length, each in zip(rows, owners, grids, lengths.tolist(), flat, strict=True):
            words = self.tokenizer.tokens(row)
            yield ImageAttention(pixels[number], words, grid[:length], self.tokenizer.decode(row), each.log_prob)

    @cached_property
    def _steps(self) -> StepModel:
        """The model as searches use it: on a GPU, its steps are recorded and replayed."""
        return GraphSteps(self.model) if self.device.type == "cuda" else self.model

    # --------------------------------------------------------------------------------------------------- scoring

    def score(self, images: Images, captions: str | Sequence[str]) -> list[Score]:
        """log p(caption | image) of each image with its caption; tokens with `<eos>` counted, and unknown ones."""
        pixels, captions = self.pixels(images), listed(captions)
        if len(pixels) != len(captions):
            raise UserError(f"there are {len(pixels)} images and {len(captions)} captions: give one for each image")
        return self.caption_scores(CaptionedImages(pixels, tuple((caption,) for caption in captions)))

    @torch.inference_mode()
    def caption_scores(self, captioned: CaptionedImages) -> list[Score]:
        """log p of every caption given its image, in order."""
        scores = []
        for _, batch in CaptionStore(captioned, self.tokenizer).batches(BATCH):
            tokens = batch.targets.to(self.device)
            log_probs = self.model.token_log_probs(tokens, batch.images).double()
            unknown = tokens == UNK
            columns = (log_probs.sum(1), batch.target_lengths, unknown.sum(1), log_probs.masked_fill(unknown, 0).sum(1))
            scores += [Score(*figures) for figures in zip(*(column.tolist() for column in columns), strict=True)]
        return scores

    def log_prob(self, images: Images, captions: str | Sequence[str]) -> list[float]:
        """Natural log-probability of each caption given its image."""
        return [score.log_prob for score in self.score(images, captions)]

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; of weights that are tied, each once."""
        return self.model.parameter_count

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.model.device


def _pictures(images: Sequence[str | Path | Image.Image]) -> Iterator[Image.Image]:
    for image in images:
        if isinstance(image, Image.Image):
            yield image
        else:
            yield from (picture for _, picture in open_pictures(image))

"""Trained models of images given sentences: texts in, pictures out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema import TextToImageConfig
from seqloom.data.buckets import padded
from seqloom.data.caption_batches import CaptionStore
from seqloom.data.captions import CaptionedImages
from seqloom.data.described_batches import DescribedBatch
from seqloom.data.ragged import Ragged
from seqloom.errors import DataError, UserError, did_you_mean
from seqloom.metrics import Scored
from seqloom.models.latent import divergence
from seqloom.models.latent.paths import spherical
from seqloom.models.seq2seq import Source
from seqloom.models.text_to_image import TextToImage
from seqloom.nn.encoders import Encoding
from seqloom.runs.caption_materials import held_out_captions
from seqloom.runs.captions import TrainedCaptioner
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.images import Pixels, TrainedImageModel, as_pixels, seeded
from seqloom.runs.scene_judge import Judged, SceneJudge, scenes_of
from seqloom.text import Tokenizer
from seqloom.text.special import UNK
from seqloom.training import choose_device, load_model_weights, load_weights
from seqloom.version import __version__

BATCH = 100  # sentences drawn or judged together
JUDGEMENT = "per cent recognised by an image-classifier of single things; a scene is right if all its things are"


class TrainedTextToImage(TrainedImageModel):
    """What `seqloom.load` gives back for a model of images given sentences."""

    model: TextToImage

    def __init__(
        self, model: TextToImage, tokenizer: Tokenizer, images: ImageFormat, config: RunConfig, path: Path
    ) -> None:
        super().__init__(model, config, path)
        self.tokenizer, self.images = tokenizer, images

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedTextToImage:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, tokenizer, images = folder.config(), folder.tokenizer(), ImageFormat.read(folder)
        assert isinstance(config.model, TextToImageConfig)
        model = TextToImage(config.model, images.shape, tokenizer.size)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), tokenizer, images, config, folder.path)

    # -------------------------------------------------------------------------------------------------- drawing

    def draw(self, texts: str | Sequence[str], seed: int = 0, n: int = 1, temperature: float = 1.0) -> Pixels:
        """`n` images of each text, those of one text together: [texts · n, height, width], or [..., 3] in colour.

        Codes are drawn from the prior with `temperature` for a deviation: below 1 images are more alike, and more as
        one expects them. All texts share the `n` codes that follow from the seed: a text is drawn the same whatever
        stands beside it. An error names a word that the model does not know.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        self._refuse_unknown(texts)
        return self._painted(texts, temperature * self._codes(n, seed).expand(len(texts), -1, -1))

    def sample(self, size: int, seed: int = 0, labels: Any = None, **_: Any) -> Pixels:
        """Draw held-out captions, in their order, over again if there are fewer."""
        self.refuse_classes(labels)
        captions = first_captions(self.captioned())
        return self.draw_each([captions[number % len(captions)] for number in range(size)], seed)

    def draw_each(self, texts: Sequence[str], seed: int = 0, temperature: float = 1.0) -> Pixels:
        """One image of each text, each with a code of its own; what is unknown reads `<unk>`."""
        return self._painted(texts, temperature * self._codes(len(texts), seed).unsqueeze(1))

    def interpolate(self, text: str, seed: int = 0, steps: int = 11) -> Pixels:
        """One text along the arc between two codes: what changes is what the text leaves open."""
        first, second = self._codes(2, seed)
        return self._painted([text], spherical(first, second, steps).unsqueeze(0))

    def _codes(self, count: int, seed: int) -> Tensor:
        return torch.randn(count, self.model.config.size, generator=torch.Generator().manual_seed(seed))

    def _refuse_unknown(self, texts: Sequence[str]) -> None:
        """An error that names the first word that the model has never read."""
        for text in texts:
            ids = self.tokenizer.encode(text)
            if not ids:
                raise DataError("an empty text says nothing: what shall be drawn?")
            if UNK in ids:
                word = self.tokenizer.pieces(text)[ids.index(UNK)]
                known = self.tokenizer.tokens(range(self.tokenizer.size))
                raise DataError(
                    f"{self.path} does not know the word {word!r} in {text!r}{did_you_mean(word, known)}: "
                    "it draws what the captions of its training told of"
                )

    @torch.inference_mode()
    def _painted(self, texts: Sequence[str], codes: Tensor) -> Pixels:
        """The expected images of texts with codes [texts, draws, size]."""
        found = []
        for first in range(0, len(texts), BATCH):
            encoding = self._read(texts[first : first + BATCH])
            some = codes[first : first + BATCH].transpose(0, 1).to(self.device)
            decoded = self.model.decode(some, encoding).transpose(0, 1).flatten(0, 1)
            found.append(as_pixels(self.model.pixels.mean(decoded)))
        return np.concatenate(found)

    def _read(self, texts: Sequence[str]) -> Encoding:
        ids = Ragged.encoded(list(texts), self.tokenizer)
        tokens, lengths = padded(ids, np.arange(len(texts)))
        return self.model.read(Source(tokens.to(self.device), lengths.to(self.device)))

    # -------------------------------------------------------------------------------------------------- judging

    def captioned(self, source: str | None = None) -> CaptionedImages:
        """The images of `source` with their captions, or the run's test or validation images."""
        found = held_out_captions(self.config, source)
        if found.shape != self.images.shape:
            wanted, has = (f"{width}×{height}" for _, height, width in (self.images.shape, found.shape))
            raise DataError(f"{self.path} draws images of {wanted} pixels, and those of {source} are {has}")
        return found

    @torch.inference_mode()
    def log_prob(self, images: CaptionedImages, samples: int | None = None) -> NDArray[np.float64]:  # type: ignore[override]
        """log p(image | caption) for each caption, by importance sampling with `model.test_samples` codes."""
        with seeded(0):
            found = [
                self.model.log_prob(batch, samples or self.model.config.test_samples)
                for batch in self._described(images)
            ]
        return torch.cat(found).cpu().numpy()

    def judge(self, texts: Sequence[str], images: Pixels) -> Judged | None:
        """What the run's judge finds on images that should show texts; none where there is no judge for these."""
        scenes = scenes_of(texts)
        if self._judge is None or scenes is None:
            return None
        return self._judge(images, scenes)

    @cached_property
    def _judge(self) -> SceneJudge | None:
        folder = RunFolder(self.path)
        return SceneJudge.load(folder, str(self.device)) if SceneJudge.of_run(folder) else None

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The bounds of log p(image | caption), and how much of what captions ask for is seen on drawn images."""
        return self.measure(self.captioned(source), self.model.config.test_samples)

    def measure(self, captioned: CaptionedImages, samples: int) -> dict[str, Scored]:
        """The figures of some images, with `samples` codes for each."""
        elbo, kept = self._bounds(captioned)
        scores = {
            "log_prob": Scored(
                float(self.log_prob(captioned, samples).mean()), self._said(f"importance sampling, {samples}")
            ),
            "elbo": Scored(elbo, self._said("evidence lower bound, 10")),
            "divergence": Scored(kept, f"KL(q(z | x, c) ‖ p(z)); {self.signature}"),
            "images": Scored(len(captioned), self.signature),
        }
        captions = first_captions(captioned)
        for name, images, said in (
            ("", self.draw_each(captions), "one draw for each caption, seed 0"),
            ("real_", captioned.images, "the real images"),
        ):
            found = self.judge(captions, images)
            if found is not None:
                signature = f"{JUDGEMENT}; {said}; seqloom {__version__}"
                scores[f"{name}things_right"] = Scored(found.things_right, signature)
                scores[f"{name}scenes_right"] = Scored(found.scenes_right, signature)
        return scores

    def read_back(self, captioner: TrainedCaptioner, source: str | None = None) -> dict[str, Scored]:
        """Per cent of the captions that a captioner reads off what was drawn of them, and off the real images."""
        captioned = self.captioned(source)
        words = captioner.tokenizer
        wanted = [words.decode(words.encode(text)) for text in first_captions(captioned)]
        found = {}
        for name, images, said in (
            ("", self.draw_each(first_captions(captioned)), "one draw for each caption, seed 0"),
            ("real_", captioned.images, "the real images"),
        ):
            right = [read == text for read, text in zip(captioner.caption(images), wanted, strict=True)]
            signature = f"per cent read back word for word by {captioner.path.name}; {said}; seqloom {__version__}"
            found[f"{name}captions_right"] = Scored(100 * float(np.mean(right)), signature)
        return found

    def _said(self, how: str) -> str:
        return f"log p(image | caption), {how} samples; {self.signature}"

    @property
    def signature(self) -> str:
        """How figures are computed; grey pixels have no probability under Bernoulli pixels."""
        grey = self.model.config.pixels == "bernoulli"
        said = "cross-entropy of grey pixels, no likelihood" if grey else "density of grey pixels"
        return f"{said}; natural logarithms per image; seqloom {__version__}"

    @torch.inference_mode()
    def _bounds(self, captioned: CaptionedImages) -> tuple[float, float]:
        """The evidence lower bound and the divergence in it, per image."""
        elbo = kept = 0.0
        count = 0
        with seeded(0):
            for batch in self._described(captioned):
                elbo += float(self.model.elbo(batch, 10).double().sum())
                kept += float(divergence(*self.model.posterior(batch)).double().sum())
                count += batch.tokens
        return elbo / count, kept / count

    def _described(self, captioned: CaptionedImages) -> list[DescribedBatch]:
        store = CaptionStore(captioned, self.tokenizer)
        return [DescribedBatch.of(batch).to(self.device) for _, batch in store.batches(BATCH)]

    # ------------------------------------------------------------------------------------- not for these models

    def batches(self, images: Any) -> list[Any]:
        """Images without sentences are nothing to this model."""
        raise UserError(f"{self.path} is a model of kind {self.kind!r}: it reads images together with their captions")

    def held_out(self, source: str | None = None) -> Any:
        """As `batches`."""
        raise UserError(f"{self.path} is a model of kind {self.kind!r}: it reads images together with their captions")


def first_captions(captioned: CaptionedImages) -> list[str]:
    """Of each image."""
    return [several[0] for several in captioned.captions]

"""Where the data comes from, and how it becomes batches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import DataPart, Fraction, Positive, Probability, Size, Times


class FileData(DataPart):
    """What data in files of text share."""

    train: str | list[str]
    valid: str | list[str] | None = None
    """What validation reads; without it, a part of the training data is held out."""
    test: str | list[str] | None = None
    """What `evaluate` reads when it is given nothing."""
    valid_fraction: Fraction = 0.1
    """How much of the training data is held out when `valid` is not given."""


class PictureData(DataPart):
    """What data in images share."""

    train: str
    valid: str | None = None
    """Validation images; without any, some of the training images are held out."""
    test: str | None = None
    """Images that `evaluate` uses when it is given none."""
    valid_fraction: Fraction = 0.1
    """How many of the training images are held out when `valid` is not given."""


class TextFiles(FileData):
    """Running text in files."""

    train: str | list[str] = "time-machine"
    """File (.txt, .jsonl, either gzipped), list of files, or the name of a bundled corpus."""
    unit: Literal["auto", "line", "paragraph", "file"] = "auto"
    """What ends with `<eos>`: a line, a paragraph (lines up to a blank one, joined) or the whole file. `auto`: what
    suits a bundled corpus; in your own files lines, or paragraphs where all of them were wrapped to fit a page, as
    Project Gutenberg's are."""
    field: str = "text"
    """The key that holds the text in a JSONL record, or a list of its lines, which are joined. A record is one unit,
    whatever `unit` says."""


class TextData(TextFiles):
    noun = "text"
    usual_model = "language"

    kind: Literal["text"] = "text"
    """One text, or several, cut into windows for a language model."""
    valid_fraction: Probability = 0.1
    """How much of the training text, its end, is held out when `valid` is not given; 0 (for n-grams) learns from all of
    it."""
    sampling: Literal["random", "sequential"] = "random"
    """`random`: shuffled windows, each read from an empty state. `sequential`: the text is cut into `batch_size`
    long rows and read in order, the recurrent state carried from window to window."""
    batch_size: Size = 32
    """Windows in a batch; under torchrun, over all processes together."""
    length: Size = 64
    """Window length in tokens: how far gradients flow back (τ of truncated back-propagation)."""
    apart: bool = False
    """Units that stand in one window do not see each other, and places are counted from the beginning of each
    (Transformers)."""
    reset: Probability = 0.02
    """sequential: how likely a row forgets its state before a window. A model that never begins from nothing in
    training may be lost when it must: at a prompt, at a line to score (Melis et al. 2018)."""


class PairFiles(FileData):
    """Pairs of a source and a target in files."""

    train: str | list[str] = "tatoeba-en-zh"
    """Two aligned files `F.src,F.tgt`, one .tsv (source, tab, target) or .jsonl file, any of them gzipped, a list of
    these, or the name of a bundled corpus of pairs."""
    valid_fraction: Fraction = 0.05
    """How many of the training pairs are held out when `valid` is not given: the last ones, and none whose source was
    seen before."""
    source_field: str = "source"
    """The key that holds the source in a JSONL record, a text or a list of its lines."""
    target_field: str = "target"
    """The key that holds the target in a JSONL record, a text or a list."""
    target_list: Literal["references", "lines"] = "references"
    """What such a list is: several references, of which training uses the first, or the lines of one target, which are
    joined."""
    history: Size | None = None
    """Read conversations: every turn but the first is a target, and its source the turns before it, so many at most,
    with ` | ` between them. A conversation is a JSONL record with a list of turns, or a line of a .tsv file."""
    turns_field: str = "turns"
    """The key that holds the list of turns in a JSONL record of a conversation."""
    max_length: Times | None = 256
    """Training pairs with more tokens on either side are left out (and counted)."""
    max_ratio: Positive | None = None
    """Training pairs of which one side has more than this many times the tokens of the other are left out."""


class PairData(PairFiles):
    noun = "pairs"
    usual_model = "seq2seq"

    kind: Literal["pairs"] = "pairs"
    """Pairs of a source and a target, in batches of similar length, for a sequence-to-sequence model."""
    batch_tokens: Times = 4096
    """Tokens in a batch, padding counted: rows times the longest source or target; under torchrun, in each process."""


class TaggedData(FileData):
    noun = "words with tags"
    usual_model = "tagger"

    kind: Literal["tagged"] = "tagged"
    """Sentences of words with tags, for a tagger: a line for each word, a blank one between sentences."""
    train: str | list[str] = "punctuation"
    """File (gzipped or not), list of files, or the name of a bundled corpus."""
    word_column: int = 0
    """The column of the word, the first being 0; negative numbers count from the last."""
    tag_column: int = -1
    """The column of the tag."""
    batch_tokens: Times = 1024
    """Words in a batch, padding counted; under torchrun, in each process."""


class LabelledData(FileData):
    noun = "texts with labels"
    usual_model = "classifier"

    kind: Literal["labelled"] = "labelled"
    """Texts with a label each, for a classifier."""
    train: str | list[str] = "sentence-polarity"
    """A .tsv file (label, tab, text), a .jsonl file, either gzipped, a folder with one file of texts for each label, a
    list of these, or the name of a bundled corpus."""
    label_field: str = "label"
    """The key that holds the label in a JSONL record."""
    text_field: str = "text"
    """The key that holds the text in a JSONL record, or a list of its lines, which are joined."""
    batch_tokens: Times = 2048
    """Words in a batch, padding counted; under torchrun, in each process."""


class ImageData(PictureData):
    noun = "images"
    usual_model = "vae"

    kind: Literal["images"] = "images"
    """Small images, all of one size, for models of images."""
    train: str = "digits"
    """An idx file (as MNIST is published), a folder of PNG or JPEG files, with a subfolder for each class if there are
    classes, or the name of a bundled set: `digits`, `fashion`."""
    size: Size | None = None
    """Bring all images to so many pixels in width and height; as they are, when not given."""
    values: Literal["grey", "binary", "sampled"] = "grey"
    """What a pixel becomes: its brightness from 0 to 1 (`grey`); 1 from half the brightness on, else 0 (`binary`); or 1
    with its brightness as probability (`sampled`), drawn anew whenever an image is learned from, and once for all where
    images are held out."""
    batch_size: Size = 100
    """Images in a batch; under torchrun, over all processes together."""


class CaptionData(PictureData):
    noun = "images with captions"
    usual_model = "captioner"

    kind: Literal["captions"] = "captions"
    """Images with captions, for captioners and for what draws images from text."""
    train: str = "scenes"
    """`scenes` (real digits and clothes put together, with sentences that say what stands where), a folder with a
    captions file as that of Flickr8k, a part of one (`flickr8k:train`), a .jsonl file with the keys image and caption,
    or a .tsv file of image, tab, caption."""
    valid_fraction: Fraction = 0.05
    """How many of the training images are held out, with all their captions, when `valid` is not given."""
    size: Size | None = None
    """Bring all images to so many pixels in width and height: the shorter side becomes as long, and the middle is cut
    out. As they are, when not given."""
    colour: bool = False
    """Read colours; without, brightness alone."""
    margin: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Keep images so many pixels larger than `size`: training cuts windows of that size out of them at random, and
    everything else reads the middle."""
    flip: bool = False
    """Mirror half of the images in training, chosen anew each time; not where captions tell left from right."""
    features: str | None = None
    """A safetensors file of what another encoder says of each image, under the name of its file: [size], [places, size]
    or [rows, columns, size]. They are read in place of the images, by `model.encoder.kind: features`."""
    batch_size: Size = 100
    """Captions in a batch, each with its image; under torchrun, over all processes together."""

    def check_keys(self) -> None:
        if self.margin and self.size is None:
            raise ValueError("margin is what images have around the middle of a size: set size too, or margin to 0")
        if self.features is not None and (self.size or self.colour or self.margin or self.flip):
            raise ValueError("features are read in place of images: leave size, colour, margin and flip out")

    def check_pixels(self) -> None:
        """Raise a ValueError where a model must have the images as they are."""
        if self.features is not None or self.margin or self.flip:
            raise ValueError("data.features, data.margin and data.flip are for captioners: leave them out")

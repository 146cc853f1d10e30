"""The whole configuration of a run, typed. Every field is documented where it stands; unknown keys are rejected.

The schema knows nothing of torch, so that a mistake in a file is reported at once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Size = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Fraction = Annotated[float, Field(gt=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NonNegative = Annotated[float, Field(ge=0.0)]
Start = Literal["spectral", "orthogonal", "uniform"]


class Schema(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, validate_default=True)


# ---------------------------------------------------------------------------------------------------------- text


class WordText(Schema):
    kind: Literal["words"] = "words"
    """Words and punctuation marks apart; each Chinese character is a word."""
    lowercase: bool = False
    """Lower the case of all text first."""
    min_count: Size = 1
    """Rarer words become `<unk>`."""
    max_size: Size | None = None
    """Keep at most this many words (and the four special symbols)."""


class WhitespaceText(Schema):
    kind: Literal["whitespace"] = "whitespace"
    """The text is tokenised already: words are what stands between spaces."""
    lowercase: bool = False
    """Lower the case of all text first."""
    min_count: Size = 1
    """Rarer tokens become `<unk>`."""
    max_size: Size | None = None
    """Keep at most this many tokens (and the four special symbols)."""


class CharacterText(Schema):
    kind: Literal["characters"] = "characters"
    """One token per character, spaces and newlines too."""
    lowercase: bool = False
    """Lower the case of all text first."""
    min_count: Size = 1
    """Rarer tokens become `<unk>`."""
    max_size: Size | None = None
    """Keep at most this many tokens (and the four special symbols)."""


class BpeText(Schema):
    kind: Literal["bpe"] = "bpe"
    """Byte-level byte-pair encoding: nothing is ever unknown, and decoding gives back the exact text."""
    lowercase: bool = False
    """Lower the case of all text first."""
    max_size: Annotated[int, Field(ge=260)] = 8000
    """Subwords in the vocabulary; 256 bytes and four special symbols at least."""
    min_count: Size = 2
    """How often a pair of pieces must be seen to become one."""


class UnigramText(Schema):
    kind: Literal["unigram"] = "unigram"
    """Subwords of a unigram language model (Kudo 2018)."""
    lowercase: bool = False
    """Lower the case of all text first."""
    max_size: Annotated[int, Field(ge=8)] = 8000
    """Subwords in the vocabulary, the special symbols included."""


class RunText(Schema):
    kind: Literal["run"] = "run"
    """The tokeniser of another run as it is, so that both models speak of the same tokens."""
    path: str
    """The run's folder, or a `tokenizer.json`; it is copied, and not needed again."""


TextConfig = Annotated[
    WordText | WhitespaceText | CharacterText | BpeText | UnigramText | RunText, Field(discriminator="kind")
]

# ---------------------------------------------------------------------------------------------------------- data


class DataConfig(Schema):
    """One text, or several, cut into windows for a language model."""

    train: str | list[str] = "time-machine"
    """File (.txt, .jsonl, either gzipped), list of files, or the name of a bundled corpus."""
    valid: str | list[str] | None = None
    """Validation text; without one, the end of the training text is held out."""
    test: str | list[str] | None = None
    """Text that `evaluate` uses when it is given none."""
    valid_fraction: Probability = 0.1
    """How much of the training text is held out when `valid` is not given; 0 (for n-grams) learns from all of it."""
    unit: Literal["auto", "line", "paragraph", "file"] = "auto"
    """What ends with `<eos>`: a line, a paragraph (lines up to a blank one, joined) or the whole file. `auto`: what
    suits a bundled corpus, and lines in your own files."""
    field: str = "text"
    """The key that holds the text in a JSONL record. A record is one unit, whatever `unit` says."""
    sampling: Literal["random", "sequential"] = "random"
    """`random`: shuffled windows, each read from an empty state. `sequential`: the text is cut into `batch_size`
    long rows and read in order, the recurrent state carried from window to window."""
    batch_size: Size = 32
    """Windows in a batch; under torchrun, over all processes together."""
    length: Size = 64
    """Window length in tokens: how far gradients flow back (τ of truncated back-propagation)."""
    reset: Probability = 0.02
    """sequential: how likely a row forgets its state before a window. A model that never begins from nothing in
    training may be lost when it must: at a prompt, at a line to score (Melis et al. 2018)."""


# --------------------------------------------------------------------------------------------------------- model


class EmbeddingConfig(Schema):
    size: Size = 128
    """Length of a word's vector."""
    dropout: Probability = 0.0
    """Dropout on the embedded words; one mask for the whole window (variational) when `variational`."""
    word_dropout: Probability = 0.0
    """Probability that a word type is dropped altogether from a window (embedding dropout)."""
    variational: bool = False
    """One dropout mask for all steps of a window instead of one per step."""


class AverageFeatures(Schema):
    kind: Literal["average"] = "average"
    """h_t = (1/t) Σ e_i"""


class AttentionAverageFeatures(Schema):
    kind: Literal["attention-average"] = "attention-average"
    """h_t = Σ α_i e_i with α from the last word, each word so far, and their distance"""


class FeedForwardFeatures(Schema):
    kind: Literal["feedforward"] = "feedforward"
    """Bengio et al. 2003: the last `context` words, concatenated, through hidden layers with skip connections."""
    context: Size = 4
    """How many words it sees (N - 1 of an N-gram)."""
    size: Size = 256
    """Size of the hidden layers and of the features."""
    layers: Size = 1
    """Hidden layers."""
    dropout: Probability = 0.0
    """Dropout on hidden layers and features."""


class ConvolutionFeatures(Schema):
    kind: Literal["convolution"] = "convolution"
    """Causal gated convolutions (Dauphin et al. 2017) with residuals; dilation doubles from layer to layer."""
    size: Size = 256
    """Channels of every layer, and size of the features."""
    layers: Size = 4
    """Layers; with dilation each doubles how far back they see."""
    kernel: Annotated[int, Field(ge=2)] = 3
    """How many inputs each output of a layer sees."""
    dilated: bool = True
    """Layer l skips 2^l steps; otherwise all see neighbours."""
    dropout: Probability = 0.0
    """Dropout on what each layer reads and on the features."""


class RecurrentFeatures(Schema):
    size: Size = 256
    """Size of the hidden state."""
    layers: Size = 1
    """Recurrent layers, one above the other."""
    output_size: Size | None = None
    """Size of the last layer, when it differs (to tie a smaller embedding)."""
    dropout: Probability = 0.0
    """Dropout on the output of the last layer."""
    hidden_dropout: Probability = 0.0
    """Dropout between layers."""
    weight_drop: Probability = 0.0
    """DropConnect on the recurrent matrices (Merity et al. 2018)."""
    variational: bool = True
    """One dropout mask for all time steps of a window (Gal & Ghahramani 2016) instead of one per step."""
    start: Start = "uniform"
    """How recurrent matrices begin: `spectral` scales a Gaussian matrix to spectral radius 1, `orthogonal` has all
    eigenvalues on the unit circle, `uniform` is the library's U(-1/√H, 1/√H)."""


class RnnFeatures(RecurrentFeatures):
    kind: Literal["rnn"] = "rnn"
    """Elman 1990."""
    activation: Literal["tanh", "relu"] = "tanh"
    """φ of h_t = φ(W x_t + U h_{t-1} + b)."""


class LstmFeatures(RecurrentFeatures):
    kind: Literal["lstm"] = "lstm"
    """Hochreiter & Schmidhuber 1997, with a forget gate."""


class PeepholeLstmFeatures(RecurrentFeatures):
    kind: Literal["lstm-peephole"] = "lstm-peephole"
    """LSTM whose gates see the cell (Gers & Schmidhuber 2000)."""


class CoupledLstmFeatures(RecurrentFeatures):
    kind: Literal["lstm-coupled"] = "lstm-coupled"
    """LSTM that forgets as much as it takes in (Greff et al. 2017)."""


class GruFeatures(RecurrentFeatures):
    kind: Literal["gru"] = "gru"
    """Cho et al. 2014."""


class TransformerFeatures(Schema):
    kind: Literal["transformer"] = "transformer"
    """Masked self-attention over all words so far (Vaswani et al. 2017)."""
    size: Size = 256
    """Size of the vectors between layers, and of the features; a multiple of `heads`."""
    layers: Size = 4
    """Layers, each attention and a position-wise network."""
    heads: Size = 4
    """Attention heads."""
    feedforward: Size | None = None
    """Width of the inner layer; 4 × size when not given."""
    dropout: Probability = 0.0
    """Dropout on inputs, attention weights and sub-layers."""
    positions: Literal["sinusoidal", "learned", "rotary", "relative"] = "rotary"
    """How attention learns where a word stands."""
    norm: Literal["pre", "post"] = "pre"
    """`pre`: normalise what a sub-layer reads; `post`: normalise the sum, as in the paper of 2017."""
    activation: Literal["gelu", "relu"] = "gelu"
    """Of the position-wise network."""
    context: Size = 1024
    """The longest sequence with learned positions."""

    @model_validator(mode="after")
    def heads_divide_size(self) -> TransformerFeatures:
        if self.size % self.heads:
            raise ValueError(f"size ({self.size}) must be a multiple of heads ({self.heads})")
        if self.positions == "rotary" and self.size // self.heads % 2:
            raise ValueError(f"rotary positions need an even size per head, not {self.size}/{self.heads}")
        return self


FeaturesConfig = Annotated[
    AverageFeatures
    | AttentionAverageFeatures
    | FeedForwardFeatures
    | ConvolutionFeatures
    | RnnFeatures
    | LstmFeatures
    | PeepholeLstmFeatures
    | CoupledLstmFeatures
    | GruFeatures
    | TransformerFeatures,
    Field(discriminator="kind"),
]


class SoftmaxOutput(Schema):
    kind: Literal["softmax"] = "softmax"
    tied: bool = True
    """Share the matrix with the embedding (through a projection when the sizes differ)."""


class LanguageModelConfig(Schema):
    kind: Literal["language"] = "language"
    """A deep sequence model: an embedding layer, a feature layer and an output layer."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    features: FeaturesConfig = LstmFeatures()
    output: SoftmaxOutput = SoftmaxOutput()


class NgramModelConfig(Schema):
    kind: Literal["ngram"] = "ngram"
    """Counts of n-grams, smoothed."""
    order: Annotated[int, Field(ge=1, le=32)] = 5
    """N: a word is predicted from the N - 1 before it."""
    smoothing: Literal[
        "modified-kneser-ney",
        "kneser-ney",
        "absolute",
        "laplace",
        "additive",
        "maximum-likelihood",
        "stupid-backoff",
        "imported",
    ] = "modified-kneser-ney"
    """`modified-kneser-ney` (Chen & Goodman 1998) exactly as KenLM computes it; `kneser-ney`, interpolated, with one
    discount per order; `absolute` discounting of plain counts; `laplace`: (c + ε p(lower order)) / (c(h) + ε);
    `additive`: (c + δ) / (c(h) + δ|V|); `maximum-likelihood`: c / c(h), nothing for what was not seen;
    `stupid-backoff` (Brants et al. 2007): scores, not probabilities, for very large corpora. `imported` marks a model
    read from a file."""
    prune: list[Count] = []
    """Drop n-grams seen no more often than this, per order from 1; the last number holds for higher orders. Numbers
    may not fall, and unigrams all stay: `[0, 0, 1]` drops what has three words or more and was seen once."""
    delta: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """additive: δ, added to every count."""
    epsilon: Positive | list[Positive] = 1.0
    """laplace: ε, how many counts the lower order weighs; one for all orders, or a list from order 1."""
    discounts: list[Annotated[float, Field(ge=0.0, le=1.0)]] | None = None
    """absolute and kneser-ney: fixed discounts from order 1, the last one for all higher orders; estimated from the
    counts of counts when not given."""
    backoff: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.4
    """stupid-backoff: the factor for each word of context given up."""

    @model_validator(mode="after")
    def prune_rises(self) -> NgramModelConfig:
        if self.prune[:1] not in ([], [0]):
            raise ValueError(f"prune begins with 0: unigrams are never dropped (write {[0, *self.prune]}?)")
        if sorted(self.prune) != self.prune:
            raise ValueError(f"the numbers of prune may not fall: {self.prune}")
        if self.discounts is not None and not self.discounts:
            raise ValueError("discounts is empty: give one at least, or leave it out")
        return self


class InterpolationConfig(Schema):
    kind: Literal["interpolation"] = "interpolation"
    """A mixture of trained runs that share a tokeniser: p(w | h) = Σ λ_i p_i(w | h)."""
    runs: Annotated[list[str], Field(min_length=2)]
    """The run folders, two or more; they are copied, and not needed again."""
    weights: list[NonNegative] | None = None
    """The λ_i, which sum to 1; when not given, those that make `data.train` (text that no run was trained on) most
    probable."""

    @model_validator(mode="after")
    def weights_share_one(self) -> InterpolationConfig:
        if self.weights is not None and len(self.weights) != len(self.runs):
            raise ValueError(f"{len(self.runs)} runs need as many weights, not {len(self.weights)}")
        if self.weights is not None and abs(sum(self.weights) - 1) > 1e-6:
            raise ValueError(f"weights must sum to 1, not {sum(self.weights):g}")
        return self


ModelConfig = Annotated[LanguageModelConfig | NgramModelConfig | InterpolationConfig, Field(discriminator="kind")]


# ------------------------------------------------------------------------------------------------------ training


class LikelihoodObjective(Schema):
    kind: Literal["likelihood"] = "likelihood"
    """Maximum likelihood: the cross-entropy of the next token."""
    activation: NonNegative = 0.0
    """α of activation regularisation: α · mean(h²) on the dropped-out features (Merity et al. 2017)."""
    temporal: NonNegative = 0.0
    """β of temporal activation regularisation: β · mean((h_{t+1} - h_t)²)."""


class RandomTruncationObjective(Schema):
    kind: Literal["random-truncation"] = "random-truncation"
    """Maximum likelihood with randomly truncated back-propagation through time (Tallec & Ollivier 2017)."""
    keep: Annotated[float, Field(gt=0.0, le=1.0)] = 0.9
    """π: the probability that the gradient passes a boundary; when it does, it is scaled by 1/π."""
    every: Size = 8
    """A boundary every so many steps."""


ObjectiveConfig = Annotated[LikelihoodObjective | RandomTruncationObjective, Field(discriminator="kind")]


class OptimizerConfig(Schema):
    kind: Literal["adamw", "adam", "sgd", "rmsprop", "adagrad"] = "adamw"
    """Adam with decoupled weight decay, Adam, SGD, RMSprop or Adagrad."""
    learning_rate: Positive = 1e-3
    """The peak; the schedule multiplies it."""
    weight_decay: NonNegative = 0.0
    """On matrices only: biases and norms are not decayed."""
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    """Adam's two decay rates."""
    momentum: Probability = 0.0
    """Momentum of sgd and rmsprop."""


class ScheduleConfig(Schema):
    kind: Literal["constant", "linear", "cosine", "inverse-sqrt", "plateau"] = "constant"
    """How the rate goes on after the warm-up."""
    warmup: Count = 0
    """Steps over which the rate rises from 0."""
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
    patience: Size = 5
    """triggered: start when this many validations did not beat the best before them."""
    last: Size = 5
    """checkpoints: how many."""


class TrainingConfig(Schema):
    steps: Size | None = None
    """Optimiser steps; exactly one of `steps` and `epochs` bounds the training."""
    epochs: Positive | None = None
    """Passes over the training text; a fraction is allowed."""
    minutes: Positive | None = None
    """Stop (with a checkpoint) after this much time, whatever the steps say. Schedules then follow the clock."""
    accumulate: Size = 1
    """Batches per optimiser step; gradients are normalised over all their tokens together."""
    clip: NonNegative = 1.0
    """Largest gradient norm; 0 leaves gradients as they are."""
    precision: Literal["float32", "bf16"] = "float32"
    """`bf16` computes products in bfloat16 (autocast); weights stay in float32."""
    compile: bool = False
    """`torch.compile` the layers that gain by it (Transformer): worth it on a GPU for runs of more than a minute."""
    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`, ..."""
    sharded: bool = False
    """Under torchrun: shard parameters and optimiser state (FSDP2) instead of replicating them (DDP)."""
    log_every: Size = 20
    """Steps between lines of `metrics.jsonl`."""
    validate_every: Size | None = None
    """Steps between validations; once per epoch when not given."""
    checkpoint_every: Size | None = None
    """Steps between checkpoints; when not given, at validations, but not more than twice a minute."""
    keep: Size = 2
    """How many checkpoints to keep beside the best one."""
    patience: Size | None = None
    """Stop when this many validations in a row brought no improvement."""
    tensorboard: bool = False
    """Also write TensorBoard events (needs the `track` extra)."""
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    averaging: AveragingConfig = AveragingConfig()

    @model_validator(mode="after")
    def one_bound(self) -> TrainingConfig:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give one of steps and epochs")
        return self


class LocalEngine(Schema):
    kind: Literal["local"] = "local"
    """This machine, all its cores."""
    memory: Positive = 4.0
    """How many gigabytes of memory the arrays of counting may take; those that do not fit are files on disk."""


class SparkEngine(Schema):
    kind: Literal["spark"] = "spark"
    """Apache Spark (needs the `spark` extra and Java)."""
    master: str | None = None
    """The cluster: `spark://host:7077`, `yarn`, `local[2]`, ...; when not given, what spark-submit says, or this
    machine."""


EngineConfig = Annotated[LocalEngine | SparkEngine, Field(discriminator="kind")]


class RunConfig(Schema):
    """Everything that makes a run."""

    description: str = ""
    """One line that `seqloom presets` shows."""
    seed: Count = 0
    """Weights, dropout and the order of windows follow from it."""
    text: TextConfig = WordText()
    data: DataConfig = DataConfig()
    model: ModelConfig = LanguageModelConfig()
    objective: ObjectiveConfig = LikelihoodObjective()
    training: TrainingConfig = TrainingConfig(epochs=1)
    engine: EngineConfig = LocalEngine()
    """Where n-grams are counted; `engine=spark` is short for `engine.kind=spark`."""

    @field_validator("engine", mode="before")
    @classmethod
    def named_engine(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def counted_on_spark(self) -> RunConfig:
        if self.engine.kind == "spark" and self.model.kind != "ngram":
            raise ValueError(f"engine spark counts n-grams; a model of kind {self.model.kind!r} trains on this machine")
        return self

"""BERT: a Transformer that finds hidden words from those on both sides, and so learns vectors of words in context."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from seqloom.config import RunConfig
from seqloom.config.schema.bert import BertConfig
from seqloom.config.schema.data import TextData
from seqloom.config.schema.outputs import SoftmaxOutput
from seqloom.data.corpus import Corpus
from seqloom.data.masked_texts import Blanks, Gaps, MaskedPairs, MaskedTexts
from seqloom.data.masking import MASK, Masking
from seqloom.data.materials import Split, held_out_text, open_text, text_corpora, tokenizer_for
from seqloom.data.ragged import Ragged, even_pieces
from seqloom.data.store import TokenStore
from seqloom.data.stream import Stream, sorted_batches
from seqloom.data.word_pieces import WordPieces, at_words
from seqloom.errors import ConfigError, UserError
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.bert import MaskedLanguageModel
from seqloom.runs.capabilities import Candidate, Filled, Fills, Scores
from seqloom.runs.contextual import MixesLayers, Vectors, Words
from seqloom.runs.kind import Kind, Report, Work
from seqloom.runs.language_model import listed
from seqloom.runs.neural_words import NeuralTextAssets, start_embedding, word_layout
from seqloom.runs.scores import Score, ScoredTokens, TokenScore
from seqloom.runs.stages import Figures, Steps
from seqloom.runs.trained import Trained
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.special import SPECIALS, UNK
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WordTokenizer, count_words
from seqloom.training import build_objective

BATCH_TOKENS = 4096  # tokens read together, padding counted
JUDGED = 200  # pieces of a held-out text whose every token is hidden once, which takes as many passes as it has tokens
SHOWN = 6  # pieces on the page of a run


@dataclass(frozen=True)
class BertAssets(NeuralTextAssets):
    """A tokeniser that knows [MASK], and how frequent its tokens are."""

    tokenizer: MarkedTokenizer


# ------------------------------------------------------------------------------------------------------------ trained


class TrainedBert(Trained, Scores, MixesLayers, Fills):
    """With its tokeniser, it fills blanks in, gives words vectors in context, and texts a pseudo-log-likelihood."""

    model: MaskedLanguageModel
    assets: BertAssets

    @property
    def tokenizer(self) -> MarkedTokenizer:
        """How text becomes tokens."""
        return self.assets.tokenizer

    @property
    def data(self) -> TextData:
        """How the run reads text."""
        return self.config.data

    @property
    def mask(self) -> int:
        """The id of a blank."""
        return self.tokenizer.inner.size

    # ------------------------------------------------------------------------------------------------- filling in

    @property
    def blank(self) -> str:
        """How a blank is written."""
        return self.tokenizer.marks[0]

    @torch.inference_mode()
    def fill(self, texts: str | Sequence[str], top: int = 5) -> list[Filled]:
        """For each text, whose blanks are written `[MASK]`, the `top` likeliest tokens of each blank, and the text with
        the likeliest ones in place. Of several blanks, each is filled in by itself: none knows of the others' tokens.

        One text is a list of one.
        """
        texts = listed(texts)
        rows = [self.tokenizer.encode(text) for text in texts]
        for text, row in zip(texts, rows, strict=True):
            if self.mask not in row:
                raise UserError(f"{text!r} has no blank: write {self.blank} where a word is missing")
        filled: list[Filled] = [Filled("", [])] * len(rows)
        for numbers, batch in sorted_batches(Gaps(Ragged.of_rows(rows), self.mask), BATCH_TOKENS) if rows else ():
            words = self.model.log_probs(batch.to(self.device))[:, len(SPECIALS) : self.mask].float().exp().cpu()
            best = words.topk(min(top, words.size(1)))
            found = zip((best.indices + len(SPECIALS)).tolist(), best.values.tolist(), strict=True)
            for number in numbers.tolist():
                blanks = [next(found) for _ in range(rows[number].count(self.mask))]
                candidates = [list(map(Candidate, map(self.word, ids), chances)) for ids, chances in blanks]
                filled[number] = Filled(
                    self._filled(texts[number], rows[number], [ids[0] for ids, _ in blanks]), candidates
                )
        return filled

    def _filled(self, text: str, row: list[int], best: list[int]) -> str:
        """A text and its ids, with tokens in its blanks; words that are unknown stay as they are written."""
        inner, given = self.tokenizer.inner, iter(best)
        ids = [next(given) if id == self.mask else id for id in row]
        if UNK not in row:
            return inner.decode(ids).strip()
        pieces = zip(self.tokenizer.pieces(text), row, inner.tokens(ids), strict=True)
        return inner.join(token if id == self.mask else piece for piece, id, token in pieces).strip()

    def word(self, id: int) -> str:
        """A token as it reads in a text, without the space before it."""
        return self.tokenizer.inner.decode([id]).removeprefix(" ")

    # ---------------------------------------------------------------------------------------------------- vectors

    @property
    def depth(self) -> int:
        """How many vectors a word has: what the first layer reads, and one of each layer."""
        return self.config.model.depth

    @property
    def width(self) -> int:
        """How long the vectors are."""
        return self.config.model.width

    def split(self, sentences: str | Words) -> list[list[str]]:
        """The words of each sentence: of texts, as the tokeniser splits them if its tokens are words, else what stands
        between spaces."""
        inner = self.tokenizer.inner
        split = inner.pieces if isinstance(inner, WordTokenizer) else str.split
        several = [sentences] if isinstance(sentences, str) else sentences
        return [split(each) if isinstance(each, str) else list(each) for each in several]

    @torch.inference_mode()
    def layers(self, sentences: str | Words) -> Iterator[tuple[int, Vectors]]:
        """(number, [depth, words, width]) of each sentence, longest first; a word's vectors are those of its first
        piece. Sentences as for `embed`."""
        split = self.split(sentences)
        if not split:
            return
        for numbers, batch in sorted_batches(WordPieces.of(split, self.tokenizer), BATCH_TOKENS):
            batch = batch.to(self.device)
            layers = at_words(self.model.layers(batch.pieces, batch.piece_lengths), batch.firsts).float().cpu().numpy()
            for row, number in enumerate(numbers.tolist()):
                yield number, layers[:, row, : len(split[number])].copy()

    # ---------------------------------------------------------------------------------------------------- scoring

    @property
    def estimate(self) -> str:
        """It has no probability of a text, but one of each token given all others."""
        return "a pseudo-log-likelihood: each token given all others, ends of texts left out (Salazar et al. 2020)"

    def score(self, texts: str | Sequence[str], bos: bool = True, eos: bool = True) -> list[Score]:
        """Σ_t log p(x_t | all of x but x_t) of each text: a pseudo-log-likelihood, which is no log-probability (Salazar
        et al. 2020, https://arxiv.org/abs/1910.14659). Ends are never scored, whatever `eos` says; one text is a list
        of one, here and below."""
        return self._scored(listed(texts), bos).scores()

    def full_scores(self, text: str, bos: bool = True, eos: bool = True) -> list[TokenScore]:
        """log p of each token of a text given all others."""
        return self.token_lines([text], "", 1, bos, eos)[0]

    def score_lines(
        self, lines: Sequence[str], where: str, first: int, bos: bool = True, eos: bool = True
    ) -> list[Score]:
        """As `score`."""
        return self.score(lines, bos, eos)

    def token_lines(
        self, lines: Sequence[str], where: str, first: int, bos: bool = True, eos: bool = True
    ) -> list[list[TokenScore]]:
        """As `full_scores`, of several."""
        return self._scored(lines, bos).token_scores(map(self.tokenizer.inner.pieces, lines))

    def _scored(self, texts: Sequence[str], bos: bool) -> ScoredTokens:
        self._check_beginning(bos)
        rows = self.tokenizer.inner.encode_batch(texts)
        tokens = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64)
        return self._hidden_in_turn(Ragged.of_lengths(tokens, np.array([len(row) for row in rows], np.int64)))

    @torch.inference_mode()
    def _hidden_in_turn(self, texts: Ragged) -> ScoredTokens:
        """log p of every token given the others of its text: all blanks of a text are read together."""
        log_probs = np.empty(len(texts.tokens))
        for numbers, batch in sorted_batches(Blanks(texts, self.mask), BATCH_TOKENS) if len(texts.tokens) else ():
            batch = batch.to(self.device)
            features = self.model.features(self.model.read(batch), batch.places)
            log_probs[numbers] = self.model.output.log_prob(features, batch.labels).double().cpu().numpy()
        return ScoredTokens(log_probs, texts.tokens == UNK, texts.lengths)

    # --------------------------------------------------------------------------------------------------- evaluating

    def text(self, files: str | list[str] | None = None) -> Corpus:
        """The text of files, as the run reads text; without files, the run's test or validation text."""
        corpus = open_text(self.data, files) if files else held_out_text(self.data)
        if corpus is None:
            raise UserError(f"{self.path} held no text out when it was trained: name a text to evaluate on (--source)")
        return corpus

    def figures(self, source: str | list[str] | None = None) -> dict[str, Scored]:
        """How many masked tokens are found in files, or in the run's test or validation text, and the
        pseudo-perplexity per token and per word of a part of it."""
        texts = self.text(source)
        masked = self._masked(texts)
        found = {name: Scored(value, self.masked_signature) for name, value in masked.items()}
        return found | self._pseudo_perplexities(texts)

    def _masked(self, texts: Corpus) -> Figures:
        masking = Masking.of(self.config.objective, self.tokenizer)
        examples = masked_texts(TokenStore.of(texts, self.tokenizer.inner), masking, self.config)
        figures = validated(self.model, examples)
        names = {
            "valid_accuracy": "masked_accuracy",
            "valid_perplexity": "masked_perplexity",
            "valid_next_sentence_accuracy": "next_sentence_accuracy",
        }
        return {name: figures[key] for key, name in names.items() if key in figures}

    def _pseudo_perplexities(self, texts: Iterable[str]) -> dict[str, Scored]:
        """Of lines or paragraphs spread evenly over a text. Unknown tokens, which the model never learned to predict,
        are neither summed nor counted."""
        some = [text for text in texts if self.tokenizer.inner.encode(text)]
        chosen = [some[place] for place in np.linspace(0, len(some) - 1, min(JUDGED, len(some))).round().astype(int)]
        rows = self.tokenizer.inner.encode_batch(chosen)
        sizes = np.array([len(row) for row in rows], np.int64)
        _, pieces = even_pieces(np.cumsum(sizes) - sizes, sizes, self.data.length - 2)
        tokens = np.concatenate(rows).astype(np.int64)
        together = Score.together(self._hidden_in_turn(Ragged.of_lengths(tokens, pieces)).scores())
        words = sum(map(count_words, chosen))
        signature = self.signed(
            "pseudo-log-likelihood (Salazar et al. 2020), not comparable with the perplexity of language models",
            *self._tokens_signature,
            f"{len(chosen)} of {len(some)} units, of {self.data.length} tokens at most",
            "ends and <unk> not scored",
        )
        per_word = math.exp(min(-together.known_log_prob / max(1, words), 700.0))
        return {
            "pseudo_perplexity": Scored(together.known_perplexity, signature),
            "word_pseudo_perplexity": Scored(per_word, signature),
        }

    @property
    def masked_signature(self) -> str:
        """How figures of masked tokens are computed, in a form to publish beside them."""
        objective = self.config.objective
        chosen = "words" if objective.whole_words else "tokens"
        shares = f"{objective.masked:g} masked, {objective.random:g} random"
        return self.signed(
            f"{objective.rate:g} of all {chosen} ({shares}), drawn once", *self._tokens_signature, "in per cent"
        )

    @property
    def _tokens_signature(self) -> tuple[str, str]:
        return f"tokenizer {self.tokenizer.inner.kind}", f"vocabulary {self.tokenizer.size}"


# --------------------------------------------------------------------------------------------------------------- kind


class BertKind(Kind[Split[MaskedTexts], BertAssets, TrainedBert]):
    """A masked language model."""

    config = BertConfig
    assets = BertAssets
    trained = TrainedBert
    next_step = 'fill {run} "... [MASK] ..."'

    def prepare(self, config: RunConfig, kept: BertAssets | None) -> tuple[Split[MaskedTexts], BertAssets]:
        train, valid = text_corpora(config.data)
        if valid is None:
            raise ConfigError("there is no validation text: name one with data.valid, or raise data.valid_fraction")
        tokenizer = kept.tokenizer if kept else marked(tokenizer_for(config.text, train))
        masking = Masking.of(config.objective, tokenizer)
        stores = [TokenStore.of(text, tokenizer.inner) for text in (train, valid)]
        if kept is None:
            kept = BertAssets(tokenizer, word_layout(SoftmaxOutput(), stores[0].tokens, tokenizer))
        return Split(*(masked_texts(store, masking, config) for store in stores)), kept

    def build(self, config: RunConfig, assets: BertAssets) -> MaskedLanguageModel:
        return MaskedLanguageModel(config.model, assets.tokenizer.size, assets.output)

    def begin(
        self, model: MaskedLanguageModel, config: RunConfig, assets: BertAssets, data: Split[MaskedTexts]
    ) -> Iterable[str]:
        return start_embedding(model.embedding.weight, assets.tokenizer, config.model.embedding.vectors)

    def stages(self, work: Work[Split[MaskedTexts], BertAssets]) -> Iterator[Steps]:
        config, model, texts = work.config, work.model, work.data
        data: TextData = config.data
        yield Steps(
            model,
            build_objective(config.objective),
            Stream(texts.train, texts.train.buckets(data.batch_size * data.length, work.processes.world), config.seed),
            lambda: validated(model, texts.valid),
            config.training,
            taught=config.start is not None,
        )

    def report(self, trained: TrainedBert) -> Report:
        from seqloom.reports.bert import blanks_section

        figures = {name: score.value for name, score in trained.figures().items()}
        return Report(figures, [blanks_section(hidden_words(trained))])


def marked(tokenizer: Tokenizer) -> MarkedTokenizer:
    """A tokeniser with [MASK]; that of another BERT has it already."""
    return tokenizer if isinstance(tokenizer, MarkedTokenizer) else MarkedTokenizer(tokenizer, [MASK])


def masked_texts(store: TokenStore, masking: Masking, config: RunConfig) -> MaskedTexts:
    """The sequences or pairs that a model reads of a text."""
    if config.model.next_sentence:
        return MaskedPairs.of_store(store, masking, (config.data.length - 3) // 2)
    return MaskedTexts.of_store(store, masking, config.data.length - 2)


@torch.inference_mode()
def validated(model: MaskedLanguageModel, texts: MaskedTexts) -> Figures:
    """-log p per masked token and the share of them that are found; the same of pairs, where there are some. What is
    masked, and which pairs there are, is the same every time."""
    sums = torch.zeros(4, dtype=torch.float64)
    tokens = rows = 0
    for _, batch in sorted_batches(texts, BATCH_TOKENS):
        batch = batch.to(model.device)
        hidden = model.read(batch)
        log_probs = model.output.log_probs(model.features(hidden, batch.places))
        found = [F.nll_loss(log_probs, batch.labels, reduction="sum"), (log_probs.argmax(1) == batch.labels).sum()]
        if batch.unrelated is not None:
            relation = model.relation_log_probs(hidden)
            found.append(F.nll_loss(relation, batch.unrelated, reduction="sum"))
            found.append((relation.argmax(1) == batch.unrelated).sum())
        sums[: len(found)] += torch.stack([each.double() for each in found]).cpu()
        tokens += batch.tokens
        rows += len(batch.inputs)
    loss, right = (sums[:2] / tokens).tolist()
    figures = {"valid_loss": loss, "valid_perplexity": math.exp(min(loss, 700.0)), "valid_accuracy": 100 * right}
    if isinstance(texts, MaskedPairs):
        pairs, pairs_right = (sums[2:] / rows).tolist()
        figures |= {"valid_next_sentence_loss": pairs, "valid_next_sentence_accuracy": 100 * pairs_right}
    return figures


def hidden_words(trained: TrainedBert) -> list[tuple[str, str, str]]:
    """Some held-out texts with blanks in them, what stood there, and what the model would put there."""
    inner, mask = trained.tokenizer.inner, trained.mask
    texts = [ids[: trained.data.length - 2] for text in trained.text() if (ids := inner.encode(text))]
    places = np.linspace(0, len(texts) - 1, min(SHOWN, len(texts))).round().astype(int)
    masking = Masking(0.15, 1.0, 0.0, mask)
    shown = []
    for number in places.tolist():
        read, found = (row[0].tolist() for row in masking.draw(np.array([texts[number]]), np.random.default_rng(0)))
        if mask in read:
            hidden = [trained.word(id) for id, blank in zip(found, read, strict=True) if blank == mask]
            text = trained.tokenizer.decode(read)
            blanks = [listing(blank) for blank in trained.fill(text, top=3)[0].blanks]
            shown.append((text, " · ".join(hidden), " · ".join(blanks)))
    return shown


def listing(blank: Sequence[Candidate]) -> str:
    """What may stand in a blank, in a line."""
    return ", ".join(f"{each.token} {each.probability:.0%}" for each in blank)


KIND = BertKind()

"""Folders of Hugging Face: what `transformers` computes is what their runs compute, and the other way round."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_models import MODELS, TEXTS, document, mistral, saved, transformers
from huggingface_runs import CLASSES, SHAPES, made, tokenizer_of
from huggingface_runs import TEXTS as RUN_TEXTS
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from seqloom.errors import DataError
from seqloom.interop import export_huggingface, import_huggingface
from seqloom.interop.huggingface.tokenizers import foreign, numbering
from seqloom.models.seq2seq import Source
from seqloom.text.special import BOS, EOS, PAD, UNK

transformers.logging.set_verbosity_error()
LANGUAGE, PAIRS, BERTS = ["gpt2", "llama"], ["t5", "t5-1.1", "marian", "bart"], ["bert", "bert-pairs"]
CLOSE = {"rtol": 0.0, "atol": 1e-4}


class Known:
    """A model of transformers, the folder it was saved in, and the run that was made of that."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        torch.manual_seed(0)
        self.model, self.library = MODELS[name]()
        self.folder = saved(self.model, self.library, path / "theirs")
        self.path = path / "run"
        self.run: Any = import_huggingface(self.folder, self.path)
        self.tokenizer = self.run.tokenizer

    def ids(self, text: str) -> list[int]:
        """The library's ids of a text, without symbols."""
        return self.library.encode(text, add_special_tokens=False).ids

    def again(self, path: Path) -> Any:
        """The model that transformers opens of what this run is written as."""
        if not path.exists():
            export_huggingface(self.path, path)
        return type(self.model).from_pretrained(path).eval()


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made: dict[str, Known] = {}

    def get(name: str) -> Known:
        if name not in made:
            made[name] = Known(name, tmp_path_factory.mktemp(name))
        return made[name]

    return get


def logits(run: Any, inputs: list[int], source: list[int] | None = None) -> Tensor:
    """What our model adds up for each of their words, after each of our inputs: [time, words]."""
    model, tokens = run.model, torch.tensor([inputs])
    if source is None:
        features, _ = model(tokens)
    else:
        reading, _ = model(tokens, model.start(1, Source(torch.tensor([source]), torch.tensor([len(source)]))))
        features = reading.features
    return model.output.scores(features)[0][:, run.tokenizer.ours]


@pytest.mark.parametrize("name", [*LANGUAGE, "mistral"])
@torch.inference_mode()
def test_language_models_have_the_logits_of_transformers(name: str, known: Any) -> None:
    one = known(name)
    for text in TEXTS:
        theirs = one.model(torch.tensor([[one.model.config.bos_token_id, *one.ids(text)]])).logits[0]
        torch.testing.assert_close(logits(one.run, [BOS, *one.tokenizer.encode(text)]), theirs, **CLOSE)


@pytest.mark.parametrize("name", LANGUAGE)
@torch.inference_mode()
def test_the_score_of_a_text_is_its_probability_after_the_beginning(name: str, known: Any) -> None:
    one = known(name)
    config = one.model.config
    for text, score in zip(TEXTS, one.run.log_prob(TEXTS), strict=True):
        ids = [config.bos_token_id, *one.ids(text), config.eos_token_id]
        log_probs = one.model(torch.tensor([ids[:-1]])).logits[0].log_softmax(-1)
        assert score == pytest.approx(log_probs.gather(1, torch.tensor(ids[1:])[:, None]).sum().item(), abs=1e-3)


@pytest.mark.parametrize("name", PAIRS)
@torch.inference_mode()
def test_models_of_pairs_have_the_logits_of_transformers(name: str, known: Any) -> None:
    one = known(name)
    start, end = one.model.config.decoder_start_token_id, one.model.config.eos_token_id
    for text, other in zip(TEXTS, reversed(TEXTS), strict=True):
        source, target = one.library.encode(text).ids, one.library.encode(other).ids
        assert source[-1] == end
        inputs = torch.tensor([[start, *target[:-1]]])
        theirs = one.model(input_ids=torch.tensor([source]), decoder_input_ids=inputs).logits[0]
        read = [*one.tokenizer.encode(text), EOS]
        ours = logits(one.run, [BOS, *one.tokenizer.encode(other)], read)
        torch.testing.assert_close(ours, theirs, **CLOSE)
        log_prob = theirs.log_softmax(-1).gather(1, torch.tensor(target)[:, None]).sum().item()
        assert one.run.log_prob(text, other) == [pytest.approx(log_prob, abs=1e-3)]


@pytest.mark.parametrize("name", BERTS)
@torch.inference_mode()
def test_bert_has_the_logits_of_transformers(name: str, known: Any) -> None:
    one = known(name)
    theirs, library, tokenizer, model = one.model, one.library, one.tokenizer, one.run.model
    places = np.argsort(numbering(tokenizer))  # of each of their ids
    for text in [*TEXTS, "the [MASK] went out"]:
        encoding = library.encode(text)
        out = theirs(torch.tensor([encoding.ids]))
        hidden = model(torch.tensor([[BOS, *tokenizer.encode(text), EOS]]))
        scores = model.output.scores(model.head(hidden))[0][:, places]
        logits = out["prediction_logits" if name == "bert-pairs" else "logits"][0]
        torch.testing.assert_close(scores, logits, **CLOSE)
    (filled,) = one.run.fill("the [MASK] went out", top=3)
    best = logits[encoding.ids.index(library.token_to_id("[MASK]"))].softmax(-1)
    for candidate in filled.blanks[0]:
        assert candidate.probability == pytest.approx(best[library.token_to_id(candidate.token)].item(), abs=1e-5)
    if name == "bert-pairs":
        pair = library.encode(TEXTS[0], TEXTS[1])
        out = theirs(torch.tensor([pair.ids]), token_type_ids=torch.tensor([pair.type_ids]))
        tokens = [BOS, *tokenizer.encode(TEXTS[0]), EOS, *tokenizer.encode(TEXTS[1]), EOS]
        relation = model.relation_log_probs(model(torch.tensor([tokens]), segments=torch.tensor([pair.type_ids])))
        torch.testing.assert_close(relation, out.seq_relationship_logits.log_softmax(-1), **CLOSE)


def test_a_window_is_refused_also_where_it_is_only_usual(tmp_path: Path) -> None:
    folder = saved(*mistral(), tmp_path / "theirs")
    config = document(folder / "config.json")
    for window in ({"sliding_window": 16}, {}):
        kept = {key: value for key, value in config.items() if key != "sliding_window"} | window
        (folder / "config.json").write_text(json.dumps(kept))
        with pytest.raises(DataError, match="sliding_window is"):
            import_huggingface(folder, tmp_path / "run")


# ------------------------------------------------------------------------------------------------------- generating


def never(one: Known) -> list[int]:
    """Their ids of what our searches never write."""
    return [id for id in (one.tokenizer.symbols[ours] for ours in (UNK, PAD, BOS)) if id is not None]


def searched(one: Known, model: Any, beam: int) -> list[list[int]]:
    """What transformers writes, as our ids: after a beginning, or for a source."""
    outputs = []
    for text in TEXTS:
        options = {"max_new_tokens": 12, "num_beams": beam, "do_sample": False, "length_penalty": 0.0}
        options |= {"suppress_tokens": never(one) or None, "early_stopping": "never" if beam > 1 else False}
        if one.name in LANGUAGE:
            prompt = [model.config.bos_token_id, *one.ids(text)[:5]]
            written = model.generate(torch.tensor([prompt]), **options)[0, len(prompt) :]
        else:
            options["forced_bos_token_id"] = one.tokenizer.lead[0] if one.tokenizer.lead else None
            source = torch.tensor([one.library.encode(text).ids])
            written = model.generate(source, **options)[0, 1 + len(one.tokenizer.lead) :]
        ids = one.tokenizer.ours[written.numpy()].tolist()
        outputs.append(ids[: ids.index(EOS) + 1] if EOS in ids else ids)
    return outputs


def ours(one: Known, beam: int) -> list[list[int]]:
    """The same by our searches. A penalty for short texts of 0 is the setting in which both rank by log p alone."""
    from seqloom.runs.generation import Decoding

    length = 12 - len(one.tokenizer.lead)
    strategy = {"strategy": "greedy"} if beam == 1 else {"strategy": "beam", "beam": beam}
    decoding = Decoding(max_length=length, length_penalty=0.0, **strategy)
    found = []
    for text in TEXTS:
        if one.name in LANGUAGE:
            prompt, source = one.tokenizer.encode(text)[:5], None
        else:
            read = [*one.tokenizer.encode(text), EOS]
            prompt, source = one.tokenizer.encode(""), Source(torch.tensor([read]), torch.tensor([len(read)]))
        (hypotheses,) = decoding.run(one.run.model, [prompt], [0], decoding.limits(), source)
        found.append(list(hypotheses[0].tokens))
    return found


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", [*LANGUAGE, *PAIRS])
def test_searches_write_what_transformers_writes(name: str, beam: int, known: Any, tmp_path: Path) -> None:
    one = known(name)
    expected = ours(one, beam)
    assert len({tuple(ids) for ids in expected}) > 1
    assert searched(one, one.model, beam) == expected
    assert searched(one, one.again(tmp_path / "out"), beam) == expected


# ------------------------------------------------------------------------------------------------ there and back again


@pytest.mark.parametrize("name", [*LANGUAGE, *PAIRS, *BERTS])
def test_there_and_back_again_changes_no_bit(name: str, known: Any, tmp_path: Path) -> None:
    one = known(name)
    again = one.again(tmp_path / "out")
    before, after = (load_file(path / "model.safetensors") for path in (one.folder, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (one.folder / "tokenizer.json").read_bytes()
    for key, value in one.model.config.to_dict().items():
        if key.endswith("_token_id") and key in again.config.to_dict():
            assert again.config.to_dict()[key] == value or value is None, key
    second: Any = import_huggingface(tmp_path / "out", tmp_path / "second")
    weights = [load_file(path / "model.safetensors") for path in (one.path, tmp_path / "second")]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert second.tokenizer.document == one.tokenizer.document
    assert second.config.model == one.run.config.model


@pytest.mark.parametrize("name", [*LANGUAGE, *PAIRS, *BERTS])
def test_the_folder_of_a_run_has_a_tokenizer_that_transformers_opens(name: str, known: Any, tmp_path: Path) -> None:
    one = known(name)
    one.again(tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == one.library.encode(text).ids
    assert tokenizer.eos_token_id == foreign(one.tokenizer).symbols[EOS]


# --------------------------------------------------------------------------------------------------------- tokenisers


@pytest.mark.parametrize("name", [*LANGUAGE, *PAIRS])
def test_ids_are_renumbered_and_texts_come_back(name: str, known: Any) -> None:
    tokenizer, library = known(name).tokenizer, known(name).library
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert not {PAD, BOS, EOS} & set(ids)
        plain = library.encode(text, add_special_tokens=False).ids
        assert tokenizer.theirs[ids].tolist() == [*tokenizer.lead, *plain]
        assert tokenizer.decode([BOS, *ids, EOS, PAD]) == library.decode(plain, skip_special_tokens=False)
        assert len(tokenizer.pieces(text)) == len(ids)
    assert np.unique(tokenizer.ours).size == tokenizer.rows
    assert tokenizer.tokens(range(4)) == ["<unk>", "<pad>", "<bos>", "<eos>"]


@pytest.mark.parametrize("name", [*LANGUAGE, *PAIRS])
def test_texts_cannot_spell_the_symbols_that_play_a_part(name: str, known: Any) -> None:
    one = known(name)
    names = [one.library.id_to_token(id) for id in one.tokenizer.symbols if id is not None]
    ids = one.tokenizer.encode(f"the {' '.join(names)} time")
    assert not {PAD, BOS, EOS} & set(ids)
    assert one.tokenizer.encode("the")[-1] in ids


def test_symbols_that_play_no_part_can_be_written_in_texts(known: Any) -> None:
    tokenizer = known("t5").tokenizer
    assert tokenizer.mark("<extra_id_0>") in tokenizer.encode("the <extra_id_0> time")


@pytest.mark.parametrize("name", [*LANGUAGE, *PAIRS])
def test_texts_unfold_to_what_decoding_gives(name: str, known: Any) -> None:
    from seqloom.text.unfolding import Unfolding

    tokenizer = known(name).tokenizer
    for text in TEXTS:
        ids = tokenizer.encode(text)
        unfolding = Unfolding(tokenizer)
        assert "".join([*(unfolding.add([id]) for id in ids), unfolding.end()]) == tokenizer.decode(ids)


@torch.inference_mode()
def test_perplexity_of_unused_rows_counts(known: Any) -> None:
    """Vocabularies are made larger than their tokens: those rows have probabilities, there as here."""
    one = known("llama")
    assert one.tokenizer.rows == one.library.get_vocab_size() + 3
    features, _ = one.run.model(torch.tensor([[BOS]]))
    total = one.run.model.output.log_probs(features)[0, 0].exp().double()
    assert math.isclose(total.sum().item(), 1.0, abs_tol=1e-5)
    assert total[PAD] == 0.0  # Llama has no such symbol
    assert document(one.folder / "config.json")["vocab_size"] == one.tokenizer.rows
    assert isinstance(one.library, Tokenizer)


# -------------------------------------------------------------------------------------------------------- our own runs


def opened(run: Any, path: Path) -> tuple[Any, Any]:
    """The model and tokeniser that transformers opens of what a run is written as, by the names it goes by."""
    export_huggingface(run.path, path)
    kind = document(path / "config.json")["architectures"][0]
    return getattr(transformers, kind).from_pretrained(path).eval(), transformers.AutoTokenizer.from_pretrained(path)


@torch.inference_mode()
def check_same(run: Any, model: Any, tokenizer: Any) -> None:
    """That a run and what transformers opened of it give the same scores to the same texts."""
    for text, other in zip(RUN_TEXTS, reversed(RUN_TEXTS), strict=True):
        ids = tokenizer(text)["input_ids"]
        plain = run.tokenizer.encode(text)
        if run.kind == "language":
            assert ids == [BOS, *plain]
            theirs, scores = (
                model(torch.tensor([ids])).logits[0],
                run.model.output.scores(run.model(torch.tensor([ids]))[0])[0],
            )
        elif run.kind == "seq2seq":
            assert ids == [*plain, EOS]
            target = run.tokenizer.encode(other)
            inputs = torch.tensor([[model.config.decoder_start_token_id, *target]])
            theirs = model(input_ids=torch.tensor([ids]), decoder_input_ids=inputs).logits[0]
            reading, _ = run.model(inputs, run.model.start(1, Source(torch.tensor([ids]), torch.tensor([len(ids)]))))
            scores = run.model.output.scores(reading.features)[0]
        else:
            assert ids == [BOS, *plain, EOS]
            out = model(torch.tensor([ids]))
            theirs = out["prediction_logits" if "prediction_logits" in out else "logits"][0]
            scores = run.model.output.scores(run.model.head(run.model(torch.tensor([ids]))))[0]
        torch.testing.assert_close(scores, theirs, **CLOSE)


@pytest.mark.parametrize("name", SHAPES)
def test_a_run_of_ours_opens_in_transformers_and_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    run = made(tmp_path / "run", SHAPES[name])
    model, tokenizer = opened(run, tmp_path / "out")
    assert type(model).__name__ == CLASSES[name]
    check_same(run, model, tokenizer)
    back: Any = import_huggingface(tmp_path / "out", tmp_path / "back")
    before, after = (load_file(each.path / "model.safetensors") for each in (run, back))
    if name == "bert":  # which has vectors of segments there, all of them 0
        assert not after.pop("segments.weight").any()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert [back.tokenizer.encode(text) for text in RUN_TEXTS] == [run.tokenizer.encode(text) for text in RUN_TEXTS]
    if run.kind != "bert":
        with torch.inference_mode():
            searched_there(run, model)


def searched_there(run: Any, model: Any) -> None:
    """That transformers, by what generation_config.json says, writes what our greedy search writes."""
    for text in RUN_TEXTS:
        ids = run.tokenizer.encode(text)
        if run.kind == "language":
            prompt = [BOS, *ids[:4]]
            (found,) = run.generate(run.tokenizer.decode(ids[:4]), strategy="greedy", max_length=8)
            written = model.generate(torch.tensor([prompt]), max_new_tokens=8)[0, len(prompt) :]
        else:
            (found,) = run.generate(text, strategy="greedy", max_length=8)
            written = model.generate(torch.tensor([[*ids, EOS]]), max_new_tokens=8)[0, 1:]
        assert found[0].text.strip() == run.tokenizer.decode(written.tolist()).strip()


@pytest.mark.parametrize("kind", ["unigram", "whitespace", "words", "characters"])
def test_all_kinds_of_tokenisers_go_with_a_model(kind: str, tmp_path: Path) -> None:
    run = made(tmp_path / "run", SHAPES["gpt2"], tokenizer_of(kind))
    model, tokenizer = opened(run, tmp_path / "out")
    check_same(run, model, tokenizer)


def test_what_was_trained_here_has_the_same_logits_there(tmp_path: Path) -> None:
    import seqloom

    (tmp_path / "text.txt").write_text("\n".join(RUN_TEXTS * 20))
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in RUN_TEXTS * 20))
    few = {
        "training.steps": 4,
        "training.validate_every": 2,
        "training.device": "cpu",
        "text": {"kind": "bpe", "max_size": 280},
    }
    for name, data in [("gpt2", "text.txt"), ("marian", "pairs.tsv")]:
        tree = {"model": {"embedding": {"size": 16}, **SHAPES[name]}, "data": {"train": str(tmp_path / data)}}
        if name == "gpt2":
            tree["data"] |= {"length": 16, "batch_size": 4, "unit": "line"}
        run = seqloom.train(tree, few, tmp_path / name, report=False)
        model, tokenizer = opened(run, tmp_path / f"{name}-out")
        check_same(run, model, tokenizer)


def test_an_imported_model_can_be_trained_on_and_written_again(known: Any, tmp_path: Path) -> None:
    """The beginning reads the row of the end, and stays one with it."""
    import seqloom

    (tmp_path / "text.txt").write_text("\n".join(TEXTS * 20))
    few = {
        "training.steps": 3,
        "training.validate_every": 3,
        "training.device": "cpu",
        "data.train": str(tmp_path / "text.txt"),
    }
    few |= {"data.valid": str(tmp_path / "text.txt"), "data.batch_size": 4, "data.length": 16}
    one = known("gpt2")
    run: Any = seqloom.train(one.path, few, tmp_path / "tuned", report=False)
    export_huggingface(run.path, tmp_path / "out")
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "out").eval()
    assert not torch.equal(model.transformer.wte.weight, one.model.transformer.wte.weight)
    with torch.inference_mode():
        theirs = model(torch.tensor([[model.config.bos_token_id, *one.ids(TEXTS[0])]])).logits[0]
        torch.testing.assert_close(logits(run, [BOS, *run.tokenizer.encode(TEXTS[0])]), theirs, **CLOSE)

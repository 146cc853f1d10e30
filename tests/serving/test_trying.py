"""What the page asks besides: words, mended images, examples to try, statistics, tokens to go on from."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from served import TURNS, Serving

from seqloom.data.corpus import Corpus
from seqloom.reports.word_places import WordPlaces, frequent
from seqloom.text.statistics import CorpusStatistics


def decoded(images: list[str]) -> np.ndarray:
    return np.stack([np.asarray(Image.open(io.BytesIO(base64.b64decode(each)))) for each in images])


def got(server: Serving, path: str, **query: Any) -> Any:
    response = server.client.get(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


# -------------------------------------------------------------------------------------------------------------- words


def test_words_are_answered_as_by_the_python_api(server: Serving, trained: dict[str, Any]) -> None:
    run = trained["word2vec"]
    near = server.answer("/v1/words", model="word2vec", do="neighbours", words=["cat", "dog"], n=3)["neighbours"]
    assert [each["word"] for each in near] == ["cat", "dog"]
    for each in near:
        found = [(other["word"], other["similarity"]) for other in each["near"]]
        assert found == run.vectors.neighbours(each["word"], 3)
    like = server.answer("/v1/words", model="word2vec", do="analogy", a="cat", b="dog", c="mat", n=2)["words"]
    assert [(each["word"], each["similarity"]) for each in like] == run.vectors.analogy("cat", "dog", "mat", 2)


def test_a_map_has_the_words_that_can_be_read_on_it(server: Serving, trained: dict[str, Any]) -> None:
    vectors = trained["word2vec"].vectors
    points = server.answer("/v1/words", model="word2vec", do="map", n=20)["points"]
    words = frequent(vectors, 20)
    shown = WordPlaces.of(vectors, words).shown
    assert [each["word"] for each in points] == [word for word, there in zip(words, shown, strict=True) if there]
    assert all(0 <= each[axis] <= 1 for each in points for axis in "xy")


def test_words_without_vectors_are_named(server: Serving) -> None:
    refused = server.refusal(400, "/v1/words", model="word2vec", do="neighbours", words=["catt"])["message"]
    assert "'catt'" in refused
    assert "did you mean 'cat'" in refused
    assert "is not for /v1/words" in server.refusal(400, "/v1/words", model="ngram", do="map")["message"]
    assert "takes a, b and c" in server.refusal(400, "/v1/words", model="word2vec", do="analogy", a="cat")["message"]


# ------------------------------------------------------------------------------------------------------ mended images


def test_noise_is_taken_as_by_the_python_api(server: Serving, trained: dict[str, Any]) -> None:
    run = trained["autoencoder"]
    held_out = run.held_out().first(3)
    clean = server.answer("/v1/denoise", model="autoencoder", n=3)
    assert clean["corrupted"] is None
    np.testing.assert_array_equal(decoded(clean["given"]), held_out.images)
    np.testing.assert_array_equal(decoded(clean["images"]), run.denoise(held_out))
    again = server.answer("/v1/denoise", model="autoencoder", images=clean["given"])
    assert again["images"] == clean["images"]
    noisy = server.answer("/v1/denoise", model="autoencoder", n=3, corrupt=True, seed=5)
    np.testing.assert_array_equal(decoded(noisy["images"]), run.denoise(run.corrupted(held_out, 5)))
    assert len(noisy["corrupted"]) == 3


def test_images_are_completed_as_by_the_python_api(server: Serving, trained: dict[str, Any]) -> None:
    run = trained["rbm"]
    found = run.complete(run.held_out().first(2), "left", 20, 3)
    rows = run.completion_rows(found, 2)
    answer = server.answer("/v1/complete-image", model="rbm", n=2, keep="left", sweeps=20, seed=3)
    parts = [answer[name] for name in ("given", "images", "most_probable", "true")]
    np.testing.assert_array_equal(np.concatenate([decoded(each) for each in parts]), rows)
    assert answer["figures"]["accuracy"] == found.accuracy
    refused = server.refusal(400, "/v1/complete-image", model="rbm", keep="/etc/passwd")
    assert refused["param"].startswith("keep")


# ----------------------------------------------------------------------------------------------------------- examples


def test_examples_can_be_tried(server: Serving, trained: dict[str, Any], runs: dict[str, Path]) -> None:
    for name in runs:
        found = got(server, "/v1/examples", model=name, n=3)
        assert found["model"] == name
        assert found.get("texts") or found.get("images") or found.get("words"), name
    sentences = [" ".join(line.split()) for line in trained["ngram"].text()]
    for name in ("ngram", "transformer"):
        found = got(server, "/v1/examples", model=name, n=3)
        assert set(found["lines"]) <= set(sentences)
        pairs = zip(found["texts"], found["lines"], strict=False)
        assert all(line.startswith(text) and len(text.split()) <= 4 for text, line in pairs)
    assert set(got(server, "/v1/examples", model="talker")["texts"]) <= set(TURNS)
    blanks = got(server, "/v1/examples", model="bert", n=3)["texts"]
    assert all(text.count(trained["bert"].blank) == 1 for text in blanks)
    assert len(server.answer("/v1/fill", model="bert", texts=blanks)["filled"]) == len(blanks)
    shown = got(server, "/v1/examples", model="vae", n=4)
    np.testing.assert_array_equal(decoded(shown["images"]), trained["vae"].held_out().first(4).images)
    assert "cat" in got(server, "/v1/examples", model="word2vec", n=64)["words"]


def test_beginnings_are_whole_words_or_characters() -> None:
    from seqloom.serving.examples import beginning, distinct, with_blank

    assert beginning("The Time Traveller smiled at us.") == "The Time Traveller smiled"
    assert beginning("'Interminable?'") == "'Interminable?'"
    assert beginning("白日依山尽黄河入海流") == "白日依山"
    assert with_blank("'Interminable?'", "[MASK]") == "[MASK]?'"
    assert distinct(["'Interminable?'", "a b c d e f"], 1, fewest=6) == ["a b c d e f"]


def test_examples_without_data_are_of_the_vocabulary(trained: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.serving.examples import examples_of
    from seqloom.serving.models import Served

    for name in ("ngram", "pairs-transformer", "classifier", "vae"):
        run = trained[name]
        gone = run.config.data.model_copy(update={"train": "nonesuch", "valid": None, "test": None})
        monkeypatch.setattr(run, "config", run.config.model_copy(update={"data": gone}))
        found = examples_of(Served(name, run, None, 0), 4)  # type: ignore[arg-type]
        if name == "vae":
            assert found["images"] == []
        else:
            assert found["texts"]
            assert all(text in run.tokenizer.tokens(range(run.tokenizer.size)) for text in found["texts"])


# --------------------------------------------------------------------------------------------------------- statistics


def test_statistics_are_those_of_the_command_line(server: Serving, trained: dict[str, Any]) -> None:
    found = got(server, "/v1/data", model="ngram")
    data = trained["ngram"].config.data
    counted = CorpusStatistics.of(Corpus.open(data.train, data.unit))
    assert (found["words"], found["distinct"]) == (counted.words, counted.distinct_words)
    assert [(each["word"], each["count"]) for each in found["top"]] == counted.top_words(30)
    assert found["zipf"]["exponent"] == counted.zipf().exponent
    assert found["zipf"]["points"][0] == [1, int(counted.frequencies()[0])]
    assert found["whole"]
    assert found["side"] is None
    assert got(server, "/v1/data", model="pairs-transformer")["side"] == "source"
    refused = server.client.get("/v1/data", params={"model": "vae"})
    assert refused.status_code == 400
    assert "is not for /v1/data" in refused.json()["error"]["message"]


def test_only_the_beginning_of_much_text_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.serving import statistics

    monkeypatch.setattr(statistics, "READ", 10)
    few = statistics.Beginning(iter(["four", "and", "more words"]))
    assert list(few) == ["four", "and", "mor"]
    assert not few.whole


# ------------------------------------------------------------------------------------------------- tokens to go on from


@pytest.mark.parametrize("name", ["transformer", "ngram"])
def test_a_text_goes_on_from_any_of_the_likeliest_tokens(server: Serving, trained: dict[str, Any], name: str) -> None:
    asked = {"model": name, "prompt": "the cat", "strategy": "greedy", "max_length": 5, "min_length": 5, "likeliest": 3}
    (whole,) = server.answer("/v1/generate", **asked)["outputs"]
    with server.client.stream("POST", "/v1/generate", json={**asked, "stream": True}) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    streamed = [token for line in lines[:-1] for token in json.loads(line)["tokens"]]
    assert streamed == whole["said"]
    tokenizer = trained[name].tokenizer
    for token in streamed:
        assert token["likeliest"][0] == {key: token[key] for key in ("token", "id", "log_prob")}  # it was greedy
        assert tokenizer.tokens([each["id"] for each in token["likeliest"]]) == [
            each["token"] for each in token["likeliest"]
        ]
    until = [*tokenizer.encode("the cat"), *(token["id"] for token in streamed[:2])]
    rest = server.answer("/v1/generate", **{**asked, "prompt": until, "max_length": 3, "min_length": 3})
    assert [token["id"] for token in rest["outputs"][0]["said"]] == [token["id"] for token in streamed[2:]]


def test_tokens_are_searched_from_as_texts_are(server: Serving, trained: dict[str, Any]) -> None:
    asked = {"model": "ngram", "beam": 3, "max_length": 6}
    ids = trained["ngram"].tokenizer.encode("the cat")
    by_text = server.answer("/v1/generate", prompt="the cat", **asked)["outputs"]
    assert server.answer("/v1/generate", prompt=ids, **asked)["outputs"] == by_text
    refused = server.refusal(400, "/v1/generate", model="pairs-transformer", prompt=[5])
    assert refused["param"] == "prompt"
    assert server.refusal(400, "/v1/generate", prompt="a", likeliest=2, **asked)["param"] == "likeliest"
    assert "vocabulary" in server.refusal(400, "/v1/generate", model="ngram", prompt=[10**6])["message"]


def test_models_say_how_to_ask_them(server: Serving, runs: dict[str, Path]) -> None:
    models = {each["id"]: each for each in got(server, "/v1/models")["data"]}
    tasks = {
        "ngram": "continue",
        "talker": "translate",
        "classifier": "label",
        "bert": "fill",
        "word2vec": "words",
        "vae": "images",
        "captioner": "images",
        "text-to-image": "images",
    }
    assert {name: models[name]["task"] for name in tasks} == tasks
    assert [name for name, model in models.items() if model["turns"]] == ["talker"]
    assert models["pairs-transformer"]["sources"]
    assert not models["ngram"]["sources"]
    assert {name: model["path"] for name, model in models.items()} == {name: str(path) for name, path in runs.items()}


# --------------------------------------------------------------------------------------------------- what lm-eval asks


def test_a_client_of_vllm_finds_its_tokens(server: Serving, trained: dict[str, Any]) -> None:
    ids = trained["ngram"].tokenizer.encode("the cat")
    assert server.answer("/tokenize", model="ngram", prompt="the cat", add_special_tokens=False)["tokens"] == ids
    assert server.answer("/detokenize", model="ngram", tokens=ids)["prompt"] == "the cat"
    assert got(server, "/tokenizer_info", model="ngram")["eos_token"] == "<eos>"
    assert "text" in server.refusal(400, "/tokenize", model="ngram")["message"]


def test_a_prompt_may_begin_with_the_beginning(server: Serving, trained: dict[str, Any]) -> None:
    ids = trained["ngram"].tokenizer.encode("the cat")
    asked = {"model": "ngram", "max_tokens": 1, "temperature": 0.0, "echo": True, "logprobs": 1}
    (begun,) = server.answer("/v1/completions", prompt=[[2, *ids]], **asked)["choices"]
    (plain,) = server.answer("/v1/completions", prompt=[ids], **asked)["choices"]
    assert begun["text"] == plain["text"]
    assert begun["logprobs"]["tokens"] == ["<bos>", *plain["logprobs"]["tokens"]]
    assert begun["logprobs"]["token_logprobs"] == [None, *plain["logprobs"]["token_logprobs"]]

"""Every endpoint says what the Python API says, and refuses what it does not do by name."""

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

from seqloom.data.pairs import TURN


def decoded(images: list[str]) -> np.ndarray:
    return np.stack([np.asarray(Image.open(io.BytesIO(base64.b64decode(each)))) for each in images])


def shade(level: int) -> str:
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), level, np.uint8)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def exactly(name: str, number: float) -> Any:
    """To the bit; but samples that each have a code are begun one by one here, and together by the Python API."""
    return pytest.approx(number, abs=1e-5) if name in ("text-vae", "pairs-latent") else number


def test_models_say_what_they_are_for(server: Serving, runs: dict[str, Path]) -> None:
    offers = {model["id"]: model["offers"] for model in server.client.get("/v1/models").json()["data"]}
    assert list(offers) == list(runs)
    assert "/v1/completions" in offers["ngram"]
    assert "/v1/chat/completions" in offers["talker"]
    assert offers["vae"] == ["/v1/sample", "/v1/latent", "/v1/examples", "/v1/training"]
    assert server.client.get("/v1/models/vae").json()["kind"] == "vae"
    assert server.client.get("/v1/models/nonesuch").status_code == 404


@pytest.mark.parametrize("name", ["transformer", "ngram", "elmo-words", "text-vae"])
def test_generation_is_that_of_the_python_api(server: Serving, trained: dict[str, Any], name: str) -> None:
    for options in (
        {"seed": 3, "n_best": 3},
        {"strategy": "greedy"},
        {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_length": 6},
        {"beam": 3, "n_best": 2, "max_length": 9},
    ):
        answer = server.answer("/v1/generate", model=name, prompt="the cat", **options)
        (several,) = trained[name].generate(["the cat"], **options)
        assert answer["outputs"] == [
            {"text": each.text, "log_prob": exactly(name, each.log_prob), "tokens": each.tokens} for each in several
        ]


@pytest.mark.parametrize("name", ["pairs-transformer", "copying", "pairs-latent"])
def test_targets_are_those_of_the_python_api(server: Serving, trained: dict[str, Any], name: str) -> None:
    source = "name7 the cat sat on the unheard-of log"
    for options in ({"n_best": 2}, {"strategy": "greedy"}, {"strategy": "sample", "seed": 5, "n_best": 3}):
        answer = server.answer("/v1/generate", model=name, prompt=source, **options)
        (several,) = trained[name].generate([source], **options)
        assert [each["text"] for each in answer["outputs"]] == [each.text for each in several]
        assert [each["log_prob"] for each in answer["outputs"]] == [exactly(name, each.log_prob) for each in several]


def test_attention_and_prefix_are_those_of_the_python_api(server: Serving, trained: dict[str, Any]) -> None:
    asked = {"model": "pairs-transformer", "prompt": "a dog fell", "prefix": "fell", "attention": True}
    (output,) = server.answer("/v1/generate", **asked)["outputs"]
    ((best,),) = trained["pairs-transformer"].generate(["a dog fell"], prefixes="fell", attention=True)
    assert output["text"] == best.text
    assert output["attention"] == best.attention.record()


@pytest.mark.parametrize("name", ["ngram", "pairs-transformer"])
def test_the_tree_of_a_search_has_its_outputs_and_their_probabilities(server: Serving, name: str) -> None:
    asked = {"model": name, "prompt": "the cat", "beam": 3, "n_best": 2, "max_length": 8}
    answer = server.answer("/v1/generate", **asked, tree=True)
    plain = server.answer("/v1/generate", **asked)
    assert [each["text"] for each in answer["outputs"]] == [each["text"] for each in plain["outputs"]]
    nodes = answer["tree"]
    assert all(node["parent"] < number for number, node in enumerate(nodes) if number)
    for output in answer["outputs"]:
        assert [nodes[number]["parent"] for number in output["nodes"]] == [0, *output["nodes"][:-1]]
        total = sum(nodes[number]["log_prob"] for number in output["nodes"])
        assert total == pytest.approx(output["log_prob"], abs=1e-5)


def test_a_streamed_text_is_the_whole_text(server: Serving) -> None:
    asked = {"model": "transformer", "prompt": "the cat", "seed": 3, "n_best": 2, "min_length": 6}
    whole = server.answer("/v1/generate", **asked)["outputs"]
    texts, log_probs = ["", ""], [0.0, 0.0]
    with server.client.stream("POST", "/v1/generate", json={**asked, "stream": True}) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    for piece in map(json.loads, lines[:-1]):
        texts[piece["number"]] += piece["text"]
        log_probs[piece["number"]] += sum(token["log_prob"] for token in piece["tokens"])
    assert texts == [each["text"] for each in whole]
    assert log_probs == [each["log_prob"] for each in whole]


@pytest.mark.parametrize("name", ["transformer", "ngram"])
def test_scores_are_those_of_the_python_api(server: Serving, trained: dict[str, Any], name: str) -> None:
    texts = ["the cat sat on the log", "a dog"]
    answer = server.answer("/v1/score", model=name, texts=texts)
    for text, score in zip(texts, answer["scores"], strict=True):
        tokens = [token._asdict() for token in trained[name].full_scores(text)]
        assert score["token_scores"] == tokens
        assert score["log_prob"] == pytest.approx(sum(token["log_prob"] for token in tokens))
    assert answer["perplexity"] == pytest.approx(trained[name].perplexity(texts))


def test_pairs_are_scored_with_their_sources(server: Serving, trained: dict[str, Any]) -> None:
    answer = server.answer("/v1/score", model="pairs-transformer", texts="dog a", sources="a dog")
    tokens = trained["pairs-transformer"].full_scores("a dog", "dog a")
    assert [token["log_prob"] for token in answer["scores"][0]["token_scores"]] == [each.log_prob for each in tokens]
    assert "sources" in server.refusal(400, "/v1/score", model="pairs-transformer", texts="dog a")["message"]
    assert "sources" in server.refusal(400, "/v1/score", model="ngram", texts="a", sources="a")["message"]


def test_translations_have_the_shape_of_libretranslate(server: Serving, trained: dict[str, Any]) -> None:
    sources = ["the cat sat", "a dog fell on a mat"]
    expected = [several[0].text for several in (trained["pairs-transformer"].generate([each])[0] for each in sources)]
    answer = server.answer("/v1/translate", model="pairs-transformer", q=sources)
    assert answer == {"translatedText": expected}
    one = server.answer("/v1/translate", q=sources[0], source="pairs", target="transformer", alternatives=1)
    assert one["translatedText"] == expected[0]
    assert len(one["alternatives"]) == 1
    assert server.answer("/v1/translate", q=sources[0], target="pairs-transformer") == {"translatedText": expected[0]}
    assert "'en-fr'" in server.refusal(400, "/v1/translate", q="x", source="en", target="fr")["message"]
    assert "'s-transformer'" in server.refusal(400, "/v1/translate", q="x", source="s", target="transformer")["message"]
    assert "target" in server.refusal(400, "/v1/translate", q="x", source="s", model="pairs-transformer")["message"]


def test_chat_reads_the_turns_so_far(server: Serving, trained: dict[str, Any]) -> None:
    roles = ["user", "assistant", "user"]
    messages = [{"role": role, "content": text} for role, text in zip(roles, TURNS, strict=False)]
    answer = server.answer("/v1/chat/completions", model="talker", messages=messages)
    ((best,),) = trained["talker"].generate([TURN.join(TURNS[:3])])
    assert answer["choices"][0]["message"]["content"] == best.text
    refused = server.refusal(400, "/v1/chat/completions", model="transformer", messages=messages)
    assert "/v1/completions" in refused["message"]
    alone = server.refusal(400, "/v1/chat/completions", model="pairs-transformer", messages=messages)
    assert "knows no conversations" in alone["message"]
    system = [{"role": "system", "content": "be kind"}, *messages]
    assert "messages.0.role" in server.refusal(400, "/v1/chat/completions", model="talker", messages=system)["param"]


def test_labels_are_those_of_the_python_api(server: Serving, trained: dict[str, Any]) -> None:
    lines = ["the cat sat", "a dog"]
    expected = [record for _, record in trained["classifier"].predict_lines(lines)]
    assert server.answer("/v1/label", model="classifier", texts=lines)["labels"] == json.loads(json.dumps(expected))


@pytest.mark.parametrize("name", ["elmo-words", "word2vec"])
def test_embeddings_are_means_over_words(server: Serving, trained: dict[str, Any], name: str) -> None:
    run = trained[name]
    vectors = run.embed(["the cat"])[0] if name == "elmo-words" else np.stack([run.vectors[w] for w in ("the", "cat")])
    data = server.answer("/v1/embeddings", model=name, input=["the cat"])["data"]
    np.testing.assert_allclose(data[0]["embedding"], vectors.mean(0), rtol=1e-5)
    (coded,) = server.answer("/v1/embeddings", model=name, input="the cat", encoding_format="base64")["data"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(coded["embedding"]), "<f4"), vectors.mean(0), rtol=1e-5)


def test_tokens_come_back_as_the_text(server: Serving) -> None:
    tokens = server.answer("/tokenize", model="transformer", text="the cat sat")
    assert tokens["pieces"] == ["the", "cat", "sat"]
    assert server.answer("/detokenize", model="transformer", tokens=tokens["tokens"])["text"] == "the cat sat"
    assert "no token" not in server.refusal(400, "/detokenize", model="transformer", tokens=[10**6])["message"]


def test_images_are_those_of_the_python_api(server: Serving, trained: dict[str, Any]) -> None:
    vae = trained["vae"]
    answer = server.answer("/v1/sample", model="vae", n=3, seed=5)
    np.testing.assert_array_equal(decoded(answer["images"]), vae.sample(3, 5))
    drawn = server.answer("/v1/draw", model="text-to-image", texts="white left of black", n=2)
    np.testing.assert_array_equal(decoded(drawn["images"]), trained["text-to-image"].draw("white left of black", n=2))


def test_codes_go_to_images_and_back(server: Serving, trained: dict[str, Any]) -> None:
    vae = trained["vae"]
    _, height, width = vae.images.shape
    black, white = (np.full((1, height, width), level, np.uint8) for level in (0, 255))
    pictures = server.answer("/v1/latent", model="vae", do="encode", images=[shade(0), shade(255)])
    np.testing.assert_allclose(pictures["codes"], np.concatenate([vae.transform(black), vae.transform(white)]), 1e-5)
    path = server.answer("/v1/latent", model="vae", do="interpolate", codes=pictures["codes"], steps=5)
    np.testing.assert_array_equal(decoded(path["images"]), vae.interpolate(black, white, 5))
    decode = server.answer("/v1/latent", model="vae", do="decode", codes=pictures["codes"])
    np.testing.assert_array_equal(decoded(decode["images"])[0], decoded(path["images"])[0])
    assert "numbers" in server.refusal(400, "/v1/latent", model="vae", do="decode", codes=[[0.0]])["message"]
    assert "PNG" in server.refusal(400, "/v1/latent", model="vae", do="encode", images=["AAAA"])["message"]


def test_captions_are_those_of_the_python_api(server: Serving, trained: dict[str, Any]) -> None:
    answer = server.answer("/v1/caption", model="captioner", images=shade(240))
    ((best,),) = trained["captioner"].generate([Image.open(io.BytesIO(base64.b64decode(shade(240))))])
    assert answer["captions"] == [[{"text": best.text, "log_prob": best.log_prob}]]


def test_what_is_not_supported_is_refused_by_name(server: Serving) -> None:
    for path, field, body in (
        ("/v1/completions", "suffix", {"prompt": "a"}),
        ("/v1/completions", "user", {"prompt": "a"}),
        ("/v1/chat/completions", "tools", {"messages": [{"role": "user", "content": "a"}]}),
        ("/v1/responses", "instructions", {"input": "a"}),
        ("/v1/embeddings", "dimensions", {"input": "a"}),
        ("/v1/generate", "best_of", {"prompt": "a"}),
    ):
        refused = server.refusal(400, path, **body, **{field: 1})
        assert refused["param"] == field
        assert field in refused["message"]


def test_null_is_as_if_left_out(server: Serving) -> None:
    """OpenAI's requests allow it for every field that need not be there."""
    asked = {"model": "transformer", "prompt": "the cat", "max_tokens": 3}
    names = ("n", "seed", "stop", "stream", "echo", "presence_penalty", "logit_bias", "best_of", "temperature", "user")
    choices = server.answer("/v1/completions", **asked, **dict.fromkeys(names))["choices"]
    assert choices == server.answer("/v1/completions", **asked)["choices"]
    assert "missing" in server.refusal(400, "/v1/chat/completions", model="talker", messages=None)["message"]


def test_options_that_would_have_no_effect_are_refused_by_name(server: Serving) -> None:
    for field, body in (
        ("temperature", {"strategy": "beam", "temperature": 0.5}),
        ("top_k", {"strategy": "greedy", "top_k": 1}),
        ("top_p", {"beam": 2, "strategy": "beam", "top_p": 1.0}),
        ("beam", {"strategy": "greedy", "beam": 2}),
        ("length_penalty", {"strategy": "sample", "length_penalty": 0.5}),
    ):
        refused = server.refusal(400, "/v1/generate", model="pairs-transformer", prompt="a b", **body)
        assert refused["param"] == field
        assert f"the strategy is {body['strategy']}" in refused["message"]
    for field in ({"steps": 5}, {"way": "linear"}):
        refused = server.refusal(400, "/v1/latent", model="vae", do="decode", codes=[[0.0]], **field)
        assert "steps and way are of an interpolation" in refused["message"]
    both = {"model": "pairs-transformer", "prompt": "a b", "strategy": "beam", "tree": True}
    for field in ("attention", "replace_unknown"):
        assert field in server.refusal(400, "/v1/generate", **both, **{field: True})["message"]
    huge = server.refusal(400, "/v1/completions", model="ngram", prompt="a", logit_bias={"1" * 5000: 1.0})["message"]
    assert "is no token" in huge
    assert len(huge) < 200


def test_mistakes_are_told_as_sentences(server: Serving) -> None:
    assert "name a model" in server.refusal(400, "/v1/completions", prompt="a")["message"]
    assert "did you mean 'ngram'" in server.refusal(404, "/v1/completions", model="ngrams", prompt="a")["message"]
    assert "is not for /v1/sample" in server.refusal(400, "/v1/sample", model="ngram")["message"]
    response = server.client.post("/v1/score", content=b'{"texts": ', headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert "no JSON" in response.json()["error"]["message"]
    response = server.client.post(
        "/v1/score", content=b'{"texts": "\\ud800"}', headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400
    assert "vocabulary" in server.refusal(400, "/v1/completions", model="ngram", prompt=[10**6])["message"]


def test_the_documents_name_nothing_outside(server: Serving) -> None:
    document = server.client.get("/openapi.json").json()
    assert {"/v1/completions", "/v1/score", "/health"} <= set(document["paths"])
    page = server.client.get("/docs").text
    assert "/v1/score" in page
    assert "http" not in page.replace("/openapi.json", "")

"""The official client works against the server, for what it offers."""

from __future__ import annotations

from typing import Any

import numpy as np
import openai
import pytest
from served import TURNS, Serving

from seqloom.data.pairs import TURN


@pytest.fixture(scope="module")
def client(server: Serving) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def user(text: str) -> Any:
    return [{"role": "user", "content": text}]


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert "transformer" in [model.id for model in client.models.list()]


def test_completions_are_those_of_the_python_api(client: openai.OpenAI, trained: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"model": "transformer", "prompt": "the cat", "max_tokens": 9, "seed": 7, "n": 2}
    answer = client.completions.create(**asked, temperature=0.8)
    (several,) = trained["transformer"].generate(
        ["the cat"], strategy="sample", temperature=0.8, n_best=2, max_length=9, seed=7
    )
    assert [choice.text for choice in answer.choices] == [each.text for each in several]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == sum(each.tokens for each in several)
    greedy = client.completions.create(model="transformer", prompt="the cat", max_tokens=9, temperature=0)
    ((best,),) = trained["transformer"].generate(["the cat"], strategy="greedy", max_length=9)
    assert greedy.choices[0].text == best.text


def test_completions_stream(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "transformer", "prompt": ["the cat", "a"], "max_tokens": 7, "seed": 7}
    whole = client.completions.create(**asked)
    texts, usage = ["", ""], None
    for chunk in client.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in whole.choices]
    assert usage == whole.usage


def test_log_probabilities_are_exact(client: openai.OpenAI, trained: dict[str, Any]) -> None:
    """A prompt that is echoed is scored as `score` does it, and what is written has the probability that it has."""
    run, text = trained["transformer"], "the cat sat on the log"
    answer = client.completions.create(model="transformer", prompt=text, max_tokens=0, echo=True, logprobs=3)
    table = answer.choices[0].logprobs
    assert table is not None
    scores = run.full_scores(text, eos=False)
    assert table.tokens == [score.text for score in scores]
    assert table.token_logprobs == [score.log_prob for score in scores]
    assert table.text_offset == [0, 4, 8, 12, 15, 19]
    for place, likeliest in enumerate(table.top_logprobs or []):
        before = " ".join(table.tokens[:place])
        expected = dict(run.next_tokens(before, 3))
        assert {name: pytest.approx(np.exp(value), rel=1e-4) for name, value in likeliest.items()} == expected
    written = client.completions.create(model="transformer", prompt="the cat", max_tokens=4, logprobs=1, seed=1)
    said = written.choices[0].logprobs
    assert said is not None
    assert said.token_logprobs is not None
    whole = run.full_scores("the cat" + written.choices[0].text)[2 : 2 + len(said.token_logprobs)]
    assert said.token_logprobs == pytest.approx([score.log_prob for score in whole], abs=1e-5)


def test_tokens_can_be_prompts(client: openai.OpenAI, trained: dict[str, Any]) -> None:
    ids = trained["transformer"].tokenizer.encode("the cat")
    asked: dict[str, Any] = {"model": "transformer", "max_tokens": 6, "seed": 2}
    by_ids = client.completions.create(prompt=[ids, ids], **asked)
    by_text = client.completions.create(prompt="the cat", **asked)
    assert {choice.text for choice in by_ids.choices} == {by_text.choices[0].text}


def test_stop_bias_and_best_of(client: openai.OpenAI, trained: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"model": "ngram", "prompt": "the cat sat", "max_tokens": 12, "seed": 4}
    free = client.completions.create(**asked).choices[0].text
    word = free.split()[2]
    stopped = client.completions.create(**asked, stop=[f" {word}"]).choices[0]
    assert stopped.text == free[: free.index(f" {word}")]
    assert stopped.finish_reason == "stop"
    token = trained["ngram"].tokenizer.encode("dog")[0]
    forced = client.completions.create(**asked, logit_bias={str(token): 100}).choices[0].text
    assert forced.split() == ["dog"] * 12
    punished = client.completions.create(
        **asked, logit_bias={str(token): 3}, presence_penalty=2, frequency_penalty=2
    ).choices[0]
    assert punished.text.split().count("dog") < 12
    best = client.completions.create(**asked, best_of=4, n=1, logprobs=0).choices[0]
    several = client.completions.create(**asked, n=4, logprobs=0).choices
    means = [np.mean(choice.logprobs.token_logprobs) for choice in several]  # type: ignore[union-attr, arg-type]
    assert best.text == several[int(np.argmax(means))].text


def test_chat_answers_and_streams(client: openai.OpenAI, trained: dict[str, Any]) -> None:
    messages: Any = [*user(TURNS[0]), {"role": "assistant", "content": TURNS[1]}, *user(TURNS[2])]
    ((greedy,),) = trained["talker"].generate([TURN.join(TURNS[:3])], strategy="greedy")
    answer = client.chat.completions.create(
        model="talker", messages=messages, temperature=0, logprobs=True, top_logprobs=2
    )
    assert answer.choices[0].message.content == greedy.text
    content = answer.choices[0].logprobs.content  # type: ignore[union-attr]
    assert content is not None
    assert sum(token.logprob for token in content) == pytest.approx(greedy.log_prob)
    assert all(len(token.top_logprobs) == 2 for token in content)
    chunks = client.chat.completions.create(model="talker", messages=messages, temperature=0, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == greedy.text


def test_responses_answer_and_stream(client: openai.OpenAI, trained: dict[str, Any]) -> None:
    ((best,),) = trained["pairs-transformer"].generate(["a dog fell"])
    assert client.responses.create(model="pairs-transformer", input="a dog fell").output_text == best.text
    kinds, text = [], ""
    for event in client.responses.create(model="pairs-transformer", input="a dog fell", temperature=0, stream=True):
        kinds.append(event.type)
        text += event.delta if event.type == "response.output_text.delta" else ""
    ((greedy,),) = trained["pairs-transformer"].generate(["a dog fell"], strategy="greedy")
    assert text == greedy.text
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    with client.responses.stream(model="pairs-transformer", input="a dog fell", temperature=0) as stream:
        assert stream.get_final_response().output_text == greedy.text


def test_a_text_that_was_cut_says_so(client: openai.OpenAI) -> None:
    for temperature in (openai.omit, 0):  # by a search, and token by token
        asked: dict[str, Any] = {"model": "pairs-transformer", "temperature": temperature}
        chat = client.chat.completions.create(messages=user("a dog fell"), max_tokens=1, **asked)
        assert chat.choices[0].finish_reason == "length"
        response = client.responses.create(input="a dog fell", max_output_tokens=1, **asked)
        assert response.status == "incomplete"
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == "max_output_tokens"
        assert [event.type for event in client.responses.create(input="a dog fell", stream=True, **asked)][-1] in (
            "response.completed",
            "response.incomplete",
        )


def test_embeddings_have_the_width_of_the_model(client: openai.OpenAI, trained: dict[str, Any]) -> None:
    answer = client.embeddings.create(model="elmo-words", input=["the cat", "a dog"])
    assert [len(each.embedding) for each in answer.data] == [trained["elmo-words"].width] * 2


def test_errors_are_the_clients_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="nonesuch"):
        client.completions.create(model="nonesuch", prompt="a")
    with pytest.raises(openai.BadRequestError, match="suffix"):
        client.completions.create(model="ngram", prompt="a", suffix="b")
    with pytest.raises(openai.UnprocessableEntityError, match="max_tokens"):
        client.completions.create(model="ngram", prompt="a", max_tokens=10**6)

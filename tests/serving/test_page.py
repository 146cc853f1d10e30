"""The page in a real browser: every tab is walked through on tiny runs, as a person would."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Serving

from seqloom.errors import CheckpointError
from seqloom.runs.listing import Damaged

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: the page is not looked at")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open the page of a server; at the end nothing must have gone wrong in it unseen, nor been fetched elsewhere."""
    opened = []

    def open_page(serving: Serving, tab: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, "locale": "en-GB"} | options)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.errors, page.asked = [], []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda said: page.errors.append(said.text) if "Content Security" in said.text else None)
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(f"{serving.url}/#{tab}")
        opened.append((context, page, serving.url))
        return page

    yield open_page
    for context, page, url in opened:
        elsewhere = [each for each in page.asked if not each.startswith((url, "data:"))]
        errors = list(page.errors)
        context.close()
        assert not errors
        assert not elsewhere


def wait_for(found: Any) -> Any:
    """Expectations that wait; `wait_for_function` would evaluate a string in the page, which its policy forbids."""
    from playwright.sync_api import expect

    expect.set_options(timeout=30_000)
    return expect(found)


def choose(page: Any, model: str) -> None:
    page.select_option("#panel select[name=model]", model)


def test_tabs_are_those_of_what_is_loaded(visit: Any, server: Serving) -> None:
    page = visit(server)
    page.wait_for_selector("[role=tab]")
    names = [tab.get_attribute("id").removeprefix("tab-") for tab in page.query_selector_all("[role=tab]")]
    offered = {path for model in server.client.get("/v1/models").json()["data"] for path in model["offers"]}
    expected = {
        "complete": "/v1/completions",
        "answer": "/v1/chat/completions",
        "fill": "/v1/fill",
        "label": "/v1/label",
        "score": "/v1/score",
        "words": "/v1/words",
        "images": "/v1/sample",
        "compare": "/v1/models",
        "data": "/v1/data",
        "training": "/v1/training",
    }
    assert names == [name for name, path in expected.items() if path in offered or name == "compare"]


def test_a_text_is_written_as_the_api_writes_it_and_goes_on_from_another_token(visit: Any, server: Serving) -> None:
    page = visit(server, "complete")
    choose(page, "transformer")
    page.fill("textarea[name=prompt]", "the")
    page.fill("input[name=length]", "12")
    page.click("button.first")
    page.wait_for_selector("button.token")
    page.wait_for_selector("button.first:not([aria-busy])")
    written = "".join(page.locator("button.token").all_inner_texts())
    body = {"model": "transformer", "prompt": "the", "strategy": "sample", "temperature": 0.8, "max_length": 12}
    assert written.split() == server.answer("/v1/generate", **body)["outputs"][0]["text"].split()

    page.locator("button.token").first.click()
    others = page.locator(".choices").first.locator("li button")
    assert others.count() == 8
    shares = [float(each.split("%")[0].split()[-1]) for each in others.all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    chosen = others.nth(7).locator(".word").inner_text()
    others.nth(7).click()
    page.wait_for_selector("button.first:not([aria-busy])")
    assert page.locator("button.token").first.inner_text().strip() == chosen.strip()
    first = server.answer("/tokenize", model="transformer", text=f"the {chosen}")["tokens"]
    again = server.answer("/v1/generate", **body | {"prompt": first, "max_length": 11})["outputs"][0]["text"]
    assert "".join(page.locator("button.token").all_inner_texts()).split() == [chosen.strip(), *again.split()]


def test_a_text_goes_on_with_the_model_and_the_prompt_that_it_began_with(visit: Any, server: Serving) -> None:
    page = visit(server, "complete")
    choose(page, "transformer")
    page.fill("textarea[name=prompt]", "the")
    page.click("button.first")
    page.wait_for_selector("button.token")
    page.wait_for_selector("button.first:not([aria-busy])")
    page.locator("button.token").first.click()
    page.fill("textarea[name=prompt]", "quite another beginning")
    other = page.locator(".choices").first.locator("li button").nth(7)
    chosen = other.locator(".word").inner_text()
    with page.expect_request("**/v1/generate") as sent:
        other.click()
    asked = sent.value.post_data_json
    assert asked["model"] == "transformer"
    assert asked["prompt"] == server.answer("/tokenize", model="transformer", text=f"the {chosen}")["tokens"]

    page.locator("button.token").first.click()
    choose(page, "ngram")
    wait_for(page.locator("button.token")).to_have_count(0)
    assert page.locator(".choices").count() == 0
    assert page.locator(".output").text_content() == ""


def test_a_text_can_be_stopped(visit: Any, server: Serving) -> None:
    page = visit(server, "complete")
    token = {"token": "the", "id": 7, "log_prob": -1.0, "likeliest": []}
    begin_only(page, "/v1/generate", {"number": 0, "text": "the", "tokens": [token]})
    page.click("button.first")
    page.wait_for_selector("button.token")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector("button.first:not([aria-busy])")
    assert page.locator("button.token").all_inner_texts() == ["the"]
    assert page.locator("[role=alert]").count() == 0


def test_a_line_break_can_be_clicked_and_every_token_is_counted(visit: Any, server: Serving) -> None:
    def said(*names: str) -> list[dict[str, Any]]:
        likeliest = [{"token": name, "id": 7, "log_prob": -0.5} for name in names]
        return [{"token": name, "id": 7, "log_prob": -1.0, "likeliest": likeliest} for name in names]

    page = visit(server, "complete")
    pieces = [("a b", said("a", " b")), ("\n", said("\n")), ("c", said("c")), ("", said("<eos>"))]
    stream(page, "/v1/generate", *({"number": 0, "text": text, "tokens": tokens} for text, tokens in pieces))
    page.fill("textarea[name=prompt]", "so: ")
    page.click("button.first")
    wait_for(page.locator("button.token")).to_have_count(3)
    assert page.locator(".output").inner_text() == "so: a b↵\nc"
    tops = [token.bounding_box()["y"] for token in page.locator("button.token").all()]
    assert tops[0] == tops[1] < tops[2]
    page.locator("button.token").nth(1).click()
    assert page.locator(".choices .word").all_inner_texts() == ["↵"]
    wait_for(page.get_by_text(re.compile("^5 tokens, "))).to_be_visible()


def stream(page: Any, path: str, *events: dict[str, Any]) -> None:
    """Let the page get these events from there, instead of the server's."""
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    page.route(f"**{path}", lambda route: route.fulfill(content_type="text/event-stream", body=body))


def begin_only(page: Any, path: str, event: dict[str, Any]) -> None:
    """Let the next answer that the page gets from there begin with this event, and never end."""
    script = """([path, line]) => {
        const fetched = window.fetch;
        window.fetch = (asked, options) => {
            if (asked !== path) return fetched(asked, options);
            window.fetch = fetched;
            return Promise.resolve(new Response(new ReadableStream({start: stream => {
                stream.enqueue(new TextEncoder().encode(line));
                options.signal.addEventListener("abort", () => stream.error(options.signal.reason));
            }})));
        };
    }"""
    page.evaluate(script, [path, f"data: {json.dumps(event)}\n\n"])


def told_commands(page: Any, said: str = "details.same") -> tuple[str, list[str]]:
    """What a panel says that does the same: by curl, and by the command line."""
    shown = page.locator(said)
    return shown.locator("pre.curl").text_content(), shown.locator("pre.cli").text_content().splitlines()


def curled(command: str) -> Any:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def typed(cli: Any, command: str) -> Any:
    """What `seqloom ...` gives, alone or at the end of a pipe."""
    before, _, last = command.rpartition(" | seqloom ")
    given = subprocess.run(["bash", "-c", before], capture_output=True, text=True, check=True).stdout if before else ""
    done = cli(*shlex.split(last.removeprefix("seqloom ")), "--json", stdin=given)
    assert done.code == 0, done.stderr
    return done.records


TRICKY = 'the cat\'s $HOME `sat` \\n "on" a'
"""What a shell would change if it were not quoted."""


@pytest.mark.parametrize("name", ["ngram", "pairs-transformer"])
def test_a_score_from_the_command_line_is_that_of_the_page(visit: Any, server: Serving, cli: Any, name: str) -> None:
    page = visit(server, "score")
    choose(page, name)
    if name == "pairs-transformer":
        page.fill("textarea[name=source]", TRICKY)
    page.fill("textarea[name=text]", TRICKY)
    page.click("button.first")
    page.wait_for_selector(".output .token, section .output")
    page_says = float(re.search(r"log p (-[\d.]+)", page.inner_text("#panel")).group(1))
    curl, (line,) = told_commands(page)
    assert curled(curl)["total_log_prob"] == pytest.approx(page_says, rel=1e-3)
    assert typed(cli, line)[-1]["total_log_prob"] == pytest.approx(page_says, rel=1e-3)


def test_texts_from_the_command_line_are_those_of_the_page(visit: Any, server: Serving, cli: Any) -> None:
    page = visit(server, "complete")
    choose(page, "transformer")
    page.fill("textarea[name=prompt]", TRICKY)
    page.click("button.first")
    page.wait_for_selector("button.token")
    page.wait_for_selector("button.first:not([aria-busy])")
    curl, (line,) = told_commands(page)
    written = "".join(page.locator("button.token").all_inner_texts()).split()
    assert curled(curl)["outputs"][0]["text"].split() == written
    assert typed(cli, line)[0]["outputs"][0]["text"].split() == written

    page.click("#tab-answer")
    choose(page, "pairs-transformer")
    for strategy in ("beam", "greedy", "sample"):
        page.select_option("select[name=strategy]", strategy)
        page.fill("textarea[name=prompt]", TRICKY)
        page.click("button.first")
        page.wait_for_selector("button.first[aria-busy]", state="detached")
        best = page.locator(".output").first.text_content()
        curl, (line,) = told_commands(page)
        assert curled(curl)["outputs"][0]["text"] == best
        assert typed(cli, line)[0]["outputs"][0]["text"] == best


def test_what_else_the_page_says_can_be_typed(
    visit: Any, server: Serving, cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visit(server, "fill")
    page.fill("textarea[name=text]", "the [MASK] sat")
    page.click("button.first")
    page.wait_for_selector(".bars .bar")
    filled = page.locator(".output").inner_text()
    curl, (line,) = told_commands(page)
    assert curled(curl)["filled"][0]["filled"] == typed(cli, line)[0]["filled"] == filled

    page.click("#tab-label")
    page.fill("textarea[name=text]", TRICKY)
    page.click("button.first")
    page.wait_for_selector(".bars .bar")
    curl, (line,) = told_commands(page)
    assert curled(curl)["labels"][0]["label"] == typed(cli, line)[0]["label"]

    page.click("#tab-words")
    page.fill("input[name=word]", "cat dog")
    page.press("input[name=word]", "Enter")
    page.wait_for_selector(".bars .bar")
    curl, (line,) = told_commands(page)
    first = page.locator(".bars span").first.inner_text()
    assert curled(curl)["neighbours"][0]["near"][0]["word"] == first
    assert typed(cli, line)[0]["neighbours"][0]["word"] == first

    page.click("#tab-data")
    page.wait_for_selector("svg.chart path.line")
    curl, lines = told_commands(page)
    assert [record["words"] for line in lines for record in typed(cli, line)] == [curled(curl)["words"]]

    page.click("#tab-training")
    page.wait_for_selector("dl dd")
    curl, (line,) = told_commands(page)
    assert curled(curl)["step"] == typed(cli, line)[0]["step"]

    page.click("#tab-images")
    monkeypatch.chdir(tmp_path)
    walks = {"vae": "Draw", "autoencoder": "Take the noise off", "rbm": "Complete halves"}
    for name, button in walks.items():
        choose(page, name)
        page.get_by_role("button", name=button, exact=True).click()
        part = page.locator("section", has=page.get_by_role("button", name=button, exact=True))
        part.locator(".pictures img").first.wait_for()
        assert page.locator("[role=alert]").count() == 0
        curl, (line,) = told_commands(part)
        assert curled(curl)["images"]
        (record,) = typed(cli, line)
        assert (tmp_path / record["out"]).is_file()


def test_two_models_score_side_by_side(visit: Any, server: Serving) -> None:
    page = visit(server, "score")
    choose(page, "ngram")
    page.select_option("select[name=other]", "transformer")
    page.fill("textarea[name=text]", "the time machine")
    page.press("textarea[name=text]", "Control+Enter")
    page.wait_for_selector(".two section:nth-of-type(2)")
    assert page.locator(".two h3").all_inner_texts() == ["ngram", "transformer"]
    for name, told in zip(["ngram", "transformer"], page.locator(".two section").all_inner_texts(), strict=True):
        answer = server.answer("/v1/score", model=name, texts="the time machine")
        assert float(re.search(r"log p (-[\d.]+)", told).group(1)) == pytest.approx(answer["total_log_prob"], rel=1e-3)


def test_a_source_is_answered_with_attention_and_the_search(visit: Any, server: Serving) -> None:
    page = visit(server, "answer")
    choose(page, "pairs-transformer")
    page.fill("textarea[name=prompt]", "the time")
    page.check("input[name=tree]")
    page.click("button.first")
    page.wait_for_selector("svg.tree")
    best = server.answer("/v1/generate", model="pairs-transformer", prompt="the time", beam=5, n_best=3)["outputs"]
    assert page.locator("ol.best li").count() == len(best)
    assert page.locator(".output").first.inner_text() == best[0]["text"]
    words = page.locator(".attends button")
    if words.count() > 1:
        before = page.locator(".attends [data-word]").first.get_attribute("style")
        words.last.hover()
        assert page.locator(".attends button.now").count() == 1
        assert words.last.get_attribute("class") == "now"
        assert before is not None
    page.select_option("select[name=strategy]", "greedy")
    page.click("button.first")
    greedy = server.answer("/v1/generate", model="pairs-transformer", prompt="the time", strategy="greedy")
    wait_for(page.locator(".output")).to_have_text(greedy["outputs"][0]["text"])


def test_a_conversation_goes_on(visit: Any, server: Serving) -> None:
    page = visit(server, "answer")
    choose(page, "talker")
    page.fill("input[name=turn]", "hello there")
    page.press("input[name=turn]", "Enter")
    page.wait_for_selector(".talk p:nth-of-type(2)")
    page.wait_for_selector("button.first:not([aria-busy])")
    said = server.answer(
        "/v1/chat/completions", model="talker", messages=[{"role": "user", "content": "hello there"}], temperature=0
    )
    assert page.locator(".talk p").all_inner_texts() == ["hello there", said["choices"][0]["message"]["content"]]


def say(page: Any, turn: str) -> Any:
    """Send a turn of a conversation; what the page asks then."""
    page.fill("input[name=turn]", turn)
    with page.expect_request("**/v1/chat/completions") as sent:
        page.press("input[name=turn]", "Enter")
    return sent.value.post_data_json


def answered(page: Any) -> list[str]:
    """The turns of a conversation, once the last is answered."""
    page.wait_for_selector("button.first:not([aria-busy])")
    return page.locator(".talk p").all_inner_texts()


@pytest.mark.parametrize("way", ["refused", "stopped", "language changed"])
def test_a_turn_without_an_answer_goes_back_to_where_it_was_typed(visit: Any, server: Serving, way: str) -> None:
    page = visit(server, "answer")
    choose(page, "talker")
    waiting: list[Any] = []
    page.route("**/v1/chat/completions", lambda route: waiting.append(route), times=1)
    say(page, "hello there")
    wait_for(page.locator(".talk p")).to_have_count(2)
    if way == "refused":
        refused = {"error": {"message": "the queue is full", "type": "rate_limit_error", "param": None, "code": 429}}
        waiting[0].fulfill(status=429, json=refused)
        wait_for(page.locator("[role=alert]")).to_have_text("The queue is full.")
    elif way == "stopped":
        page.get_by_role("button", name="Stop").click()
    else:
        page.click("#language")
    wait_for(page.locator(".talk p")).to_have_count(0)
    assert page.input_value("input[name=turn]") == "hello there"

    page.press("input[name=turn]", "Enter")
    wait_for(page.locator(".talk p")).to_have_count(2)
    turns = answered(page)
    assert [turn["content"] for turn in say(page, "how are you")["messages"]] == [*turns, "how are you"]


def test_no_turn_is_lost_that_is_sent_while_another_waits(visit: Any, server: Serving) -> None:
    page = visit(server, "answer")
    choose(page, "talker")
    page.route("**/v1/chat/completions", lambda route: None, times=1)
    assert len(say(page, "hello there")["messages"]) == 1
    assert [turn["content"] for turn in say(page, "good day")["messages"]] == ["hello there good day"]
    turns = answered(page)
    assert len(turns) == 2
    assert [turn["content"] for turn in say(page, "how are you")["messages"]] == [*turns, "how are you"]


def test_what_there_is_of_an_answer_stays(visit: Any, server: Serving) -> None:
    page = visit(server, "answer")
    choose(page, "talker")
    good = {"choices": [{"delta": {"content": "good"}}]}
    begin_only(page, "/v1/chat/completions", good)
    page.fill("input[name=turn]", "hello there")
    page.press("input[name=turn]", "Enter")
    wait_for(page.locator(".talk p")).to_have_text(["hello there", "good"])
    said = say(page, "how are you")["messages"]
    assert [turn["content"] for turn in said] == ["hello there", "good", "how are you"]
    turns = answered(page)
    assert len(turns) == 4

    problem = {"message": "the answer took too long: ask for less, or later", "code": 504}
    stream(page, "/v1/chat/completions", good, {"error": problem})
    said = say(page, "good bye")["messages"]
    assert [turn["content"] for turn in said] == [*turns, "good bye"]
    wait_for(page.locator("[role=alert]")).to_have_text("The answer took too long: ask for less, or later.")
    assert answered(page) == [*turns, "good bye", "good"]
    page.get_by_role("button", name="Begin anew").click()
    assert answered(page) == []


@pytest.mark.parametrize("how", ["greedy", "sample"])
def test_a_turn_from_the_command_line_is_that_of_the_page(visit: Any, server: Serving, cli: Any, how: str) -> None:
    page = visit(server, "answer")
    choose(page, "talker")
    page.select_option("select[name=how]", how)
    for turn in ("hello there", TRICKY, "how are you"):
        say(page, turn)
        said = answered(page)[-1]
        curl, (line,) = told_commands(page)
        assert curled(curl)["choices"][0]["message"]["content"] == said
        assert typed(cli, line)[0]["outputs"][0]["text"] == said


def test_words_have_neighbours_and_a_map(visit: Any, server: Serving) -> None:
    page = visit(server, "words")
    page.fill("input[name=word]", "the")
    page.press("input[name=word]", "Enter")
    page.wait_for_selector(".bars .bar")
    first = server.answer("/v1/words", model="word2vec", do="neighbours", words=["the"], n=10)["neighbours"][0]["near"][
        0
    ]
    assert page.locator(".bars span").first.inner_text() == first["word"]
    page.fill("input[name=n]", "20")
    page.get_by_role("button", name="Draw the map").click()
    page.wait_for_selector(".map button")
    page.fill("input[name=word]", "zzzz")
    page.press("input[name=word]", "Enter")
    assert "zzzz" in page.inner_text("[role=alert]")


def test_images_are_drawn_and_codes_dragged_over(visit: Any, server: Serving) -> None:
    page = visit(server, "images")
    choose(page, "vae")
    page.get_by_role("button", name="Draw", exact=True).click()
    page.wait_for_selector(".pictures img[alt='sample 16']")
    wait_for(page.locator("img.large")).to_have_attribute("src", re.compile("^data:"))
    before = page.get_attribute("img.large", "src")
    box = page.locator(".plane").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + 4, steps=5)
    page.mouse.up()
    wait_for(page.locator("img.large")).not_to_have_attribute("src", before)
    shelf = page.locator("[role=group][aria-label='Choose an image'] button")
    shelf.nth(0).click()
    shelf.nth(1).click()
    page.wait_for_selector("img[alt='step 9']")


def test_captions_and_drawings(visit: Any, server: Serving) -> None:
    page = visit(server, "images")
    choose(page, "captioner")
    page.locator("[role=group] button").first.click()
    page.wait_for_selector("ol.best li")
    choose(page, "text-to-image")
    page.fill("input[name=text]", "black left of white")
    page.press("input[name=text]", "Enter")
    page.wait_for_selector(".pictures img[alt='black left of white 6'], [role=alert]")
    assert page.locator("[role=alert]").all_inner_texts() == []


def test_labels_of_a_text(visit: Any, server: Serving) -> None:
    page = visit(server, "label")
    page.fill("textarea[name=text]", "a good film")
    page.click("button.first")
    page.wait_for_selector(".bars .bar")
    told = server.answer("/v1/label", model="classifier", texts="a good film")["labels"][0]
    assert page.locator(".bars span").first.inner_text() == told["label"]


def test_the_ladder_the_data_and_the_training_are_shown(visit: Any, server: Serving) -> None:
    page = visit(server, "compare")
    page.wait_for_selector("tbody tr")
    assert page.locator("tbody tr").count() == len(server.client.get("/v1/models").json()["data"])
    page.fill("textarea[name=prompt]", "the")
    page.get_by_role("button", name="Write").click()
    page.wait_for_selector(".two .output")

    page.click("#tab-data")
    page.wait_for_selector("svg.chart path.line")
    assert "words" in page.inner_text(".lead")

    page.click("#tab-training")
    page.wait_for_selector("dl dd")
    page.get_by_role("checkbox", name="transformer", exact=True).check()
    page.wait_for_selector("svg.chart path.line, svg.chart circle")


def test_a_training_is_followed_after_a_failure(visit: Any, server: Serving) -> None:
    page = visit(server)
    page.route("**/v1/training?*", lambda route: route.abort(), times=1)
    page.click("#tab-training")
    wait_for(page.locator("[role=alert]")).to_contain_text("does not answer")
    page.wait_for_selector("dl dd")
    assert page.locator("[role=alert]").count() == 0


def test_a_run_that_cannot_be_read_has_its_error_in_the_ladder(visit: Any, server: Serving) -> None:
    runs = server.client.get("/v1/runs").json()["runs"]
    broken = Damaged("runs/ngram", CheckpointError("runs/ngram/weights is missing"))
    runs[1] = {"model": "ngram", **broken.record()}
    page = visit(server)
    page.route("**/v1/runs", lambda route: route.fulfill(json={"runs": runs}))
    page.click("#tab-compare")
    page.wait_for_selector("tbody tr")
    assert page.locator("tbody tr").count() == len(runs)
    assert page.locator("tbody tr").nth(1).inner_text().split(None, 1) == ["ngram", "runs/ngram/weights is missing."]
    assert page.locator("[role=alert]").count() == 0


def test_the_page_speaks_chinese_and_keeps_what_was_typed(visit: Any, server: Serving) -> None:
    page = visit(server, "complete")
    page.fill("textarea[name=prompt]", "the time")
    page.click("#language")
    assert page.inner_text("#tab-complete") == "续写"
    assert page.get_attribute("html", "lang") == "zh"
    assert page.input_value("textarea[name=prompt]") == "the time"
    page.reload()
    page.wait_for_selector("#tab-complete")
    assert page.inner_text("#tab-complete") == "续写"


def test_a_mistake_is_told_in_a_sentence(visit: Any, server: Serving) -> None:
    page = visit(server, "complete")
    page.fill("input[name=length]", "1000000")
    page.click("button.first")
    said = page.inner_text("[role=alert]")
    assert "1,024" in said
    assert said.startswith("max_length: ")  # a field's name gets no capital


def test_tabs_and_tokens_can_be_reached_by_keyboard(visit: Any, server: Serving) -> None:
    page = visit(server, "complete")
    page.focus("#tab-complete")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("[role=tab][aria-selected=true]", "id") == "tab-answer"
    assert page.evaluate("document.activeElement.id") == "tab-answer"
    fields = "[...document.querySelectorAll('input, select, textarea')]"
    unnamed = page.evaluate(f"{fields}.filter(e => !e.labels?.length && !e.ariaLabel).length")
    assert unnamed == 0


@pytest.mark.parametrize("tab", ["complete", "answer", "score", "words", "images", "compare", "data", "training"])
def test_nothing_is_cut_off_on_a_telephone(visit: Any, server: Serving, tab: str) -> None:
    page = visit(server, tab, viewport={"width": 390, "height": 800})
    page.wait_for_selector(f"#tab-{tab}[aria-selected=true]")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def locked(runs: dict[str, Path], start: Callable[..., Serving], tmp_path_factory: pytest.TempPathFactory) -> Serving:
    """A server that wants a token."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN)
    return start(runs["ngram"], "--token-file", file, token=TOKEN).until_ready()


def test_the_page_asks_for_the_token_and_stays_with_it(visit: Any, locked: Serving) -> None:
    page = visit(locked)
    page.fill("input[type=password]", "a-wrong-one-of-some-length")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]")
    page.fill("input[type=password]", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("#tab-complete")
    page.reload()
    page.wait_for_selector("#tab-complete")


def test_all_endpoints_are_shown_with_the_token(visit: Any, locked: Serving) -> None:
    page = visit(locked)
    assert page.get_by_role("link", name="All endpoints").count() == 0
    page.fill("input[type=password]", TOKEN)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="All endpoints").click()
    page.get_by_role("cell", name="/v1/completions").wait_for()
    page.get_by_role("button", name="Back").click()
    page.wait_for_selector("[role=tab]")


def test_every_sentence_of_the_page_has_its_chinese() -> None:
    from seqloom.serving.page import contents

    scripts = {name: part.decode() for name, part in contents().items() if name.endswith(".js")}
    chinese = dict(re.findall(r'^  "(.*)": "(.*)",$', scripts.pop("chinese.js"), re.M))
    said = {each for script in scripts.values() for each in re.findall(r'\bt\("((?:[^"\\]|\\.)*)"', script)}
    assert said
    assert said <= set(chinese)
    for english, other in chinese.items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", other))

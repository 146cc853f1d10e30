// What comes after a beginning, token by token; a click on a token shows what else could have come.
import {ask, events} from "../api.js";
import {h, number} from "../dom.js";
import {t} from "../language.js";
import {command, field, hurry, models, numbered, same, tryThese, work} from "../panel.js";
import {choices, scale, token} from "../tokens.js";

const END = "<eos>";  // chosen, it ends the text
export const title = () => t("Complete");
export const fits = loaded => loaded.filter(model => model.offers.includes("/v1/completions"));

export function build(panel, able, kept, leaving) {
  const output = h("div", {class: "output", "aria-live": "polite", dir: "auto"});
  const others = h("div"), totals = h("p", {class: "note"}), tries = h("div");
  const by = same();
  let written = null;  // {model, prompt, pieces}; a piece is {text, tokens}: what can be read at once, and what it is made of

  const options = () => ({
    temperature: numbered(kept, "temperature"), top_p: numbered(kept, "top_p"), seed: numbered(kept, "seed"),
  });

  const shown = (piece, place) => token(piece.text, piece.tokens.reduce((sum, each) => sum + each.log_prob, 0), () => open(place));
  const draw = () => output.replaceChildren(h("span", {class: "given"}, written.prompt), ...written.pieces.flatMap(shown));

  function open(place) {
    output.querySelectorAll(".token").forEach((each, index) => each.setAttribute("aria-expanded", String(index === place)));
    others.replaceChildren(...written.pieces[place].tokens.map((said, index) => choices(said, said.likeliest, other => writing.run(place, index, other))));
  }

  // From the prompt; or from a token of the piece at `place` on, with another token there. What was written goes on with
  // its own model and prompt: the fields may say something else by now.
  async function write(signal, place = 0, index = 0, other = null) {
    const {model, prompt} = other ? written : kept;
    const pieces = other ? written.pieces.slice(0, place) : [];
    const same = other ? written.pieces[place].tokens.slice(0, index) : [];
    const body = {model, prompt, strategy: "sample", likeliest: 8, ...options()};
    let most = numbered(kept, "length") ?? 40;
    const cli = {prompt, "max-length": most, temperature: body.temperature, "top-p": body.top_p, seed: body.seed};
    by.tell("/v1/generate", {...body, max_length: most}, command("generate", [able.find(each => each.id === model).path], cli));
    others.replaceChildren();
    totals.textContent = "";
    if (other && other.token !== END) {
      const before = (await ask("/tokenize", {model, text: prompt}, signal)).tokens;
      const until = [...before, ...pieces.flatMap(piece => piece.tokens.map(each => each.id))];
      const all = [...until, ...same.map(each => each.id), other.id];
      const [short, long] = await Promise.all([until, all].map(tokens => ask("/detokenize", {model, tokens}, signal)));
      const text = long.text.startsWith(short.text) ? long.text.slice(short.text.length) : ` ${other.token}`;
      pieces.push({text, tokens: [...same, {...other, likeliest: [other]}]});
      body.prompt = all;
      most = Math.max(1, most - (all.length - before.length));
    }
    written = {model, prompt, pieces};
    draw();
    if (other?.token === END) return;
    const began = performance.now();
    let count = 0;
    for await (const event of events("/v1/generate", {...body, max_length: most}, signal)) {
      const tokens = event.tokens.filter(each => each.log_prob !== null);
      if (event.text && tokens.length) {
        const piece = {text: event.text, tokens};
        output.append(...shown(piece, pieces.push(piece) - 1));
      }
      count += event.tokens.length;
      totals.textContent = t("{n} tokens, {speed} per second", {n: count, speed: number(1000 * count / (performance.now() - began))});
    }
  }

  function forget() {
    writing.stop();
    written = null;
    [output, others, totals, writing.said].forEach(each => each.replaceChildren());
  }

  const writing = work(t("Write"), write);
  const prompt = field(kept, "prompt", t("Beginning"), "", {rows: 3});
  hurry(prompt, () => writing.run());
  const suggest = () => tries.replaceChildren(tryThese(kept.model, text => {
    prompt.querySelector("textarea").value = kept.prompt = text;
    writing.run();
  }));
  panel.append(
    h("div", {class: "fields"}, models(kept, able, () => { forget(); suggest(); }), prompt),
    tries,
    h("div", {class: "fields"},
      field(kept, "length", t("Tokens at most"), "40", {type: "number", min: 1, max: 1024}),
      field(kept, "temperature", t("Temperature"), "0.8", {type: "number", min: 0, max: 5, step: 0.1}),
      field(kept, "top_p", t("Top p"), "", {type: "number", min: 0.05, max: 1, step: 0.05}),
      field(kept, "seed", t("Seed"), "0", {type: "number", min: 0}),
      ...writing.buttons),
    writing.said, output, others, h("p", {}, scale()), totals, by.element);
  suggest();
  leaving(writing.stop);
}

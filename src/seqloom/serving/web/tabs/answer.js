// Models with a source: translate, summarise, answer; n-best, where the model looked, how it searched.
import {ask, events} from "../api.js";
import {h, number} from "../dom.js";
import {t} from "../language.js";
import {check, choice, command, field, hurry, models, numbered, same, tryThese, work} from "../panel.js";
import {tree} from "../tree.js";

export const title = () => t("Translate · Summarise · Chat");
export const fits = loaded => loaded.filter(model => model.offers.includes("/v1/chat/completions"));

export function build(panel, able, kept, leaving) {
  const inside = h("div");
  let stop = () => {};
  const draw = () => {
    stop();
    const model = able.find(each => each.id === kept.model);
    inside.replaceChildren();
    stop = (model.turns ? talk : translate)(inside, model, kept);
  };
  panel.append(h("div", {class: "fields"}, models(kept, able, draw)), inside);
  draw();
  leaving(() => stop());
}

// What a model of pairs writes, and a conversation: both are built into the panel, and give what stops them.
function translate(panel, model, kept) {
  const output = h("div", {class: "output", "aria-live": "polite", dir: "auto"});
  const more = h("div");
  const by = same();

  async function write(signal) {
    more.replaceChildren();
    output.replaceChildren();
    const strategy = kept.strategy ?? "beam", searches = strategy === "beam";
    const beam = searches ? numbered(kept, "beam") ?? 5 : undefined;
    const best = searches ? Math.min(numbered(kept, "best") ?? 3, beam) : 1;
    const temperature = strategy === "sample" ? numbered(kept, "temperature") : undefined;
    const body = {model: model.id, prompt: kept.prompt, strategy, beam, n_best: best, temperature};
    const cli = {strategy, beam, "n-best": best > 1 ? best : undefined, temperature};
    by.tell("/v1/generate", body, command("generate", [model.path], {prompt: kept.prompt, ...cli}));
    if (!searches) for await (const event of events("/v1/generate", body, signal)) output.append(event.text);
    const attention = await looks(body, signal);
    if (searches) {
      output.textContent = attention.outputs[0].text;
      if (best > 1) more.append(h("h3", {}, t("The best")), h("ol", {class: "best"}, attention.outputs.map(each =>
        h("li", {dir: "auto"}, each.text, " ", h("small", {}, `log p ${number(each.log_prob)}`)))));
    }
    if (attention?.outputs[0].attention) more.append(h("h3", {}, t("Where it looked")), attends(attention.outputs[0].attention));
    if (searches && kept.tree) more.append(h("h3", {}, t("How it searched")), tree(await ask("/v1/generate", {...body, tree: true}, signal)));
  }

  // With attention where the model has some: not all have.
  async function looks(body, signal) {
    try {
      return await ask("/v1/generate", {...body, attention: true}, signal);
    } catch (error) {
      if (error.status !== 400) throw error;
      return ask("/v1/generate", body, signal);
    }
  }

  const writing = work(t("Write"), write);
  const prompt = field(kept, "prompt", t("Source"), "", {rows: 4});
  hurry(prompt, () => writing.run());
  const beam = field(kept, "beam", t("Beam"), "5", {type: "number", min: 1, max: 32});
  const best = field(kept, "best", t("How many"), "3", {type: "number", min: 1, max: 32});
  const temperature = field(kept, "temperature", t("Temperature"), "1", {type: "number", min: 0, max: 5, step: 0.1});
  const parts = {beam: [beam, best, check(kept, "tree", t("Show the search"))], sample: [temperature]};
  const arrange = () => Object.entries(parts).forEach(([way, fields]) => fields.forEach(each => { each.hidden = way !== kept.strategy; }));
  panel.append(prompt,
    tryThese(model.id, text => { prompt.querySelector("textarea").value = kept.prompt = text; writing.run(); }),
    h("div", {class: "fields"},
      choice(kept, "strategy", t("How"), [["beam", t("beam search")], ["greedy", t("greedy")], ["sample", t("by chance")]], arrange),
      ...Object.values(parts).flat(), ...writing.buttons),
    writing.said, output, more, by.element);
  arrange();
  return writing.stop;
}

// Two lines of words; pointing at one shades what it looked at, in either direction.
function attends({source, target, weights}) {
  const above = source.map(word => h("span", {"data-word": true}, word));
  const mark = row => { above.forEach((span, place) => span.style.setProperty("--w", weights[row][place])); };
  const below = target.map((word, row) => h("button", {
    type: "button", onpointerenter: () => choose(row), onfocus: () => choose(row), onclick: () => choose(row),
    "aria-label": `${word}: ${source[weights[row].indexOf(Math.max(...weights[row]))]}`,
  }, word));
  const choose = row => { below.forEach((each, place) => each.classList.toggle("now", place === row)); mark(row); };
  above.forEach((span, place) => span.addEventListener("pointerenter", () => {
    below.forEach((each, row) => each.style.setProperty("--w", weights[row][place]));
  }));
  above.forEach(span => span.addEventListener("pointerleave", () => below.forEach(each => each.style.removeProperty("--w"))));
  const spaced = parts => parts.flatMap(part => [part, " "]);
  if (target.length) choose(0);
  return h("div", {class: "attends"}, h("p", {dir: "auto"}, spaced(above)), h("p", {dir: "auto"}, spaced(below)),
    h("p", {class: "note"}, t("Point at a word to see what it looked at.")));
}

const TURN = " | ";  // stands between turns in a prompt, as data/pairs.py has it

function talk(panel, model, kept) {
  kept.turns ??= [];
  const by = same();
  const turns = h("div", {class: "talk", role: "log", "aria-live": "polite", tabindex: "0"});
  const bubble = ({role, content}) => h("p", {class: role === "user" ? "mine" : "", dir: "auto"}, content);
  const draw = () => turns.replaceChildren(...kept.turns.map(bubble));
  const put = text => { kept.turn = line.querySelector("input").value = text; };

  async function send(signal) {
    const content = kept.turn.trim();
    if (!content) throw new Error(t("Write something first."));
    const mine = {role: "user", content}, answer = {role: "assistant", content: ""};
    const messages = [...kept.turns, mine];
    const chance = kept.how === "sample";
    const body = {model: model.id, messages, ...(chance ? {temperature: 1, top_p: 0.9, seed: kept.turns.length} : {temperature: 0})};
    const prompt = messages.map(turn => turn.content).join(TURN);
    const cli = {prompt, strategy: chance ? "sample" : "greedy", temperature: body.temperature, "top-p": body.top_p, seed: body.seed};
    by.tell("/v1/chat/completions", body, command("generate", [model.path], cli));
    kept.turns.push(mine, answer);
    put("");
    draw();
    const shown = turns.lastChild;
    // A turn without an answer goes back to where it was typed, before what was typed since. Of one that is stopped it is
    // done at once, not when its request has ended: the next turn, or a panel that is built anew, must find it there.
    const takeBack = () => {
      if (answer.content || !kept.turns.includes(mine)) return;
      kept.turns = kept.turns.filter(turn => turn !== mine && turn !== answer);
      put(`${content} ${kept.turn}`.trim());
      draw();
    };
    signal.addEventListener("abort", takeBack);
    try {
      for await (const event of events("/v1/chat/completions", body, signal)) {
        shown.textContent = answer.content += event.choices[0]?.delta?.content ?? "";
        turns.scrollTop = turns.scrollHeight;
      }
    } catch (error) {
      takeBack();
      throw error;
    }
  }

  const sending = work(t("Send"), send);
  const line = field(kept, "turn", t("You"), "");
  line.classList.add("wide");
  line.addEventListener("keydown", event => { if (event.key === "Enter" && !event.isComposing) sending.run(); });
  draw();
  panel.append(turns,
    tryThese(model.id, text => { put(text.split(/\s*<turn>\s*/).at(-1)); sending.run(); }),
    h("div", {class: "fields"}, line, choice(kept, "how", t("How"), [["greedy", t("likeliest words")], ["sample", t("by chance")]]),
      ...sending.buttons, h("button", {class: "do", type: "button", onclick: () => { sending.stop(); kept.turns = []; draw(); }}, t("Begin anew"))),
    sending.said, by.element);
  return sending.stop;
}

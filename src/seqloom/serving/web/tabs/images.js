// Models of images: draw, draw what a text says, say what is on one, take noise off, walk among codes.
import {ask} from "../api.js";
import {h, number, source} from "../dom.js";
import {t} from "../language.js";
import {check, command, examples, field, models, numbered, same, work} from "../panel.js";

const PARTS = {"/v1/caption": caption, "/v1/draw": draw, "/v1/denoise": denoise, "/v1/sample": sample, "/v1/complete-image": complete, "/v1/latent": latent};
export const title = () => t("Images");
export const fits = loaded => loaded.filter(model => model.offers.some(path => path in PARTS));

export function build(panel, able, kept) {
  const inside = h("div");
  const show = () => {
    const model = able.find(each => each.id === kept.model);
    const mine = kept[model.id] ??= {};
    inside.replaceChildren(...Object.entries(PARTS).filter(([path]) => model.offers.includes(path)).map(([, part]) => part(model, mine)));
  };
  panel.append(h("div", {class: "fields"}, models(kept, able, show)), inside);
  show();
}

const picture = (image, said) => h("img", {src: source(image), alt: said});
const sheet = (images, said) => h("div", {class: "pictures"}, images.map((image, place) => picture(image, `${said} ${place + 1}`)));
const part = (heading, ...parts) => h("section", {style: {"margin-top": "1.5rem"}}, h("h2", {}, heading), ...parts);

function sample(model, kept) {
  const drawn = h("div", {"aria-live": "polite"}), by = same(), classes = h("div");
  const drawing = work(t("Draw"), async signal => {
    const body = {model: model.id, n: numbered(kept, "n") ?? 16, seed: numbered(kept, "seed") ?? 0, ...(kept.label ? {label: kept.label} : {})};
    by.tell("/v1/sample", body, command("images sample", [model.path], {n: body.n, seed: body.seed, class: kept.label || undefined, out: "samples.png"}));
    drawn.replaceChildren(sheet((await ask("/v1/sample", body, signal)).images, t("sample")));
  });
  examples(model.id).then(found => {
    if (found.classes?.length) classes.replaceChildren(h("label", {class: "field"}, h("span", {}, t("Class")), h("select", {onchange: event => { kept.label = event.target.value; }},
      ["", ...found.classes].map(name => h("option", {value: name, selected: name === kept.label}, name || t("any"))))));
  });
  return part(t("New images"), h("div", {class: "fields"}, field(kept, "n", t("How many"), "16", {type: "number", min: 1, max: 100}),
    field(kept, "seed", t("Seed"), "0", {type: "number", min: 0}), classes, ...drawing.buttons), drawing.said, drawn, by.element);
}

function draw(model, kept) {
  const drawn = h("div", {"aria-live": "polite"}), by = same(), tries = h("div", {class: "examples"});
  const drawing = work(t("Draw"), async signal => {
    const body = {model: model.id, texts: kept.text, n: 6, temperature: numbered(kept, "temperature") ?? 1};
    by.tell("/v1/draw", body, command("images draw", [model.path, kept.text], {n: body.n, temperature: body.temperature, out: "drawn.png"}));
    drawn.replaceChildren(sheet((await ask("/v1/draw", body, signal)).images, kept.text));
  });
  const text = field(kept, "text", t("What to draw"), "");
  text.addEventListener("keydown", event => event.key === "Enter" && drawing.run());
  examples(model.id).then(({texts}) => texts?.length && tries.replaceChildren(h("span", {}, t("Try")), ...texts.slice(0, 4).map(said =>
    h("button", {class: "do small", type: "button", onclick: () => { text.querySelector("input").value = kept.text = said; drawing.run(); }}, said))));
  return part(t("Images of texts"), h("div", {class: "fields"}, text, field(kept, "temperature", t("Temperature"), "0.8", {type: "number", min: 0.1, max: 3, step: 0.1}), ...drawing.buttons), tries, drawing.said, drawn, by.element);
}

// Images to choose from: held-out ones, and files of the reader's. `most` may be chosen at a time.
function chooser(model, most, chosen, changed) {
  const shelf = h("div", {class: "pictures", role: "group", "aria-label": t("Choose an image")});
  const add = (image, said) => {
    const button = h("button", {type: "button", "aria-pressed": "false", "aria-label": said, onclick: () => {
      const at = chosen.findIndex(each => each.image === image);
      if (at >= 0) chosen.splice(at, 1)[0].button.setAttribute("aria-pressed", "false");
      else {
        if (chosen.length === most) chosen.shift().button.setAttribute("aria-pressed", "false");
        chosen.push({image, button});
        button.setAttribute("aria-pressed", "true");
      }
      changed();
    }}, picture(image, ""));
    shelf.append(button);
    return button;
  };
  examples(model.id).then(({images = [], labels = []}) => images.map((image, place) => add(image, labels[place] ?? `${t("image")} ${place + 1}`)));
  const file = h("input", {type: "file", accept: "image/png,image/jpeg", "aria-label": t("An image of yours"), onchange: async () => {
    for (const each of file.files) {
      const data = await new Promise(done => { const reader = new FileReader(); reader.onload = () => done(reader.result); reader.readAsDataURL(each); });
      add(data.split(",")[1], each.name).click();
    }
  }});
  return h("div", {}, shelf, h("label", {class: "field"}, h("span", {}, t("An image of yours")), file));
}

function caption(model) {
  const said = h("div", {"aria-live": "polite"}), by = same(), chosen = [];
  const saying = work(t("What is on it?"), async signal => {
    if (!chosen.length) throw new Error(t("Choose an image first."));
    const body = {model: model.id, images: [chosen[0].image], n_best: 3};
    by.tell("/v1/caption", body, command("generate", [model.path], {image: "FILE", "n-best": 3}));
    const [captions] = (await ask("/v1/caption", body, signal)).captions;
    said.replaceChildren(h("ol", {class: "best"}, captions.map(each => h("li", {}, each.text, " ", h("small", {}, `log p ${number(each.log_prob)}`)))));
  });
  return part(t("Captions"), chooser(model, 1, chosen, () => chosen.length && saying.run()), h("div", {class: "fields"}, ...saying.buttons), saying.said, said, by.element);
}

function denoise(model, kept) {
  const results = h("div", {"aria-live": "polite"}), by = same(), chosen = [];
  const working = work(t("Take the noise off"), async signal => {
    const images = chosen.length ? chosen.map(each => each.image) : undefined;
    const body = {model: model.id, corrupt: kept.corrupt, n: images?.length ?? 8, seed: numbered(kept, "noise") ?? 0, images};
    by.tell("/v1/denoise", body, command("images denoise", [model.path], {input: images && "FOLDER", corrupt: body.corrupt, n: body.n, seed: body.seed, out: "denoised.png"}));
    const found = await ask("/v1/denoise", body, signal);
    results.replaceChildren(...[[t("Given"), found.given], [t("Spoilt"), found.corrupted], [t("Mended"), found.images]].filter(([, images]) => images).flatMap(([name, images]) => [h("h3", {}, name), sheet(images, name)]));
  });
  return part(t("Noise"), chooser(model, 8, chosen, () => {}), h("div", {class: "fields"}, check(kept, "corrupt", t("Add noise first"), true),
    field(kept, "noise", t("Seed"), "0", {type: "number", min: 0}), ...working.buttons), working.said, results, by.element);
}

function complete(model, kept) {
  const results = h("div", {"aria-live": "polite"}), by = same();
  const working = work(t("Complete halves"), async signal => {
    const body = {model: model.id, n: 6, seed: numbered(kept, "half") ?? 0};
    by.tell("/v1/complete-image", body, command("images complete", [model.path], {n: body.n, seed: body.seed, out: "completed.png"}));
    const found = await ask("/v1/complete-image", body, signal);
    results.replaceChildren(...[[t("Given"), found.given], [t("Completed"), found.images]].flatMap(([name, images]) => [h("h3", {}, name), sheet(images, name)]));
  });
  return part(t("Halves"), h("div", {class: "fields"}, field(kept, "half", t("Seed"), "0", {type: "number", min: 0}), ...working.buttons), working.said, results, by.element);
}

function latent(model, kept) {
  const chosen = [], between = h("div", {"aria-live": "polite"}), by = same();
  const dot = h("div", {class: "dot"}), shown = h("img", {class: "large", alt: t("The image of this place")}), told = h("p", {class: "note"});
  const plane = h("div", {class: "plane", tabindex: "0", role: "slider", "aria-label": t("Drag over the plane"), "aria-valuemin": -3, "aria-valuemax": 3, "aria-valuenow": 0}, dot);
  let space = null;  // {base, axes: [[place, mean, deviation], ...]}: where the plane lies among the codes
  let asked = null, waiting = false;
  kept.x ??= 0;
  kept.y ??= 0;

  // The plane lies along the two numbers of a code that differ most among images.
  const looking = work(t("Look"), async signal => {
    if (!space) {
      let {images} = await examples(model.id);
      if (!images?.length) images = (await ask("/v1/sample", {model: model.id, n: 16}, signal)).images;
      const {codes} = await ask("/v1/latent", {model: model.id, do: "encode", images}, signal);
      const mean = codes[0].map((_, place) => codes.reduce((sum, code) => sum + code[place], 0) / codes.length);
      const deviation = mean.map((middle, place) => Math.sqrt(codes.reduce((sum, code) => sum + (code[place] - middle) ** 2, 0) / codes.length) || 1);
      const most = deviation.map((spread, place) => [spread, place]).sort((one, other) => other[0] - one[0]).slice(0, 2);
      space = {base: mean, axes: most.map(([spread, place]) => [place, mean[place], spread])};
    }
    const code = [...space.base];
    space.axes.forEach(([place, middle, spread], axis) => { code[place] = middle + spread * [kept.x, kept.y][axis]; });
    const body = {model: model.id, do: "decode", codes: [code]};
    by.tell("/v1/latent", body, command("images traverse", [model.path], {out: "traversal.png"}));
    const {images} = await ask("/v1/latent", body, signal);
    shown.src = source(images[0]);
    told.textContent = space.axes.map(([place], axis) => `z${place + 1} = ${number([kept.x, kept.y][axis], 2)} σ`).join(", ");
  });
  // One question at a time: where the pointer is when the answer comes is asked for next.
  const move = async () => {
    dot.style.left = `${50 + kept.x / 0.06}%`;
    dot.style.top = `${50 - kept.y / 0.06}%`;
    plane.setAttribute("aria-valuetext", `${number(kept.x, 2)}, ${number(kept.y, 2)}`);
    waiting = true;
    if (asked) return;
    while (waiting) { waiting = false; asked = looking.run(); await asked; }
    asked = null;
  };
  const drag = event => {
    if (!(event.buttons & 1)) return;
    const box = plane.getBoundingClientRect(), inside = value => Math.max(-3, Math.min(3, value));
    kept.x = inside(6 * (event.clientX - box.left) / box.width - 3);
    kept.y = inside(3 - 6 * (event.clientY - box.top) / box.height);
    move();
  };
  plane.addEventListener("pointerdown", event => { plane.setPointerCapture(event.pointerId); drag(event); });
  plane.addEventListener("pointermove", drag);
  plane.addEventListener("keydown", event => {
    const by = {ArrowLeft: [-0.25, 0], ArrowRight: [0.25, 0], ArrowUp: [0, 0.25], ArrowDown: [0, -0.25]}[event.key];
    if (!by) return;
    event.preventDefault();
    kept.x = Math.max(-3, Math.min(3, kept.x + by[0]));
    kept.y = Math.max(-3, Math.min(3, kept.y + by[1]));
    move();
  });
  const walking = work(t("From one to the other"), async signal => {
    if (chosen.length !== 2) throw new Error(t("Choose two images first."));
    const body = {model: model.id, do: "interpolate", images: chosen.map(each => each.image), steps: 9};
    by.tell("/v1/latent", body, command("images interpolate", [model.path], {steps: body.steps, out: "path.png"}));
    between.replaceChildren(sheet((await ask("/v1/latent", body, signal)).images, t("step")));
  });
  move();
  return part(t("Codes"), h("p", {}, t("Drag over the plane: each place is a code, and the image beside it is what the model makes of it.")),
    h("div", {class: "beside"}, plane, h("div", {}, shown, told)), looking.said,
    h("h3", {}, t("From one image to another")), chooser(model, 2, chosen, () => chosen.length === 2 && walking.run()), h("div", {class: "fields"}, ...walking.buttons), walking.said, between, by.element);
}

// The page's sentences. English ones stand in the code; the others are looked up by them.
import {CHINESE} from "./chinese.js";

const KEPT = "seqloom-language";
let chosen = localStorage.getItem(KEPT) ?? (navigator.language.startsWith("zh") ? "zh" : "en");

export const language = () => chosen;
export function speak(which) {
  chosen = which;
  localStorage.setItem(KEPT, which);
}

// A sentence in the chosen language; {name} in it is replaced.
export const t = (english, values = {}) =>
  ((chosen === "zh" && CHINESE[english]) || english).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

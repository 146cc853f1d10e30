// Asking the server. What it answers, or an Error whose message is a sentence for people.
import {t} from "./language.js";

const TOKEN = "seqloom-token";
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: value => sessionStorage.setItem(TOKEN, value),
};

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function send(path, body, signal) {
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {method: body === undefined ? "GET" : "POST", headers, body: JSON.stringify(body), signal});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, t("The server does not answer. Is it still running?"));
  }
  if (answer.ok) return answer;
  let said = answer.statusText;
  try { said = (await answer.json()).error.message; } catch { /* no document came with it */ }
  throw new Refused(answer.status, sentence(said));
}

// What the server says, as a sentence. A first word that is a name, of a field or a file, keeps its small letter.
export const sentence = said => `${said.replace(/^[a-z]+(?=[ ,])/, word => word[0].toUpperCase() + word.slice(1))}.`.replace(/([.!?])\.$/, "$1");

export const get = async (path, signal) => (await send(path, undefined, signal)).json();
export const ask = async (path, body, signal) => (await send(path, body, signal)).json();

// Server-sent events, one after the other.
export async function* events(path, body, signal) {
  const reader = (await send(path, {...body, stream: true}, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n\n");
      rest = lines.pop();
      for (const line of lines) {
        const data = line.replace(/^(event: .*\n)?data: /, "");
        if (data === "[DONE]") return;
        const event = JSON.parse(data);
        if (event.error) throw new Refused(event.error.code, sentence(event.error.message));
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});  // what was stopped cannot be cancelled any more
  }
}

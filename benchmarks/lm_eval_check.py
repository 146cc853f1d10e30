"""Minimal pairs by lm-eval through a server, and by the Python API: the same accuracy.

    python -m benchmarks.lm_eval_check runs/ngram --lm-eval lmeval/bin/lm_eval --pairs 100

lm-eval (EleutherAI) stands in an environment of its own. It asks `/v1/completions` of `seqloom serve` for echoes with
log-probabilities, and reads no `<eos>`; neither does the Python API here. Of equals lm-eval takes the first, which is
the bad sentence here: a pair that the model cannot tell apart counts as wrong, as in `seqloom evaluate`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import seqloom
from seqloom.data.minimal_pairs import MinimalPair, minimal_pairs
from seqloom.text.special import BOS

TASK = """\
task: pairs
dataset_path: json
dataset_kwargs:
  data_files: {{test: {file}}}
output_type: multiple_choice
test_split: test
doc_to_text: ""
doc_to_target: 1
doc_to_choice: "{{{{[bad, good]}}}}"
target_delimiter: ""
metric_list:
  - metric: acc
"""


def main() -> None:
    """Both accuracies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--lm-eval", default="lm_eval")
    parser.add_argument("--pairs", type=int, default=100)
    asked = parser.parse_args()
    every = minimal_pairs("blimp")
    pairs = every[:: max(1, len(every) // asked.pairs)][: asked.pairs]
    print(f"{len(pairs)} pairs; Python API {by_python(asked.run, pairs):.4f}", flush=True)
    print(f"lm-eval through the server {by_lm_eval(asked.run, pairs, asked.lm_eval):.4f}")


def by_python(path: Path, pairs: list[MinimalPair]) -> float:
    """The share of pairs whose good sentence is likelier."""
    run = seqloom.load(path, "cpu")
    good, bad = (
        [score.log_prob for score in run.score(side, eos=False)] for side in list(zip(*pairs, strict=True))[:2]
    )
    return sum(one > other for one, other in zip(good, bad, strict=True)) / len(pairs)


def by_lm_eval(path: Path, pairs: list[MinimalPair], program: str) -> float:
    """The same as lm-eval reckons it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [json.dumps(pair._asdict()) + "\n" for pair in pairs]
        (folder / "pairs.jsonl").write_text("".join(lines), encoding="utf-8")
        (folder / "pairs.yaml").write_text(TASK.format(file=folder / "pairs.jsonl"), encoding="utf-8")
        log = folder / "server.log"
        command = [sys.executable, "-m", "seqloom", "serve", str(path), "--port", "0", "--device", "cpu"]
        with log.open("w") as file:
            server = subprocess.Popen(command, stderr=file)
        try:
            model = f"model={path.resolve().name},base_url={listening(log)}/v1/completions,tokenizer_backend=remote"
            model += f",custom_prefix_token_id={BOS},num_concurrent=4"
            lm_eval = [program, "--model", "local-completions", "--model_args", model, "--tasks", "pairs"]
            lm_eval += ["--include_path", name, "--batch_size", "8", "--output_path", str(folder / "out")]
            offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "home")}
            subprocess.run(lm_eval, check=True, env=os.environ | offline, stdout=subprocess.DEVNULL)
        finally:
            server.terminate()
            server.wait()
        (found,) = (folder / "out").rglob("results_*.json")
        return json.loads(found.read_text())["results"]["pairs"]["acc,none"]


def listening(log: Path) -> str:
    """Where the server is, once its model is loaded."""
    for _ in range(600):
        events = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
        if any(event["event"] == "loaded" for event in events):
            return next(event["url"] for event in events if event["event"] == "listening")
        time.sleep(0.1)
    raise SystemExit("the server did not begin")


if __name__ == "__main__":
    main()

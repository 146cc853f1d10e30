"""Pictures of the page for the documentation: every tab, in light and in dark.

seqloom serve runs/{lstm,ngram,gru,translate-en-zh,dialogue,bert,classifier,word2vec,vae,denoising,captioner}
.venv/bin/python scripts/make_page_pictures.py http://127.0.0.1:8000 docs/images
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

SIZE = {"width": 1100, "height": 800}
TALLEST = 1250  # pixels of a picture


def idle(page: Any) -> None:
    """Wait until nothing is being worked on."""
    page.wait_for_timeout(300)
    page.wait_for_selector("[aria-busy]", state="detached", timeout=120_000)
    page.wait_for_timeout(300)


def complete(page: Any) -> None:
    page.select_option("select[name=model]", "lstm")
    page.fill("textarea[name=prompt]", "I saw the")
    page.fill("input[name=seed]", "1")
    page.click("button.first")
    idle(page)
    page.locator("button.token").nth(4).click()


def translate(page: Any) -> None:
    page.select_option("select[name=model]", "translate-en-zh")
    page.fill("textarea[name=prompt]", "I want to learn Chinese.")
    page.fill("input[name=beam]", "3")
    page.check("input[name=tree]")
    page.click("button.first")
    idle(page)
    page.locator(".attends button").nth(2).hover()


def chat(page: Any) -> None:
    page.select_option("select[name=model]", "dialogue")
    for said in ("Hi!", "How are you?"):
        page.fill("input[name=turn]", said)
        page.press("input[name=turn]", "Enter")
        idle(page)


def fill(page: Any) -> None:
    page.fill("textarea[name=text]", "I have never [MASK] that [MASK].")
    page.click("button.first")
    idle(page)


def label(page: Any) -> None:
    page.fill("textarea[name=text]", "A warm, funny and very clever film.")
    page.click("button.first")
    idle(page)


def score(page: Any) -> None:
    page.select_option("select[name=model]", "ngram")
    page.select_option("select[name=other]", "lstm")
    page.fill("textarea[name=text]", "The Time Traveller smiled, and took the little green lamp to the moon.")
    page.click("button.first")
    idle(page)


def words(page: Any) -> None:
    page.fill("input[name=word]", "king")
    page.press("input[name=word]", "Enter")
    idle(page)
    page.get_by_role("button", name="Draw the map").click()
    idle(page)


def images(page: Any) -> None:
    page.select_option("select[name=model]", "vae")
    page.get_by_role("button", name="Draw", exact=True).click()
    idle(page)
    box = page.locator(".plane").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.3, steps=3)
    page.mouse.up()
    idle(page)


def denoise(page: Any) -> None:
    page.select_option("select[name=model]", "denoising")
    page.get_by_role("button", name="Take the noise off").click()
    idle(page)


def captions(page: Any) -> None:
    page.select_option("select[name=model]", "captioner")
    page.locator("[role=group] button").first.click()
    idle(page)


def compare(page: Any) -> None:
    page.fill("textarea[name=prompt]", "The Time Traveller")
    page.get_by_role("button", name="Write").click()
    idle(page)


def training(page: Any) -> None:
    for box in page.locator("#panel [type=checkbox]:checked").all():
        box.uncheck()
    for name in ("lstm", "gru"):
        page.get_by_role("checkbox", name=name, exact=True).check()
    idle(page)


TABS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "complete": ("complete", complete),
    "translate": ("answer", translate),
    "chat": ("answer", chat),
    "fill": ("fill", fill),
    "label": ("label", label),
    "score": ("score", score),
    "words": ("words", words),
    "images": ("images", images),
    "denoise": ("images", denoise),
    "captions": ("images", captions),
    "compare": ("compare", compare),
    "data": ("data", idle),
    "training": ("training", training),
}


def main(url: str, folder: Path) -> None:
    browsers = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=next(browsers), args=["--no-sandbox"])
        for name, (tab, walk) in TABS.items():
            page = browser.new_page(viewport=SIZE, locale="en-GB")
            page.goto(f"{url}/#{tab}")
            page.wait_for_selector(f"#tab-{tab}[aria-selected=true]")
            idle(page)
            walk(page)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                tall = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
                shot = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": SIZE["width"], "height": tall})
                picture = Image.open(io.BytesIO(shot))
                picture.quantize(128).save(folder / f"page-{name}-{scheme}.png", optimize=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), Path(sys.argv[2]))

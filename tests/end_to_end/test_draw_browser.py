"""The pictures of `mono-gen draw` in a real browser: numbers fit their cells, and can be read in light and dark."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BROWSERS
from tests.end_to_end.test_draw import mono_gen

pytestmark = pytest.mark.browser

PICTURES = {
    "tile": ["aiter", "shuffle_16x16"],
    "pads": ["aiter", "e8m0_shuffle", "--shape", "40,6"],
    "lanes": ["minimax_m3", "mxfp8_a_tiles"],
    "segments": ["minimax_m3", "w13", "--at", "752,0", "--rows", "32", "--cols", "128"],
    "pair": ["minimax_m3", "mxfp8_a_tiles", "shuffle_16x16"],
    "tall": ["aiter", "shuffle_weight_gfx1250_3d"],
    "plain": ["aiter", "to_swizzled_layout"],
}

# Colours as the browser has them: numbers, the page, and the fills of cells; boxes of texts, cells and the picture.
LOOK = """
const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
const all = (svg, what) => [...svg.querySelectorAll(what)];
const style = e => getComputedStyle(e);
const found = Object.fromEntries(all(document, 'svg').map(svg => [svg.dataset.name, {
  picture: box(svg),
  page: style(svg.querySelector('rect')).fill,
  number: style(svg.querySelector('.n')).fill,
  fills: all(svg, 'path[fill-opacity]').map(e => [style(e).fill, +style(e).fillOpacity]),
  cells: all(svg, '.x').map(box),
  texts: all(svg, 'text:not(:has(tspan)), tspan').map(e => [e.textContent, ...box(e)]),
  numbers: all(svg, '.n tspan').map(e => [e.textContent, ...box(e)]),
  lanes: all(svg, '.l tspan').map(e => [e.textContent, ...box(e)]),
}]));
document.body.innerHTML = '<pre>' + JSON.stringify(found) + '</pre>';
"""


@dataclass(frozen=True, slots=True)
class Browser:
    """Chromium without a window; `dark` asks for dark colours."""

    program: str
    profile: Path

    def run(self, page: Path, *options: str, dark: bool = False) -> str:
        scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
        command = [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command += [f"--user-data-dir={self.profile}", "--hide-scrollbars", *scheme, *options, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    program = next(filter(None, map(shutil.which, BROWSERS)))
    return Browser(program, tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with all pictures inside, and a script that writes down how they look."""
    folder = tmp_path_factory.mktemp("pictures")
    parts = []
    for name, arguments in PICTURES.items():
        ran = mono_gen("draw", *arguments, "-o", str(folder / f"{name}.svg"))
        assert ran.returncode == 0, ran.stderr
        text = (folder / f"{name}.svg").read_text()
        # Ids are those of one file: each picture gets its own, and its page to itself.
        text = re.sub(r'(\bid="|#)(p\d+c?|pads|title|description)\b', rf"\1{name}-\2", text)
        parts.append(f"<div>{text.replace('<svg ', f'<svg data-name={name!r} ', 1)}</div>")
    path = folder / "page.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><body>{''.join(parts)}<script>{LOOK}</script></body>")
    return path


@pytest.fixture(scope="module", params=["light", "dark"])
def looks(request: pytest.FixtureRequest, browser: Browser, page: Path) -> tuple[str, dict[str, Any]]:
    shown = browser.run(page, "--dump-dom", dark=request.param == "dark")
    written = re.search(r"<pre>(.*)</pre>", shown, re.DOTALL)
    assert written is not None, shown[:2000]
    return request.param, json.loads(html.unescape(written[1]))


def test_every_picture_is_there(looks: tuple[str, dict[str, Any]]) -> None:
    assert set(looks[1]) == set(PICTURES)
    assert all(look["cells"] and look["numbers"] for look in looks[1].values())


def test_each_number_fits_its_cell(looks: tuple[str, dict[str, Any]]) -> None:
    for name, look in looks[1].items():
        taken = set()
        for text, *box in look["numbers"]:
            middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
            (cell,) = [c for c in look["cells"] if c[0] < middle[0] < c[2] and c[1] < middle[1] < c[3]]
            assert cell[0] - 0.5 <= box[0] <= box[2] <= cell[2] + 0.5, f"{name}: {text} is wider than its cell"
            taken.add(tuple(cell))
        assert len(taken) == len(look["cells"]) == len(look["numbers"]), name


def test_no_texts_lie_on_each_other_or_outside(looks: tuple[str, dict[str, Any]]) -> None:
    for name, look in looks[1].items():
        picture = look["picture"]
        for text, *box in look["texts"]:
            assert picture[0] <= box[0] <= box[2] <= picture[2], f"{name}: {text} leaves the picture"
            assert picture[1] <= box[1] <= box[3] <= picture[3], f"{name}: {text} leaves the picture"
        texts = look["texts"] if len(look["texts"]) < 400 else []  # a pair of texts each
        for n, (text, *box) in enumerate(texts):
            for other, *there in texts[n + 1 :]:
                wide = min(box[2], there[2]) - max(box[0], there[0])
                tall = min(box[3], there[3]) - max(box[1], there[1])
                assert wide <= 1 or tall <= 6, f"{name}: {text!r} and {other!r} lie on each other"


def test_numbers_can_be_read_on_every_colour(looks: tuple[str, dict[str, Any]]) -> None:
    scheme, found = looks
    for name, look in found.items():
        page, number = _rgb(look["page"]), _rgb(look["number"])
        assert (_luminance(page) > 0.5) == (scheme == "light"), name
        for colour, opacity in look["fills"]:
            mixed = tuple(opacity * c + (1 - opacity) * p for c, p in zip(_rgb(colour), page, strict=True))
            assert _contrast(number, mixed) >= 4.5, f"{name}: {number} on {mixed}"


@pytest.mark.parametrize("dark", [False, True])
def test_the_file_alone_is_shown(browser: Browser, page: Path, tmp_path: Path, dark: bool) -> None:
    picture = page.with_name("pads.svg")
    size = re.search(r'width="(\d+)" height="(\d+)"', picture.read_text())
    assert size is not None
    shot = tmp_path / "shot.png"
    browser.run(picture, f"--window-size={size[1]},{size[2]}", f"--screenshot={shot}", dark=dark)
    data = shot.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert [int.from_bytes(data[n : n + 4], "big") for n in (16, 20)] == [int(size[1]), int(size[2])]
    assert len(data) > 50_000  # a blank page of this size has 5 kB


def _rgb(text: str) -> tuple[float, ...]:
    return tuple(int(n) / 255 for n in re.findall(r"\d+", text)[:3])


def _luminance(colour: tuple[float, ...]) -> float:
    """Return the relative luminance. Source: WCAG 2.1."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the contrast ratio, 4.5 or more for text that can be read. Source: WCAG 2.1, 1.4.3."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)

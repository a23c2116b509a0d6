"""SVG text: elements, colours for light and dark, hatching. Numbers are integers, so that the bytes never differ."""

from __future__ import annotations

from html import escape

HUES = ("#2f7ed8", "#e8930c", "#1a9e77", "#c8509b", "#8a63d2", "#9a7b2f", "#d0503a", "#3ba7b5")
"""Told apart by people with colour blindness in this order; the lane's number stands in each cell all the same."""

STYLE = (
    "svg{--bg:#fff;--fg:#1b1f24;--mu:#57606a;--ln:#afb8c1}"
    "@media(prefers-color-scheme:dark){svg{--bg:#0f1317;--fg:#e9edf1;--mu:#9ba5af;--ln:#454e58}}"
    "text{fill:var(--fg);font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}"
    ".t{font-size:19px;font-weight:600}.s,.a{fill:var(--mu)}.l{fill-opacity:.75}.b{font-weight:600}"
    ".n,.l,.a,.c{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}"
    ".n,.l,.m{text-anchor:middle}.n{font-size:11px}.l{font-size:9px}.a{font-size:10px}.e{text-anchor:end}.p{fill:var(--mu)}"
    ".g,.o,.k,.d{fill:none;stroke:var(--ln)}.o{stroke:var(--fg);stroke-width:1.5}.k{stroke:var(--fg);stroke-width:4}"
    ".d{stroke:var(--mu)}.x{fill:transparent}.x:hover{stroke:var(--fg);stroke-width:2}.v{fill:var(--bg);opacity:.55}"
    ".h{fill:url(#pads)}.q{fill:var(--fg)}"
)

PADS = (
    '<pattern id="pads" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M1 0v7" stroke="var(--mu)" stroke-opacity=".5"/></pattern>'
)


def document(width: int, height: int, title: str, description: str, body: str) -> str:
    """Return a whole file."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-labelledby="title description">\n<title id="title">{escape(title)}</title>\n'
        f'<desc id="description">{escape(description)}</desc>\n<style>{STYLE}</style>\n<defs>{PADS}</defs>\n'
        f'<rect width="{width}" height="{height}" fill="var(--bg)"/>\n{body}</svg>\n'
    )


def text(x: int, y: int, words: str, kind: str = "", turn: int = 0) -> str:
    """Return a text of a class, turned by some degrees about its place."""
    style = f' class="{kind}"' if kind else ""
    turned = f' transform="rotate({turn} {x} {y})"' if turn else ""
    return f'<text x="{x}" y="{y}"{style}{turned}>{escape(words)}</text>\n'


def spans(y: int, words: list[tuple[int, str]], kind: str) -> str:
    """Return words of one line, each at its x."""
    inside = "".join(f'<tspan x="{x}">{word}</tspan>' for x, word in words)
    return f'<text class="{kind}" y="{y}">{inside}</text>\n' if words else ""


def rect(x: int, y: int, width: int, height: int, kind: str, title: str = "") -> str:
    """Return a rectangle of a class; a title is what a pointer over it shows."""
    head = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"'
    return f"{head}><title>{escape(title)}</title></rect>\n" if title else f"{head}/>\n"


def path(data: str, kind: str) -> str:
    """Return a path of a class; nothing, where it has no data."""
    return f'<path class="{kind}" d="{data}"/>\n' if data else ""


def filled(data: str, hue: int, opacity: int) -> str:
    """Return a filled path: a hue of HUES and its opacity in percent, so that it suits light and dark alike."""
    return f'<path fill="{HUES[hue]}" fill-opacity=".{opacity:02}" d="{data}"/>\n'


def box(x: int, y: int, width: int, height: int) -> str:
    """Return the path of a rectangle."""
    return f"M{x} {y}h{width}v{height}h-{width}z"

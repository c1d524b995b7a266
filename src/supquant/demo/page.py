"""The demonstration as one HTML page that needs no other file."""

from __future__ import annotations

from html import escape
from string import Template
from typing import TYPE_CHECKING, Any

from supquant.demo.pictures import data_uri

if TYPE_CHECKING:
    from supquant.demo.digits import Answer, Contender, Demo


def demo_page(demo: Demo) -> str:
    """Return the page: the table, then queries with their answers, marked right or wrong."""
    return _PAGE.substitute(
        n_training=demo.n_training,
        n_database=demo.n_database,
        n_queries=demo.n_queries,
        rows="\n".join(_table_row(contender) for contender in demo.contenders),
        typical="\n".join(_card(demo, answer) for answer in demo.typical),
        hardest="\n".join(_card(demo, answer) for answer in demo.hardest),
    )


def _table_row(contender: Contender) -> str:
    ours = ' class="ours"' if contender.name.startswith("supquant") else ""
    return (
        f"<tr{ours}><th scope='row'>{escape(contender.name)}</th><td>{contender.bytes_per_item:.0f}</td>"
        f"<td class='map'><span class='bar'><i style='width:{100 * contender.map:.1f}%'></i></span>"
        f"{contender.map:.3f}</td>"
        f"<td>{contender.query_ms:.2f}</td></tr>"
    )


def _card(demo: Demo, answer: Answer) -> str:
    digit = demo.labels[answer.query]
    return (
        f"<article><figure class='query'>{_picture(demo, answer.query, f'query, a {digit}')}"
        f"<figcaption>query: {digit}</figcaption></figure><div class='answers'>"
        f"{_strip(demo, answer.ours, digit, 'supquant')}"
        f"{_strip(demo, answer.theirs, digit, 'product quantization')}"
        "</div></article>"
    )


def _strip(demo: Demo, rows: list[int], digit: Any, name: str) -> str:
    right = sum(demo.labels[row] == digit for row in rows)
    pictures = "".join(_marked(demo, row, demo.labels[row] == digit) for row in rows)
    return (
        f"<section><h3>{escape(name)} <small>{right} of {len(rows)} right</small></h3>"
        f"<div class='strip'>{pictures}</div></section>"
    )


def _marked(demo: Demo, row: int, right: bool) -> str:
    label = demo.labels[row]
    kind, mark = ("right", "&#10003;") if right else ("wrong", "&#10007;")
    picture = _picture(demo, row, f"{kind}, a {label}")
    return f"<figure class='{kind}'>{picture}<figcaption>{mark} {label}</figcaption></figure>"


def _picture(demo: Demo, row: int, text: str) -> str:
    return f"<img alt='{escape(text)}' src='{data_uri(1 - demo.images[row])}'>"


_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>supquant: two bytes per digit</title>
<style>
:root {
  color-scheme: light dark;
  --paper: #fafaf8; --card: #fff; --ink: #1c1e21; --faint: #667; --line: #e2e2de;
  --right: #1f8a4c; --wrong: #c8372d; --ours: #2456c5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16181b; --card: #1f2226; --ink: #e9e9e6; --faint: #9aa0a8; --line: #33373d;
    --right: #46c07c; --wrong: #ff7a6e; --ours: #82a8ff;
  }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
main { max-width: 60rem; margin: auto; padding: 2rem 1rem 4rem }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .6rem }
h2 { margin: 2.4rem 0 .3rem; font-size: 1.25rem }
h3 { margin: 0 0 .3rem; font-size: .85rem; font-weight: 600 }
p { margin: .3rem 0 1rem; max-width: 44rem }
small, .faint { color: var(--faint); font-weight: 400 }
table { border-collapse: collapse; width: 100% }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem }
th, td { padding: .55rem .8rem; text-align: right; font-variant-numeric: tabular-nums }
th:first-child { text-align: left; font-weight: 500 }
tbody tr { border-top: 1px solid var(--line) }
.ours th, .ours td { color: var(--ours); font-weight: 650 }
.map { white-space: nowrap }
.bar { display: inline-block; width: min(9rem, 18vw); height: .55rem; margin-right: .6rem }
.bar, .bar i { border-radius: 1rem; background: var(--line) }
.bar i { display: block; height: 100%; background: currentColor }
article {
  display: flex; gap: 1.2rem; align-items: center; margin: .8rem 0; padding: .9rem 1rem;
  background: var(--card); border: 1px solid var(--line); border-radius: .6rem
}
.answers { flex: 1; min-width: 0; display: grid; gap: .7rem }
figure { margin: 0; text-align: center }
img { display: block; width: 100%; image-rendering: pixelated; border-radius: .2rem }
figcaption { font-size: .72rem; line-height: 1.5 }
.query { width: 5.2rem; flex: none }
.query img { border: 2px solid var(--ink) }
.strip { display: grid; grid-template-columns: repeat(10, minmax(0, 1fr)); gap: .35rem }
.right img { border: 2px solid var(--right) } .right figcaption { color: var(--right) }
.wrong img { border: 2px solid var(--wrong) } .wrong figcaption { color: var(--wrong); font-weight: 700 }
code { font-size: .9em }
@media (max-width: 40rem) {
  .bar { display: none }
  article { flex-direction: column; align-items: stretch; gap: .6rem }
  .query { width: 4.2rem }
  .strip { grid-template-columns: repeat(5, minmax(0, 1fr)) }
  th, td { padding: .5rem .45rem; font-size: .9rem }
}
</style>
</head>
<body>
<main>
<h1>Two bytes per digit, and the answers mean the same</h1>
<p>supquant learned codes of two bytes from $n_training labelled handwritten digits. Then it searched
$n_database other digits, which it had never seen, for what is nearest to each of $n_queries queries.</p>
<div class="scroll"><table>
<thead>
<tr><th>how an item is stored</th><th>bytes</th><th>mean average precision</th><th>ms per query</th></tr>
</thead>
<tbody>
$rows
</tbody></table></div>
<p class="faint">Mean average precision is 1 when every digit of the query's kind comes before all others. The
codes above the last line were made from pictures alone; in the last line the labels of the items were known
when they were stored.</p>

<h2>One query of each kind</h2>
<p>The first of its kind in random order, and the ten nearest items by each code, nearest first. Items were
stored without their labels. <b style="color:var(--right)">&#10003;</b> is the query's digit,
<b style="color:var(--wrong)">&#10007;</b> another one.</p>
$typical

<h2>The queries on which supquant did worst</h2>
<p>No method is always right. These are the queries with its lowest average precisions.</p>
$hardest
</main>
</body>
</html>
""")

"""Markdown of others as elements."""

from __future__ import annotations

import anyio
import pytest

from coordinator.console.markdown import LONGEST, markdown


def html(text: str, most: int = LONGEST) -> str:
    return str(anyio.run(markdown, text, most))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# One\n\ntwo **three** *four* ~~five~~", '<p class="heading h1">One</p><p>two <strong>three</strong>'),
        ("- a\n- b\n\n3. c", '<ul><li>a</li><li>b</li></ul><ol start="3"><li>c</li></ol>'),
        ("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
        ("> quote\n\n---\n\n`code`", "<blockquote><p>quote</p></blockquote><hr><p><code>code</code></p>"),
        ('```html\n<b>"</b>\n```', "<pre><code>&lt;b&gt;&#34;&lt;/b&gt;\n</code></pre>"),
        ("|a|b|\n|-|-|\n|1|2|", "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td>"),
        ("one  \ntwo\nthree", "<p>one<br>two\nthree</p>"),
        ("[a](https://x.y/?b=1&c='\"<)", 'rel="noopener noreferrer" target="_blank" title="https://x.y/?b=1&amp;c='),
        ("<b>bold</b> &lt;i&gt; <!-- x -->", "<p>&lt;b&gt;bold&lt;/b&gt; &lt;i&gt; &lt;!-- x --&gt;</p>"),
        ("<div onclick=x>\ny\n</div>", "<p>&lt;div onclick=x&gt;\ny\n&lt;/div&gt;</p>"),
        ("[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>"),
        ("[a](JaVa&#x73;cript:alert(1))", "<p>[a](JaVascript:alert(1))</p>"),
        ("[a](data:text/html,x) [b](/console) [c](//x.y)", "<p>[a](data:text/html,x) [b](/console) [c](//x.y)</p>"),
        ("[a]\n\n[a]: vbscript:x", "<p>[a]</p><p>[a]: vbscript:x</p>"),
        ("<https://x.y> https://x.y a@b.c", "<p>&lt;https://x.y&gt; https://x.y a@b.c</p>"),
        ("a\u202eb\u0007c `\u2066`", "<p>a\\u202eb\\u0007c <code>\\u2066</code></p>"),
        ("👩‍💻 n\u00a0b \t日本", "<p>👩‍💻 n\u00a0b \t日本</p>"),
    ],
)
def test_markdown_becomes_elements(text: str, shown: str) -> None:
    assert shown in html(text)


def test_a_long_text_ends_as_it_was_written() -> None:
    found = html("*a* " * 5000, 400)
    assert found.count("<em>") == 100
    assert "as it was written, 19,600 characters" in found
    assert found.endswith("<pre>" + "*a* " * 4900 + "</pre>")


@pytest.mark.parametrize(
    "text", ["[", "*a ", "![", "[a](", "|a|b|\n|-|-|\n|1|2|\n", "> ", "- ", "**_", "`", "<", "&amp;"]
)
def test_no_text_is_too_much(text: str) -> None:
    assert html(text * (LONGEST // len(text)))

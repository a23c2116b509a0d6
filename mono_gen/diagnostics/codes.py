"""Every code that a diagnostic may carry, with the paragraph that `mono-gen explain` shows."""

from __future__ import annotations

CODES: dict[str, str] = {
    # --- reading a file ---
    "control-character": """
The text holds a character that no editor shows: a control character, a mark that turns the direction of text, or
another kind of line end. What a reviewer sees and what the generator reads would differ, and some of them end a comment
in generated code. They are refused everywhere, in comments too. Tabs, LF and CRLF are fine.
""",
    "empty-file": """
The file holds no item at all. It may be the wrong file, or one whose text was lost; a spec that generates nothing by
mistake must not pass a check. Write at least `spec NAME`, or remove the file.
""",
    "file-too-large": """
A spec is at most 1 MiB. A larger one is not something that a person wrote. Split it, and `import` the parts.
""",
    "line-too-long": """
A line is at most 16 KiB. Whitespace is free in the language: break the line wherever a space may stand.
""",
    "nesting-too-deep": """
Brackets of all kinds together nest at most 100 deep. Expressions are chains: `a + b + c` needs no parentheses.
""",
    "not-utf8": """
Specs are UTF-8. The message names the first byte that is not, by its offset in the file and its line. A byte order mark
at the start is skipped; UTF-16, which some editors on Windows write, is not read.
""",
    "unreadable-file": """
The file is not there, is no regular file, or may not be read; the message gives the system's reason.
""",
    # --- grammar ---
    "byte-count-apart": """
`16B` is one token: 16 bytes' worth of elements of the tensor's format. Written apart, `16 B` is the number 16 and then
a name: in `split d = D b:16 B` it would quietly make 16 elements and another digit, `B`, of no size. Since both
readings are possible, neither is taken: write `16B`, or, where a digit named `B` is really meant, give it a size or
another name.
""",
    "doc-comment-misplaced": """
A `##` comment becomes documentation in the generated code. It documents what it stands directly above, on lines of its
own and with no empty line between: a spec, const, param, layout, record, struct, field, optional or args. Anywhere else
it would be lost without a word, hence this warning. Use `#` for remarks, `###` for headings.
""",
    "reserved-word": """
A name in a spec keeps its spelling in the generated Python, C++ and HIP. So no name may be a keyword or a standard
macro of any of them, begin with an underscore, hold two underscores together, or be a word of this language. After a
dot in a path such words are allowed, because there they name attributes of the model. Names of library types are free:
`half` is a good name for a digit.
""",
    "syntax-error": """
The text does not follow the grammar at this place. The message says what could have stood there and what was found. At
most one syntax error is reported for each item (spec, arch, import, const, param, layout, record, struct); the parser
goes on at the next one, so that several broken items are all reported at once.
""",
}

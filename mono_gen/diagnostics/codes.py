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
    # --- the head of a file, imports ---
    "arch-missing": """
A file with structs names the arch whose kernels read them, as in `arch gfx950`: the fp8 dialect depends on it, and
with it every weight. Only a library of layouts has none. Add `arch NAME` after `spec`.
""",
    "bad-import": """
An import names a `.layout` file beside the importing one, or in the library that comes with mono-gen, as in `import
"aiter.layout"`. Paths that lead elsewhere (`/`, `..`) and other files are refused, so that a folder of specs is whole
in itself. Move the file beside the spec.
""",
    "duplicate-spec": """
Two files of a run have specs of one name, by `spec NAME`. Generated files, modules and namespaces take that name, so
one would overwrite the other (on some systems also where the names differ in capitals alone). Rename one.
""",
    "import-cycle": """
Files import each other in a circle, so that none of them can be read first; the message shows the circle. Chains of
more than 50 files are refused as well. Move what both files need to a third one, and import that.
""",
    "import-not-found": """
`import "x.layout"` looks beside the importing file, then in the library of mono-gen, and there is no such file in
either place. Names that it would have brought are not reported as unknown. Correct the file's name.
""",
    "shadowed-name": """
A file declares a name that an import brings already. There is no shadowing: two readers would mean different layouts
by one name, and so would two headers. Choose another name for the file's own item.
""",
    "spec-missing": """
Every file begins with `spec NAME`. Generated files, the Python module and the C++ namespace take the name, and `--set
NAME.PARAM=V` refers to it.
""",
    "spec-not-first": """
`spec NAME` is the first item of a file, before `arch`, imports and constants, so that a reader knows at once what the
file is. Move it to the top.
""",
    "unknown-arch": """
`arch` takes one of a closed list. Wave size, fp8 dialect and the size of LDS of an arch are facts of the table in
mono_gen/archs.py, each row with its source; for another arch they would be guesses. Correct the name, or add a row.
""",
    # --- names ---
    "colliding-name": """
Two names of a spec would meet in one scope of the generated code: a field and a layout, struct or constant (the
header aliases all of them in the spec's namespace), or a member and a local of the loader (a converted field `w` is
read into `w_source`). Rename one of them.
""",
    "duplicate-name": """
One scope has a name twice: two items of a file, two members of a struct (its arguments, lets, dims, optionals, fields
and tables have one scope, in which inherited ones stand, too), two digits or axes of a layout, two segments, two
values of a dim. A member of a struct may not be called like a constant either, since a condition could mean both.
Rename one.
""",
    "member-name": """
Generated code defines some names itself: `offset`, `lane`, `tile`, `kBytes`, `from_layer`, `segments` and the like,
the arguments `shape` and `bits` of offset functions, and all that begin with `pack_`, `offset_`, `kBegin_` and so on.
Where one of them would stand in the same scope, a spec cannot use it: `layout x(row, shape)` would make a function
with two arguments `shape`. Choose another name.
""",
    "unknown-name": """
A name means nothing where it stands: a constant, layout, struct, axis, digit, segment or dim that is not declared, or
not yet (constants, bases and lets are seen by what stands below them). The help shows names that are near.
""",
    "unknown-root": """
A path into the layer starts with an argument of the struct or with a `let` above it: in `view attn.q_norm.weight`,
`attn` must be one of them. What follows a dot is looked up in the model when it is loaded, and may be any attribute.
""",
    # --- numbers ---
    "attribute-in-integer": """
Constants, extents and sizes are worked out when the spec is checked, long before a model is loaded. An attribute such
as `layer.num_heads` has no value then. State the number as a `const` or `param` and compare it in the struct:
`require layer.num_heads == HEADS`; an extent that only the tensors know is a `dim`.
""",
    "bad-extent": """
An extent, a size, the multiple of a pad, a pitch and a dim's value count elements, and are 1 or more. The message
gives the value that was worked out, such as 0 for `64 - 64`.
""",
    "inexact-division": """
`/` must divide exactly. `const KV_HEADS = 4 / TP` is refused for TP = 8: rounding down would give a rank 0 heads, and
every extent that depends on it would be wrong without a word. Change an operand; where a remainder is meant, write
`%`.
""",
    "negative-operand": """
`/` and `%` of negative numbers differ between languages: `-7 % 3` is 2 in Python and -1 in C++. Since expressions
reach both, negative operands are refused, and so are differences of extents in a layout's `require`, which may be
negative. Write `a >= b` for `a - b >= 0`.
""",
    "overflow": """
Every number and every intermediate result stays within 63 bits, and so does the number of bytes of a tensor: kernels
compute offsets in 64-bit integers. Usually a factor is wrong, or stands twice.
""",
    "zero-divisor": """
`/` and `%` take a divisor of 1 or more. In a layout's `require` the divisor must be so for all extents: `k % row` is
fine, `k % (row / 32)` is not, since `row / 32` may be 0.
""",
    # --- layouts ---
    "bad-fill": """
A fill is the bit pattern of one element: 0 or more, and within the width of every element that uses the layout. 0x7F
fits fp8 and e8m0, not fp4; 0x7FC0 fits bf16, not fp8. The width counts even where no pad is live at the extents at
hand. Write the bits of one element.
""",
    "bars-without-names": """
Bars in a store order separate named groups: `store tile R K | lane g r | byte half b`. With bars, every group begins
with `tile`, `lane` or `byte`, so that nobody has to guess which digits a lane holds. Name the groups, or leave the
bars out.
""",
    "byte-arithmetic": """
`16B` is as many elements as 16 bytes hold, which depends on the format: 32 for fp4, 16 for fp8, 8 for bf16. So bytes
cannot be added to elements, and a product or quotient must be exact for every width. Write `2 * 16B`, `16B + 16B`,
`32B / 2`.
""",
    "byte-count-here": """
`16B` stands where a layout counts elements: sizes, pads, pitches, its `require` and its restatements. Constants,
extents of fields and segments are plain numbers of elements, because the format that would turn bytes into elements
is not part of them. Write the number of elements.
""",
    "bytes-not-whole": """
A byte count is not a whole number of elements: `2B` is half an fp32. A layout is legal for the element widths for
which all its byte counts are whole, and a field of another width cannot use it. For 4-bit elements the last axis must
be even, since two of them lie in a byte.
""",
    "clause-twice": """
A clause stands twice where one is meant: two `pad`, two `store`, `split` or `pitch` of one digit, `tile` twice in a
field, `view` beside `convert`, an import or `arch` twice. The second would hide the first. Keep one of them; several
axes are padded by one clause, `pad row to 256, k to 8 fill 0x7F`.
""",
    "digit-dropped": """
A store order names every digit of the layout exactly once: that alone makes the map a bijection for all legal sizes.
A digit that is left out moves nothing, so that elements which differ in it share a byte; the message shows two of
them. Write the digit in its place of the store order.
""",
    "digit-twice": """
A store order names every digit exactly once. A digit that stands twice would move by two strides at once and leave
holes in storage; often another digit was meant in one of the places, and is missing. An axis that is not split is a
digit of its own name.
""",
    "empty-group": """
A group of a store order has a name and no digits, as in `store tile row k | lane`. It would state nothing. Leave the
group out with its bar: any of tile, lane and byte may be absent.
""",
    "feeds": """
`feeds INSTRUCTION.OPERAND` says that what a lane finds in its bytes is what a matrix instruction takes. The lanes of
the store order are the wave's (where the lane group is smaller, the fastest tile digits go on), and element by element
they must hold the (row, k) of the instruction's operand map, relative to the tile's first. Several operands in a row
are consecutive in k. Of scales, each byte of a lane's dword must be the one for the lane's (row, 32-block). The
message names the first lane and byte that differ. Correct the store order. Where A and B are read alike, another order
of k cancels: leave the clause out then; what a scale multiplies does not cancel.
""",
    "feeds-arch": """
The spec's arch does not have the instruction that a layout is said to feed: `mfma_scale_f32_16x16x128_f8f6f4` and
`mfma_f32_16x16x32_bf16` are gfx950's. Which archs have which stands in mono_gen/operands.py. A library has no arch: its
layouts are checked where a field uses them.
""",
    "feeds-elements": """
A layout feeds an instruction for some element types alone: the f8f6f4 instruction takes fp8 and fp4 in different orders
of k. A field of another type in this layout would hand over elements of other coordinates. Use a layout that feeds the
instruction for the field's type.
""",
    "fill-missing": """
`pad` says what its elements hold, and there is no default: public kernels need 0x00 in some places and 0x7F in
others, and what an allocator leaves is neither. End the clause with `fill 0x00`, `fill 0x7F` or, where no kernel
reads the pads, `fill undefined` (pack writes 0x00 then, and checks ignore the bytes).
""",
    "group-order": """
The groups of a store order stand slowest first: tile, then lane, then byte, each at most once. Offsets are folded in
that order, the wave-uniform part apart. A layout whose lanes are slower than its tiles has no such fold; leave the
bars and names out then.
""",
    "narrow-pitch": """
A pitch is the stride of a digit in elements, and must not be smaller than what one step of the digit holds: otherwise
the start of the next step would lie inside this one. Make it at least the product of the faster digits' sizes, as in
`pitch row = 1540` for rows of 1536.
""",
    "not-built-yet": """
The language has this, and the generator does not build it yet. It would have no effect, so it is an error, and never
ignored. The note says what it waits for, the help what to write instead.
""",
    "same-as-lane": """
`same as lane ..., byte ... holds row ..., k ...` restates the store order as kernel engineers write it: which element
position `byte` of lane `lane` holds. Each part is a sum of digits times numbers. It is proved equal to the store
order for every element width at which the layout is legal; the message names the first digit that counts differently.
Correct the clause, or the store order that it describes.
""",
    "same-as-torch": """
`same as torch view(...).permute(...)` restates the store order as torch code: axis names are the padded extents, dims
are products and quotients of axes and numbers, whole for every legal extent. It is proved equal to the store order
for every element width at which the layout is legal. The message shows the first element that lies elsewhere, and the
store order that the clause describes: one of the two is wrong.
""",
    "size-does-not-divide": """
A digit that has a size is split again, and the sizes of its parts do not make it: `b:16` cannot be 3 times anything,
and `hi:2 lo:4` is 8. Choose sizes whose product is the digit's size; one part may have no size and takes what is
left. (That sizes divide an axis is checked where a field gives the axis its extent: `not-divisible`.)
""",
    "store-missing": """
A layout says in which order its digits lie in storage, slowest first, by `store`. There is no default: `store row k`
is row-major, `store k row` its transpose.
""",
    "too-many-digits": """
A layout has at most 60 digits and 8 axes, a field at most 16 dims. A pack views a tensor with a dim for each digit,
and torch has at most 64 dims. Join digits that stay neighbours in the store order, and leading axes that are only
batch.
""",
    "two-unsized": """
One digit of a split may have no size: it takes what the others leave. With two of them an element would have no
definite digits: 12 could be 2 * 6, 3 * 4, 4 * 3 or 6 * 2. Give one of them a size, as in `split k = K g:4 b:16`.
""",
    # --- fields ---
    "as-shape": """
`as [dims]` gives the source's own shape, in logical elements, of the same elements in the same row-major order. So it
has as many elements as the field's storage (pads included for a `view`), and the same run-time dims. A source in
another order is not described by `as`: use `convert`.
""",
    "attest-contradicts": """
`attest LAYOUT when FLAG` names the order in which the field takes its source: the tile's (or scale's) for a view, the
source's for a convert. `attest not FLAG` promises a row-major source. A promise of another order would let exactly
the wrong tensors pass. Name the order that the field states.
""",
    "clause-without-use": """
A clause would have no effect, such as `scale LAYOUT` for a format of one tensor. Nothing in a spec is ignored, so it
is an error. Leave the clause out, or use the format that it is for.
""",
    "dialect": """
fp8 has two dialects: fnuz (gfx942, largest value 240) and fn (gfx950 and gfx1250, largest value 448). They read the
same byte as different numbers: 0x38 is 0.5 in one and 1.0 in the other. A field is in the arch's dialect; `ptpc_fp8`
takes it by itself. The source of a `convert` may be in either.
""",
    "fill-nan": """
In e8m0 the byte 0xFF is NaN, and NaN times 0 is NaN: one pad of a scale that a kernel reads, even for rows that are
not there, destroys what it is added to. So a layout with `fill 0xFF` cannot be used for e8m0. Fill with 0x7F (1.0) or
0x00 (2^-127), as the kernel needs.
""",
    "gather-no-group": """
`gather SEGMENT over GROUP` needs a process group at load, and only the struct's arguments reach its loader. Add the
group as an argument: `struct Wide(layer, group) extends Layer`.
""",
    "gather-not-divisible": """
Each rank brings an equal part of a gathered segment: segment / world size, exactly. Where the field overrides one,
the segment there is the rank's own part, and the whole must be a multiple of it (and a part a multiple of the scale's
block, along the last axis). Correct the length of the segment.
""",
    "gather-source": """
`gather` brings ranges of the ranks' sources together before anything is converted. A view is not converted, a source
in another order than row_major has no such ranges, and under `as` the axis is another one. Use `convert FORMAT
row_major PATHS` without `as`.
""",
    "layout-missing": """
Data of two axes or more has a `tile`, a scale of two axes or more a `scale`. Nothing is inferred from dtype, shape or
the name of a quantization: orders taken for granted are how a differently laid-out weight is read without a fault.
Write `tile row_major` if that is what it is.
""",
    "layout-rule": """
The layout's own `require` refuses the extents of the field: the kernels that it was written for do not take them. The
note says where the rule stands. A division in a rule must be exact, too. Change the extent, or use another layout.
""",
    "no-conversion": """
`convert` moves bytes between equal formats, and changes values only in ways that are pinned down to the bit: fp32 to
bf16, mxfp8 to bf16, mxfp8 `via bf16` to ptpc_fp8, bf16 to ptpc_fp8. `via` stands only where a conversion has an
intermediate format. Convert the checkpoint, or make the field of the source's format.
""",
    "not-divisible": """
The padded extent of an axis must be a multiple of the sizes that its split states, or exactly their product where all
digits have sizes: `split row = R r:16` takes 64 rows and not 72. Pad the axis in the layout, as in `pad row to 16
fill 0x00`, or change the extent.
""",
    "origin-missing": """
A field says where it comes from: `view PATH` where the source already is what the kernel reads, or `convert FORMAT
ORDER PATH` where bytes move or values change.
""",
    "pad-each": """
`segments row = gate:I up:I pad each` rounds each segment up by itself, by the layout's pad of that axis, in the data
and in the scale alike. So both layouts must pad it; otherwise the clause would have no effect, or move only one of
them. Pad the axis in the layout, or leave `pad each` out.
""",
    "runtime-dim-place": """
A run-time dim is the first axis of a field and stands alone there: then only the number of steps is unknown, and
every offset inside a step is a number in the header. As another axis, inside an expression, or as an axis of a tiled
layout it would make strides unknown. In `as` it may also be a factor of a product. List alternatives as `dim E in {
A, A + 1 }`.
""",
    "scale-block": """
An MX format has one scale for 32 elements along the last axis, so that axis is a multiple of 32 and known when the
spec is checked. Otherwise the last scale would cover elements that do not exist. Pad the tensor, or use another
format.
""",
    "segment-cuts-block": """
A segment of the last axis ends inside a block of elements that share a scale (or, for 4-bit elements, a byte). One
scale would belong to two segments, which could not be moved, gathered or padded apart. Make segments multiples of the
block.
""",
    "segments-fill": """
Segments are named ranges that fill their axis exactly, one after another: their lengths add up to the extent, and
each has one. The axis is of fixed length. Interleaved parts are no segments but a split, as in `split row = gu:2 I`.
""",
    "unknown-format": """
Formats are a closed table: bf16, fp16, fp32, int8, uint8, int32, int64, fp8_e4m3fn, fp8_e4m3fnuz, e8m0, fp4_e2m1 of
one tensor; mxfp4, mxfp8 and ptpc_fp8 of two, data and scale. Another nibble order or block size is another format,
which the table does not have yet.
""",
    "wrong-arity": """
A number of things does not match: names or paths and the tensors of the format (`mxfp4` has two, data and scale;
`bf16` one), the axes of a layout and of the tensor, or the axes that a format needs.
""",
    # --- structs ---
    "args-absent-field": """
A pointer table names fields of its struct, inherited ones among them, and the extras in its parentheses. Any other
name has no address, and neither has a field of an optional when it is absent: a table with such a field stands in the
same optional, whose method gives None then.
""",
    "bad-condition": """
A condition is a comparison, `x in { 1, 2 }`, or an attribute that is true or false, each with `not` before it if need
be. On a side stands an attribute, a run-time dim, or an expression of constants; numbers are not conditions, and
nothing is calculated with what only a loaded model knows.
""",
    "empty-optional": """
An optional block has no field, so nothing would be None when it is absent. Put the fields that depend on the
condition into it, or leave it out.
""",
    "empty-struct": """
A struct without fields loads nothing, and its header would be empty. Add a field, or leave the struct out.
""",
    "empty-table": """
A pointer table has no members, or stands in an optional and has none of its fields, so that it would not be absent
with it. Name fields in the order in which the kernel takes their addresses; move a table of other fields out of the
optional.
""",
    "extends-args": """
A struct that extends another begins with the base's arguments, in their order and under their names, and may add
more: `struct Wide(layer, group) extends Layer` where Layer has `(layer)`. What is inherited reads from these names.
""",
    "extends-names": """
An override replaces a whole field of the base, under the same name or names, in the base's place. Under other names
the base's tables would list one tensor of the new field and one of the old. Write all names as the base has them, or
a new field with names of its own.
""",
    "extends-optional": """
An override takes the base field's place, and is present or absent as that is: an optional block around it would have
no effect. Write the override directly in the struct. To make a field optional, declare it so in the base.
""",
    "optional-condition": """
The condition of an optional block holds always or never: it is of constants alone, or false (or true) for every value
that the dim lists. State a condition that differs between layers, on a dim or an attribute.
""",
    "optional-member": """
An optional block is flat: lets, requires, args and fields. Dims are bound for the whole struct, and an optional
inside another one would have two conditions for one field. Move it out; join conditions by a comma.
""",
    "require-false": """
A condition of constants alone is checked at once, and is false. Often a param was set to a value that the spec
excludes. Change the constants, or the condition.
""",
    "unbound-dim": """
A run-time dim gets its value from the shape of a source in which it stands alone; here no source binds it, or only
fields of optionals do while the condition of one asks for it first. Make it the first extent of a field that is
always there, or leave it out.
""",
    "unused-extra": """
An extra of a pointer table is given at each call, but has no place in the table: the address would reach no kernel.
Write it among the members, in the place where the kernel takes it, or leave it out.
""",
}

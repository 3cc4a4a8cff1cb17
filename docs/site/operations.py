"""The page on operations: what is known of each operation of JAX, from its record.

python docs/site/operations.py      # writes docs/operations.md; a test compares the page with the records
"""

from pathlib import Path

from bayesprune.structure import jaxprs, ops
from bayesprune.structure.primitive import Primitive

PAGE = Path(__file__).resolve().parent.parent / "operations.md"
HEAD = """\
# What is known of each operation

A network is read from its trace, operation by operation. Each has one record, in `bayesprune/structure/ops/`, a file a kind.
What a record does not say is not followed: it is kept whole, or refused, in one place. This page is written from the records
by `docs/site/operations.py`.

- **graph**: of `bnn.graph`, and so of `bnn.units`, groups, `bp.connected` and FLOPs. *kept*: all that it reads is taken for in
  use. *roles*: only what the weights in it are is known, inputs and outputs.
- **rows**: where each axis goes is known, so that the local estimator knows which numbers are of one row, and `bp.compact` that
  none meets another; else `bp.compact` asks the shapes.
- **linear**: noises of one weight may meet in it under the local estimator; after others the weight is drawn once.
- **compact**: `bp.compact` makes it smaller. *written out*: in simpler operations, where the places that it asks for are known.
  *kept*: as it is, for JAX alone, with all that it reads and makes, and `small.pinned` names it.
- **NumPy, ONNX, C**: what runs the smaller network: the reader of files, `bp.export_onnx`, and headers (`small.save("net.h")`).

A new operation is one record: one entry by entry that is zero at zero is `odd("name", written=...)`. With `written`, the same
in operations that have a record, compaction, NumPy, ONNX and C have it, too.

| operation | kind | graph | rows | linear | compact | NumPy, ONNX, C |
| --- | --- | --- | --- | --- | --- | --- |
"""


def row(kind: str, record: Primitive) -> str:
    """One line of the table."""
    written = record.written is not None
    graph = "roles" if record.name == "while" else "yes" if record.read else "written out" if written else "kept"
    rows = "yes" if record.axis else ""
    linear = {"sum": "yes", "product": "in each factor", "cast": "to real numbers", "": ""}[record.linear]
    compact = "yes" if record.plan else "written out" if written else "kept"
    return f"| `{record.name}` | {kind} | {graph} | {rows} | {linear} | {compact} | {'' if compact == 'kept' else 'yes'} |"


def page() -> str:
    """The whole page."""
    records = [(kind.__name__.rpartition(".")[2], record) for kind in ops.KINDS for record in kind.RECORDS]
    lines = [row(kind, record) for kind, record in records if record.name != "scan"]
    for name in (*jaxprs.CALLS, *jaxprs.WRITTEN_OUT):
        lines.append(f"| `{name}` | {'call' if name in jaxprs.CALLS else 'control'} | written out | | | written out | yes |")
    lines += ["", "A scan is written out where it is short; of a longer one the graph has the roles of its weights."]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""A picture whose every text tries to break out of its format."""

from detent.define.graph import Edge, Label, Node, Picture

TEXT = 'x"] --> [*] ; %% </title><script>alert(1)</script> &amp; \\" } \x1b[31m\u202e\x00\ud800 #quot; \\n\nend'


def hostile() -> Picture:
    """Names, titles, details, lanes, labels: all of them hostile."""
    nodes = (
        Node(TEXT, "parallel", (TEXT,), (TEXT, TEXT + "2"), ("parallel", "ask", "wait"), True, True, True),
        Node("end", "completed"),
        Node("<b>", "any"),
    )
    edges = (
        Edge(TEXT, "end", "signal", (Label(TEXT, "signal"), Label("end", "error"))),
        Edge(TEXT, TEXT, "retry", (Label(TEXT, "retry"),)),
        Edge("end", TEXT, "signal", (Label("-->", "signal"),)),
        Edge("<b>", "end", "error", (Label(TEXT, "error", is_visited=True),), 1),
    )
    return Picture(TEXT, nodes, edges, TEXT, "running")

"""Ways to see a Machine, or a run of it: as SVG, in a terminal, or in the notations of Mermaid and Graphviz."""

from detent.define.graph.drawing import Edge, Label, Node, Picture, picture
from detent.define.graph.mermaid_dot import dot, mermaid
from detent.define.graph.path import RunPath
from detent.define.graph.svg_picture import svg
from detent.define.graph.terminal import ascii

__all__ = ["Edge", "Label", "Node", "Picture", "RunPath", "ascii", "dot", "mermaid", "picture", "svg"]

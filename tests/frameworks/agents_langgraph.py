"""An agent of LangGraph that pays; its state is a checkpoint in SQLite."""

import operator
import sqlite3
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt


class State(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]


def think(state: State) -> dict[str, Any]:
    last = state["messages"][-1] if state["messages"] else None
    if getattr(last, "type", "") == "tool":
        return {"messages": [AIMessage(f"told: {last.content}")]}
    call = {"name": "bank_pay", "args": {"to": "ann", "amount": 5}, "id": "call_1", "type": "tool_call"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def make_bare(pay: Any) -> Any:
    @tool
    def bank_pay(to: str, amount: int) -> dict[str, Any]:
        """Pay."""
        answer = interrupt("Pay?")
        return pay(to, amount) if answer else {"status": "rejected"}

    return bank_pay


def run(folder: Any, guard: Any, pay: Any, thread: str, is_resumed: bool, base_url: str) -> str:
    """What the agent says, or `waiting`."""
    made = guard.to_langgraph(pay) if guard is not None else make_bare(pay)
    graph = StateGraph(State)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([made]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END])
    graph.add_edge("tools", "think")
    saver = SqliteSaver(sqlite3.connect(folder / "graph.db", check_same_thread=False))
    app = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": thread}}
    state = app.invoke(Command(resume=True) if is_resumed else {"messages": []}, config)
    return "waiting" if "__interrupt__" in state else str(state["messages"][-1].content)

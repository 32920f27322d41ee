"""A scripted model on loopback: it wants one payment, and then says what it was told of it."""

import http.server
import json
import threading
from typing import Any


def reply_to(messages: list[dict[str, Any]]) -> dict[str, Any]:
    told = [message["content"] for message in messages if message["role"] == "tool"]
    if told:
        text = told[-1] if isinstance(told[-1], str) else json.dumps(told[-1])
        return {"role": "assistant", "content": f"told: {text}"}
    call = {"name": "bank_pay", "arguments": json.dumps({"to": "ann", "amount": 5})}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
    }


def reply_as_claude(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The same as events of Anthropic's API; other questions of the program get a word."""
    last = [one["content"] for one in asked["messages"] if one["role"] == "user"][-1]
    results = [] if isinstance(last, str) else [one["content"] for one in last if one.get("type") == "tool_result"]
    # What the tool itself said; otherwise the program says that the call broke off, and it is wanted again.
    told = [one for one in results if any(word in json.dumps(one) for word in ("paid", "status"))]
    names = [tool["name"] for tool in asked.get("tools") or ()]
    paying = next((name for name in names if name.endswith("__bank_pay")), "")
    if told or not paying:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": f"told: {json.dumps(told)}"}
    else:
        block = {"type": "tool_use", "id": f"toolu_{len(asked['messages'])}", "name": paying, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"to": "ann", "amount": 5})}
    usage = {"input_tokens": 1, "output_tokens": 1}
    begun = {"id": "m1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
    return [
        {"type": "message_start", "message": {**begun, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "/messages" in self.path:
            self.reply("text/event-stream", "".join(
                f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in reply_as_claude(asked)
            ))  # fmt: skip
            return
        message = reply_to(asked["messages"])
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        self.reply("application/json", json.dumps(body))

    def reply(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def serve_model() -> str:
    """Begin to serve; the address for a client."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/v1"

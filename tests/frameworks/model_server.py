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


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = reply_to(asked["messages"])
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
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

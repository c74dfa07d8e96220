"""A provider for tests: an HTTP server that speaks the chat completions API and says what it was told to say."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One HTTP answer. `events` makes it a stream of server-sent events, `cut` ends that without its last event."""

    status: int = 200
    body: Any = None
    events: Sequence[Any] = ()
    headers: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False


@dataclass
class ChatServer:
    replies: list[Reply]
    requests: list[dict[str, Any]] = field(default_factory=list)  # {"path", "headers", "body"}
    base_url: str = ""
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
            self.requests.append({"path": first.split()[1], "headers": headers, "body": body})
            self.asked.set()
            if not self.replies:
                await reader.read()  # says nothing until the other side gives up
                return
            writer.write(_http(self.replies.pop(0)))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _http(reply: Reply) -> bytes:
    headers = [("Connection", "close"), *reply.headers]
    if reply.events:
        headers.append(("Content-Type", "text/event-stream"))
        blocks = [f"data: {json.dumps(event)}\n\n" for event in reply.events]
        payload = ": hello\n\n" + "".join(blocks) + ("" if reply.is_cut else "data: [DONE]\n\n")
    else:
        headers.append(("Content-Type", "application/json"))
        payload = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
    data = payload.encode()
    headers.append(("Content-Length", str(len(data))))
    head = f"HTTP/1.1 {reply.status} Status\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers)
    return head.encode() + b"\r\n" + data


@asynccontextmanager
async def chat_server(*replies: Reply) -> AsyncIterator[ChatServer]:
    provider = ChatServer(list(replies))
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield provider
    finally:
        server.close()


def says(
    text: str | None, *calls: tuple[str, str, dict[str, Any]], usage: dict[str, int] | None = None
) -> Reply:
    """An answer of the model: text, or calls of tools (id, name, arguments)."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for id, name, arguments in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return Reply(body={"object": "chat.completion", "choices": [choice], "usage": usage})


def streams(*deltas: dict[str, Any], finish_reason: str | None = "stop", is_cut: bool = False) -> Reply:
    """An answer in pieces."""
    events: list[Any] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]})
    events.append({"choices": [], "usage": {"total_tokens": 5}})
    return Reply(events=events, is_cut=is_cut)

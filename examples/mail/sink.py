"""A mail server on loopback that keeps what it is sent: one file for each mail, nothing is delivered.

python examples/mail/sink.py PORT FOLDER        (port 0 takes a free one; the first line printed says which)
"""

import asyncio
import sys
from pathlib import Path


class Sink:
    """Speaks as much SMTP as a client needs to hand over a mail."""

    def __init__(self, folder: Path, *, is_silent: bool = False) -> None:
        self.folder, self.is_silent = folder, is_silent  # silent: takes the mail and never says so
        self.count = 0
        self.port = 0
        self._server: asyncio.AbstractServer | None = None

    async def open(self, port: int = 0) -> int:
        """Begin to listen; returns the port."""
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", port)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def serve(self) -> None:
        """Go on until the process is stopped."""
        assert self._server is not None
        await self._server.serve_forever()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(text: str) -> None:
            writer.write(f"{text}\r\n".encode())
            await writer.drain()

        try:
            await say("220 sink")
            while line := (await reader.readline()).decode(errors="replace").strip():
                word = line.split(" ")[0].upper()
                if word == "DATA":
                    await say("354 go on")
                    self._keep(await reader.readuntil(b"\r\n.\r\n"))
                    if self.is_silent:
                        return
                    await say("250 kept")
                elif word == "QUIT":
                    await say("221 bye")
                    return
                else:
                    await say("250 fine" if word in ("HELO", "EHLO", "MAIL", "RCPT", "RSET", "NOOP") else "500 what?")
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client went away
        finally:
            writer.close()

    def _keep(self, mail: bytes) -> None:
        self.count += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{self.count:04d}.eml").write_bytes(mail.removesuffix(b".\r\n"))


async def main(port: int, folder: Path) -> None:
    """Serve until stopped."""
    sink = Sink(folder)
    print(await sink.open(port), flush=True)
    await sink.serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))

"""ws_autobahn.py PORT CONNECTIONS EACH BYTES: connections of WebSocket that send the next text when the last one has come
back, with autobahn-python on asyncio. Prints how many echoes came."""
import asyncio
import json
import sys

from autobahn.asyncio.websocket import WebSocketClientFactory, WebSocketClientProtocol

PORT, CONNECTIONS, EACH, BYTES = map(int, sys.argv[1:])
TEXT = b"x" * BYTES


class Client(WebSocketClientProtocol):
    received = 0

    def onOpen(self):
        self.left = EACH
        self.sendMessage(TEXT, isBinary=False)

    def onMessage(self, payload, isBinary):
        Client.received += 1
        self.left -= 1
        if self.left:
            self.sendMessage(TEXT, isBinary=False)
        else:
            self.sendClose(1000)

    def onClose(self, wasClean, code, reason):
        self.factory.closed.set_result(None)


async def main():
    loop = asyncio.get_running_loop()
    closed = []
    for _ in range(CONNECTIONS):
        factory = WebSocketClientFactory(f"ws://127.0.0.1:{PORT}/")
        factory.protocol, factory.closed = Client, loop.create_future()
        closed.append(factory.closed)
        await loop.create_connection(factory, "127.0.0.1", PORT)
    await asyncio.gather(*closed)
    print(json.dumps({"requests": Client.received}))


asyncio.run(main())

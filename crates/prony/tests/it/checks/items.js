// Replies to /items/K with a document that says K, compressed if the request asks for it, and with
// the status 404 if K is a multiple of 4.
const http = require("http");
const zlib = require("zlib");

const PACK = { gzip: zlib.gzipSync, deflate: zlib.deflateSync, br: zlib.brotliCompressSync };

http
  .createServer((request, response) => {
    const k = Number(request.url.split("/").pop());
    const body = JSON.stringify({ items: [{ id: k, name: `item ${k}` }], more: "x".repeat(300) });
    const coding = request.headers["accept-encoding"];
    const headers = { "Content-Type": "application/json" };
    const pack = PACK[coding];
    if (pack) headers["Content-Encoding"] = coding;
    const bytes = pack ? pack(body) : Buffer.from(body);
    headers["Content-Length"] = bytes.length;
    response.writeHead(k % 4 === 0 ? 404 : 200, headers);
    response.end(bytes);
  })
  .listen(@PORT@, "127.0.0.1");

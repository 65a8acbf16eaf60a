// A server of HTTP/2 that accepts only requests that are signed for AWS (Signature Version 4).
const http2 = require('http2'), crypto = require('crypto');
const hmac = (key, text) => crypto.createHmac('sha256', key).update(text).digest();
const sha = data => crypto.createHash('sha256').update(data).digest('hex');
const isSigned = (headers, body) => {
    const form = /^AWS4-HMAC-SHA256 Credential=ID\/(\S+), SignedHeaders=(\S+), Signature=(\S+)$/;
    const [, scope, names, tag] = headers.authorization.match(form);
    const value = name => name === 'host' ? headers[':authority'] : headers[name];
    const [path, query = ''] = headers[':path'].split('?');
    const lines = [headers[':method'], path, query];
    names.split(';').forEach(name => lines.push(`${name}:${value(name)}`));
    const date = headers['x-amz-date'], hashed = sha([...lines, '', names, sha(body)].join('\n'));
    const key = scope.split('/').reduce((key, part) => hmac(key, part), 'AWS4secret');
    return hmac(key, `AWS4-HMAC-SHA256\n${date}\n${scope}\n${hashed}`).toString('hex') === tag;
};
const server = http2.createServer();
server.on('stream', (stream, headers) => {
    const parts = [];
    stream.on('data', part => parts.push(part));
    stream.on('end', () => {
        let status = 403;
        try {
            status = isSigned(headers, Buffer.concat(parts)) ? 200 : 403;
        } catch (error) {
            console.log(error);
        }
        stream.respond({ ':status': status });
        stream.end();
    });
});
server.listen(@PORT@, '127.0.0.1');

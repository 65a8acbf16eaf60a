// Makes a collection by seed, and sends its requests with newman.
// Arguments: newman, seed, count, the URL of a server, a folder for the collection.
// Prints the names of the requests that newman refuses to send.

const fs = require('fs');
const [newman, first, all, url, folder] = process.argv.slice(2);
let seed = Number(first);
const count = Number(all);
function below(n) {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return Math.floor(seed / 65536) % n;
}
const pick = (...all) => all[below(all.length)];
const text = () => pick('a', 'b c', 'x&y', 'p=q', '{{v}}', '{{long}}', 'é', '"q"', "it's", '50%',
  'a+b', '{}', '<t>', '', 'z/w', '#h', '[1]', 'a;b', '😀');
const value = () => pick(text, text, text, () => text() + text())();

function pairs(kind, most) {
  const all = [];
  for (let i = below(most + 1); i > 0; i--) {
    const pair = { key: pick('k', 'n' + i, 'a b', 'x[]', '{{v}}', 'é&='), value: value() };
    if (below(6) === 0) pair.disabled = true;
    if (below(8) === 0) pair.description = 'd';
    if (kind === 'formdata') {
      // Names of fields have no variables.
      pair.key = pair.key.replace('é&=', 'f').replace('{{v}}', 'g');
      pair.type = 'text';
      if (below(5) === 0) pair.contentType = 'application/json';
      if (below(5) === 0) {
        pair.type = 'file';
        pair.src = pick('f.txt', 'g.bin', 'j.json');
        delete pair.value;
      }
    }
    if (below(20) === 0) all.push({ key: null, value: 'null', disabled: true });
    all.push(pair);
  }
  return all;
}

function address(n) {
  const path = [`c${n}`].concat(pick([], ['p q'], ['é', 'x'], [':id', 'a'], [':id.json'], ['{{v}}'],
    ['a{b}'], [''], ['a', '']));
  const query = pairs('query', 3);
  if (below(3) === 0) {
    return '{{base}}/' + path.join('/') + pick('', '?a=1&b=x y', '?q={{v}}&t="x"', "?q='s'&e=é",
      '#frag', '?x#frag', '?', '?a', '?a=b=c');
  }
  const [host, port] = url.split('//')[1].split(':');
  const variable = [{ key: 'id', value: pick('7', '{{v}}', 'a b', 'x/y') }];
  const made = { raw: 'x', protocol: 'http', host: host.split('.'), port, path, query, variable };
  if (below(8) === 0) made.path = '/' + path.join('/');
  if (below(10) === 0) made.hash = 'h';
  if (below(10) === 0) delete made.query;
  if (below(10) === 0) made.auth = { user: pick('u', '{{v}}'), password: pick('p', '{{long}}') };
  return made;
}

function headers() {
  if (below(6) === 0) return 'X-A: 1\nX-B: {{v}}\n';
  const all = ['X-A', 'X-b', 'x-C', 'X-A'].slice(0, below(5)).map(key => {
    const header = { key, value: pick('1', '{{v}}', 'a b', 'x; y="z"', '{{long}}', '') };
    if (below(5) === 0) header.disabled = true;
    return header;
  });
  if (below(5) === 0) {
    const value = pick('text/x', 'application/json; charset=utf-8');
    all.push({ key: 'Content-Type', value, disabled: below(3) === 0 });
  }
  return all;
}

function body() {
  const mode = pick('raw', 'raw', 'urlencoded', 'formdata', 'graphql', 'file');
  const made = { mode };
  if (below(10) === 0) made.disabled = true;
  if (mode === 'raw') {
    made.raw = pick('', 'plain {{v}}', '{"a": "{{long}}", "b": [1, 2 ]}', '<x>é</x>', '{{ {{v}} }}',
      'a\nb\r\nc');
    const language = pick(null, 'json', 'xml', 'text', 'html', 'javascript');
    if (language) made.options = { raw: { language } };
  } else if (mode === 'graphql') {
    made.graphql = {
      query: pick('{ a }', 'query Q($id: Int) { a(id: $id, s: "{{long}}") }', 'mutation { b }\n'),
    };
    if (below(2)) made.graphql.operationName = pick('Q', '{{v}}', '');
    if (below(3)) {
      made.graphql.variables = pick('{"id": {{v}}}', '{ "id": 7, "s": "{{v}}" }', '', '{}',
        { id: 7, s: '{{long}}' }, '{"b": 1, "a": 2}');
    }
  } else if (mode === 'file') {
    made.file = pick({ src: 'f.txt' }, { src: 'g.bin' }, { content: 'aW4gYQ==' }, { src: null });
  } else {
    made[mode] = pairs(mode, 4);
  }
  return made;
}

function authorization() {
  const pair = (key, value) => ({ key, value });
  const basic = [pair('username', pick('u', '{{v}}')), pair('password', pick('p:w', '{{long}}', ''))];
  const bearer = [pair('token', pick('t', '{{v}}', ''))];
  const apikey = [pair('key', pick('X-Key', 'k')), pair('value', pick('s', '{{v}}', 'a b&c')),
    pair('in', pick('header', 'query'))];
  const more = pick([], [pair('headerPrefix', pick('MAC', '', 'Token '))], [pair('tokenType', 'mac')]);
  const oauth2 = [pair('accessToken', pick('tok', '')),
    pair('addTokenTo', pick('header', 'queryParams')), ...more];
  return pick({ type: 'noauth' }, { type: 'basic', basic }, { type: 'bearer', bearer },
    { type: 'apikey', apikey }, { type: 'oauth2', oauth2 });
}

const items = [];
for (let n = 0; n < count; n++) {
  const method = pick('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'post', 'HEAD', 'OPTIONS');
  const request = { method, url: address(n), header: headers() };
  if (below(4)) request.body = body();
  if (below(3)) request.auth = authorization();
  const item = { name: 'c' + n, request };
  const behavior = pick(null, null, null, { disableBodyPruning: true }, { disableUrlEncoding: true },
    { disabledSystemHeaders: { 'content-type': true } }, { disableBodyPruning: false });
  if (behavior) item.protocolProfileBehavior = behavior;
  items.push(item);
}
const half = items.length >> 1;
const inner = {
  name: 'folder',
  auth: { type: 'bearer', bearer: [{ key: 'token', value: 'of folder' }] },
  protocolProfileBehavior: { disableBodyPruning: true },
  item: items.slice(half),
};
const collection = {
  info: { name: 'x', schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json' },
  auth: { type: 'basic', basic: { username: 'top', password: 'pw' } },
  variable: [{ key: 'base', value: url }, { key: 'v', value: '5' },
    { key: 'long', value: 'two words "q" é' }, { key: 'off', value: 'x', disabled: true }],
  item: items.slice(0, half).concat([inner]),
};
fs.writeFileSync(`${folder}/collection.json`, JSON.stringify(collection));
process.chdir(folder);
const refused = [];
require(newman).run({ collection, workingDir: folder, reporters: [] })
  .on('request', (error, { item }) => error && refused.push(item.name))
  .on('done', error => {
    if (error) throw error;
    fs.writeSync(1, JSON.stringify(refused));
    // Its connections stay open.
    process.exit(0);
  });

// Makes a description by seed, and sends its operations with swagger-client.
// Arguments: the folder of swagger-client, seed, count, the URL of a server, a folder.

const fs = require('fs');
const [client, first, all, url, folder] = process.argv.slice(2);
const Client = require(client);
let seed = Number(first);
const count = Number(all);
function below(n) {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return Math.floor(seed / 65536) % n;
}
const pick = (...all) => all[below(all.length)];
const text = () => pick('a', 'b c', 'x&y', 'p=q', 'é', '"q"', '50%', 'a+b', 'z/w', 'h#i', ';');
const scalar = () => pick(text, text, () => below(100) + 1, () => true)();
const list = () => Array.from({ length: 1 + below(3) }, scalar);
let objects = 0;
const object = () => {
  // The client joins parameters that have fields of the same name.
  const [made, nth] = [{}, ++objects];
  for (const name of ['b', 'a', 'c d'].slice(0, 1 + below(3))) made[name + nth] = scalar();
  return made;
};
const version = pick('2.0', '3.0.3', '3.1.0');
const isOld = version === '2.0';
const host = url.split('//')[1];
const paths = {};
const calls = [];

function typed(value) {
  if (Array.isArray(value)) return { type: 'array', items: {} };
  if (value !== null && typeof value === 'object') return { type: 'object' };
  return { type: typeof value === 'number' ? 'integer' : typeof value };
}

function parameter(n, at) {
  const name = at === 'path' ? 'id' : pick('k', 'n', 'X-A', 'a_b') + n;
  if (isOld) {
    const isList = at !== 'header' && at !== 'path' && below(2);
    const value = isList ? list().map(String) : text();
    const made = { name, in: at, required: true, type: isList ? 'array' : 'string' };
    if (isList) made.items = { type: 'string' };
    const format = pick('csv', 'ssv', 'tsv', 'pipes', 'multi', null);
    if (isList && format) made.collectionFormat = format;
    made.default = value;
    return [made, value];
  }
  let value = pick(scalar, list, object)();
  const styles = {
    path: ['simple', 'label', 'matrix'],
    query: ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject'],
    header: ['simple'],
    cookie: ['form'],
  };
  let style = pick(...styles[at]);
  const isObject = !Array.isArray(value) && typeof value === 'object';
  // The others have no meaning in the specification.
  if (style === 'deepObject' && !isObject) style = 'form';
  if (style.endsWith('Delimited') && !Array.isArray(value)) style = 'form';
  const made = { name, in: at, required: true, schema: typed(value), example: value };
  if (below(2)) made.style = style;
  else style = at === 'query' || at === 'cookie' ? 'form' : 'simple';
  const isSet = below(3) > 0 || at === 'cookie';
  if (isSet) made.explode = style === 'deepObject' || (at !== 'cookie' && below(2) === 1);
  if (at === 'query' && below(5) === 0) {
    made.allowReserved = true;
    // These would end the value, or be a blank: prony encodes them all the same.
    value = made.example = JSON.parse(JSON.stringify(value).replaceAll(/[#&+]/g, '-'));
  }
  // In 3.0, lists of labels have dots in any case.
  if (style === 'label' && version !== '3.0.3') made.explode = true;
  if (style === 'deepObject') made.explode = true;
  return [made, value];
}

function header(value) {
  // Header values are Latin-1 in one program, and UTF-8 in the other.
  return JSON.parse(JSON.stringify(value).replaceAll('é', 'e'));
}

for (let n = 0; n < count; n++) {
  const method = pick('get', 'post', 'put', 'delete', 'patch');
  const places = ['query', 'query', 'header', 'cookie'].slice(isOld ? 0 : 0, isOld ? 3 : 4);
  const used = places.filter(() => below(2));
  const hasPath = below(2);
  if (hasPath) used.push('path');
  const operation = { operationId: `c${n}`, parameters: [], responses: { 200: { description: 'x' } } };
  const values = {};
  used.forEach((at, nth) => {
    let [made, value] = parameter(nth, at);
    if (at === 'header' || at === 'cookie') {
      value = header(value);
      if (isOld) made.default = value;
      else made.example = value;
    }
    operation.parameters.push(made);
    values[`${at}.${made.name}`] = value;
  });
  const call = { spec: null, operationId: `c${n}`, parameters: values };
  if (method !== 'get' && method !== 'delete' && below(3)) {
    const fields = object();
    const kind = pick('application/json', 'application/vnd.x+json', 'application/x-www-form-urlencoded',
      'multipart/form-data', 'text/plain', 'application/xml');
    const isForm = kind.includes('form');
    // The client reads texts of forms as JSON.
    if (isForm) {
      for (const [name, value] of Object.entries(fields)) {
        if (String(value).startsWith('"')) fields[name] = 'q';
      }
    }
    if (isOld && isForm) {
      operation.consumes = [kind];
      for (const [name, value] of Object.entries(fields)) {
        operation.parameters.push({ name, in: 'formData', required: true, type: 'string', default: String(value) });
        values[`formData.${name}`] = String(value);
      }
    } else if (isOld) {
      const value = kind.includes('json') ? fields : '<a>x</a>';
      operation.consumes = [kind];
      operation.parameters.push({ name: 'body', in: 'body', schema: { ...typed(value), example: value } });
      values['body.body'] = value;
      call.requestContentType = kind;
    } else {
      let value = kind.includes('json') ? pick(object, list)() : isForm ? fields : '<a>x</a>';
      const media = { schema: typed(value), example: value };
      if (isForm && kind.includes('url') && below(2)) {
        value.l = list().map(item => String(item).replaceAll('"', 'q'));
        media.encoding = { l: { style: pick('form', 'spaceDelimited', 'pipeDelimited'), explode: below(2) === 1 } };
      }
      operation.requestBody = { content: { [kind]: media } };
      call.requestBody = value;
      call.requestContentType = kind;
    }
  }
  const path = `/c${n}` + (hasPath ? '/{id}/x' : '');
  paths[path] = { [method]: operation };
  if (!isOld && below(4) === 0) {
    const server = { url: `http://${host}/{v}`, variables: { v: { default: 'op' } } };
    if (below(2)) operation.servers = [server];
    else paths[path].servers = [{ url: `http://${host}/item` }];
  }
  calls.push(call);
}
const info = { title: 'x', version: '1' };
const spec = isOld ? { swagger: version, info, host, basePath: '/base', schemes: ['http'], paths }
  : { openapi: version, info, servers: [{ url: `http://${host}/base` }], paths };
fs.writeFileSync(`${folder}/openapi.json`, JSON.stringify(spec));
(async () => {
  const { spec: resolved } = await Client.resolve({ spec: JSON.parse(JSON.stringify(spec)) });
  const failed = [];
  for (const call of calls) {
    try {
      await Client.execute({ ...call, spec: resolved });
    } catch (error) {
      if (!error.response) failed.push([call.operationId, String(error)]);
    }
  }
  fs.writeSync(1, JSON.stringify(failed));
  // Its connections stay open.
  process.exit(0);
})();

// Sends requests of many kinds, by seed. Each has its number in its path.

async function sendAll(seed, count) {
  function below(n) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor(seed / 65536) % n;
  }
  const pick = (...all) => all[below(all.length)];
  const text = () => pick('a', 'b c', 'x&y', 'p=q', 'é', '"q"', "it's", '50%', 'a+b', '{{x}}', '<t>',
    '', 'z/w', '#h', '[1]', 'a;b', '😀', 'line\r\nbreak');
  document.cookie = 'c1=one';
  document.cookie = 'c2=two words';
  for (let n = 0; n < count; n++) {
    const method = pick('GET', 'POST', 'PUT', 'PATCH', 'DELETE');
    const query = pick('', '?a=' + text().replaceAll('#', ''), '?q=' + encodeURIComponent(text()), '?', '?x&y=');
    const headers = {};
    for (const name of ['X-A', 'x-b', 'Accept-Language', 'Authorization', 'Cache-Control'].slice(below(5))) {
      if (below(2)) headers[name] = pick('1', 'a b', 'x; y="z"', '{{v}}', '', '2', '3', '4', 'é');
    }
    let body;
    if (method !== 'GET' && below(5)) {
      const form = new FormData();
      form.append('n', text());
      form.append(pick('m', 'a"b'), text());
      const kind = below(7);
      if (kind === 0) form.append('f', new Blob(['of a file']), 'f.txt');
      body = pick(text() + text(), JSON.stringify({ a: text(), b: [1] }),
        new URLSearchParams([['a b', text()], ['c', text()]]), form,
        new Uint8Array([0x61, 0xff, 0x00, 0x7b, 0x7b]).slice(0, pick(1, 5)));
      if (typeof body === 'string' && below(2)) headers['Content-Type'] = pick('application/json', 'text/x');
    }
    const path = pick('', '/p q', '/é', '/a{b}', "/it's", '/;x=1');
    await fetch(`/c${n}${path}${query}`, { method, headers, body }).then(reply => reply.text());
  }
}

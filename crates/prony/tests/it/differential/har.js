// Makes an archive of the messages of a browser, with the package chrome-har.
// Arguments: the package, the file of messages, the file of the archive.

const fs = require('fs');
const [chromeHar, messages, archive] = process.argv.slice(2);
import(chromeHar).then(({ harFromMessages }) => {
  const all = JSON.parse(fs.readFileSync(messages, 'utf8'));
  fs.writeFileSync(archive, JSON.stringify(harFromMessages(all)));
});

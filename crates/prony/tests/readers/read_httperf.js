// Read httperf's report from standard input with the npm package httperfjs and print what it found as JSON.
//
// usage: read_httperf.js PARSER

const Parser = require(require("path").resolve(process.argv[2]));
const report = require("fs").readFileSync(0, "utf8");
console.log(JSON.stringify(new Parser(report)));

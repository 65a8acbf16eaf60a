"""Decodes and encodes blocks of headers with the Python package `hpack`: one command a line of
the file that is named.

`decode HEX` prints the fields as `NAME:VALUE`, in hex, separated by spaces. `encode SIZE FIELDS`
prints a block in hex, for a table of SIZE bytes; a field that starts with `!` is never indexed.
"""

import sys

import hpack

decoder = hpack.Decoder()
encoder = hpack.Encoder()
size = 4096
for line in open(sys.argv[1]):
    command, *words = line.split()
    if command == "decode":
        fields = decoder.decode(bytes.fromhex(words[0]) if words else b"", raw=True)
        print(*(f"{bytes(name).hex()}:{bytes(value).hex()}" for name, value in fields))
    else:
        wanted, *texts = words
        if int(wanted) != size:
            size = encoder.header_table_size = int(wanted)
        fields = []
        for text in texts:
            name, value = (bytes.fromhex(part) for part in text.lstrip("!").split(":"))
            kind = hpack.NeverIndexedHeaderTuple if text.startswith("!") else hpack.HeaderTuple
            fields.append(kind(name, value))
        print(encoder.encode(fields, huffman=True).hex())

"""Encodes JSON with Google's own package, as the truth for prony's encoder.

    python vectors.py FOLDER < cases > vectors

Each line of the cases is the name of a message, a tab, and its JSON. Each line of the result has the
encoded message, in hexadecimal digits, before these; `-` if the JSON is refused.
"""

import pathlib
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

pool = descriptor_pool.DescriptorPool()
files = descriptor_pb2.FileDescriptorSet()
files.ParseFromString((pathlib.Path(sys.argv[1]) / "vectors.pset").read_bytes())
for file in files.file:
    pool.Add(file)

for line in sys.stdin:
    name, text = line.rstrip("\n").split("\t")
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    try:
        json_format.Parse(text, message, descriptor_pool=pool)
        encoded = message.SerializePartialToString(deterministic=True).hex()
    except (json_format.ParseError, ValueError):
        encoded = "-"
    print(encoded, name, text, sep="\t")

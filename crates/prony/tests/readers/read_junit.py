"""Checks a JUnit report: `read_junit.py SCHEMA REPORT`. Prints each test case, and what it came to."""

import sys

import xmlschema

schema, report = sys.argv[1:]
xmlschema.XMLSchema(schema).validate(report)
for case in xmlschema.XMLResource(report).root.iter("testcase"):
    print(case.get("name"), *(child.tag for child in case), sep="\t")

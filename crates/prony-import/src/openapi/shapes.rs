//! The types of the members of descriptions, as far as they make requests.

use crate::shape::Shape::{self, Any, Count, Either, Flag, List, Map, Number, Object, Text, Word};

type Members = &'static [(&'static str, &'static Shape)];

static TEXTS: Shape = List(&Text);
static SERVERS: Shape = List(&SERVER);
static SERVER: Shape = Object(&[("url", &Text), ("variables", &Map(&VARIABLE))]);
static VARIABLE: Shape = Object(&[("default", &Shape::Scalar), ("enum", &List(&Shape::Scalar))]);
static SECURITY: Shape = List(&Map(&TEXTS));
static PARAMETERS: Shape = List(&PARAMETER);

/// A whole document.
pub(super) static DOCUMENT: Shape = Object(&[
    ("servers", &SERVERS),
    ("paths", &Map(&ITEM)),
    ("webhooks", &Map(&Any)),
    ("security", &SECURITY),
    ("components", &Object(&[("securitySchemes", &SCHEMES)])),
    ("host", &Text),
    ("basePath", &Text),
    ("schemes", &TEXTS),
    ("consumes", &TEXTS),
    ("securityDefinitions", &SCHEMES),
]);

static SCHEMES: Shape = Map(&Object(&[
    ("$ref", &Text),
    ("type", &Text),
    ("name", &Text),
    ("in", &Text),
    ("scheme", &Text),
]));

static ITEM: Shape = Object(&[
    ("$ref", &Text),
    ("servers", &SERVERS),
    ("parameters", &PARAMETERS),
    ("additionalOperations", &Map(&OPERATION)),
    ("get", &OPERATION),
    ("put", &OPERATION),
    ("post", &OPERATION),
    ("delete", &OPERATION),
    ("options", &OPERATION),
    ("head", &OPERATION),
    ("patch", &OPERATION),
    ("trace", &OPERATION),
    ("query", &OPERATION),
]);

static OPERATION: Shape = Object(&[
    ("tags", &TEXTS),
    ("operationId", &Text),
    ("parameters", &PARAMETERS),
    ("requestBody", &BODY),
    ("responses", &Map(&Any)),
    ("security", &SECURITY),
    ("servers", &SERVERS),
    ("consumes", &TEXTS),
    ("schemes", &TEXTS),
]);

static BODY: Shape = Object(&[("$ref", &Text), ("content", &CONTENT), ("required", &Flag)]);
static CONTENT: Shape = Map(&MEDIA);
static MEDIA: Shape = Object(&[
    ("$ref", &Text),
    ("schema", &SCHEMA),
    ("examples", &EXAMPLES),
    ("encoding", &Map(&ENCODING)),
]);
static EXAMPLES: Shape = Map(&Object(&[("$ref", &Text)]));
static ENCODING: Shape = Object(&[
    ("contentType", &Text),
    ("headers", &Map(&Any)),
    ("style", &STYLE),
    ("explode", &Flag),
    ("allowReserved", &Flag),
]);
static STYLE: Shape = Word(&[
    "matrix",
    "label",
    "simple",
    "form",
    "spaceDelimited",
    "pipeDelimited",
    "deepObject",
    "cookie",
]);

/// In Swagger 2.0, a parameter is a schema, too.
static PARAMETER: Shape = Object(PARAMETER_MEMBERS);
static PARAMETER_MEMBERS: Members = &[
    ("$ref", &Text),
    ("name", &Text),
    ("in", &Text),
    ("required", &Flag),
    ("style", &STYLE),
    ("explode", &Flag),
    ("allowReserved", &Flag),
    ("schema", &SCHEMA),
    ("examples", &EXAMPLES),
    ("content", &CONTENT),
    ("collectionFormat", &Word(&["csv", "ssv", "tsv", "pipes", "multi"])),
    ("type", &TYPES),
    ("format", &Text),
    ("items", &SCHEMA),
    ("maximum", &Number),
    ("exclusiveMaximum", &LIMIT),
    ("minimum", &Number),
    ("exclusiveMinimum", &LIMIT),
    ("maxLength", &Count),
    ("minLength", &Count),
    ("pattern", &Text),
    ("maxItems", &Count),
    ("minItems", &Count),
    ("uniqueItems", &Flag),
    ("enum", &List(&Any)),
    ("multipleOf", &Number),
    ("nullable", &Flag),
];

/// The limit itself, or in OpenAPI 3.0 whether another one is excluded.
static LIMIT: Shape = Either(&[Flag, Number]);
static TYPES: Shape = Either(&[TYPE, Shape::Some(&TYPE)]);
const TYPE: Shape =
    Word(&["string", "number", "integer", "boolean", "array", "object", "null", "file"]);

/// A schema; a flag allows anything, or nothing.
static SCHEMA: Shape = Either(&[Flag, Object(SCHEMA_MEMBERS)]);
static SCHEMAS: Shape = List(&SCHEMA);
static SCHEMA_MEMBERS: Members = &[
    ("$ref", &Text),
    ("type", &TYPES),
    ("format", &Text),
    ("contentMediaType", &Text),
    ("properties", &Map(&SCHEMA)),
    ("required", &TEXTS),
    ("readOnly", &Flag),
    ("nullable", &Flag),
    ("items", &SCHEMA),
    ("allOf", &SCHEMAS),
    ("oneOf", &SCHEMAS),
    ("anyOf", &SCHEMAS),
    ("discriminator", &DISCRIMINATOR),
    ("enum", &List(&Any)),
    ("examples", &List(&Any)),
    ("maximum", &Number),
    ("exclusiveMaximum", &LIMIT),
    ("minimum", &Number),
    ("exclusiveMinimum", &LIMIT),
    ("multipleOf", &Number),
    ("maxLength", &Count),
    ("minLength", &Count),
    ("pattern", &Text),
    ("maxItems", &Count),
    ("minItems", &Count),
    ("uniqueItems", &Flag),
    ("xml", &XML),
];
/// In Swagger 2.0, a discriminator is the name of the member.
static DISCRIMINATOR: Shape =
    Either(&[Text, Object(&[("propertyName", &Text), ("mapping", &Map(&Text))])]);
static XML: Shape = Object(&[
    ("name", &Text),
    ("prefix", &Text),
    ("namespace", &Text),
    ("attribute", &Flag),
    ("wrapped", &Flag),
]);

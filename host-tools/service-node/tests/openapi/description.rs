//! The description, and whether what was asked and answered is as it says.

use std::collections::BTreeSet;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

/// Parts of a path.
const OPERATIONS: [&str; 3] = ["get", "post", "put"];

/// The description, sealed: an object has no field that is not described.
pub(crate) struct Description(Value);

/// One request that there is.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    described: &'a Value,
    description: &'a Description,
}

impl Description {
    pub(crate) fn new(text: &str) -> Self {
        let mut document: Value = serde_json::from_str(text).expect("JSON");
        for (pointer, is_whole) in [("/components/schemas", false), ("/components/responses", true), ("/paths", true)] {
            let part = document.pointer_mut(pointer).expect(pointer);
            if is_whole {
                seal_contents(part);
            } else {
                part.as_object_mut().expect(pointer).values_mut().for_each(|schema| seal(schema, false));
            }
        }
        Self(document)
    }

    /// The names of all requests.
    pub(crate) fn operations(&self) -> BTreeSet<String> {
        let paths = self.0["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(_, path)| OPERATIONS.iter().filter_map(|method| path.get(method)));
        operations.map(|operation| operation["operationId"].as_str().expect("a name").to_owned()).collect()
    }

    /// The request that this is.
    pub(crate) fn operation(&self, method: &str, path: &str) -> Operation<'_> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let paths = self.0["paths"].as_object().expect("paths");
        // What has no number in it is meant by its name alone.
        let described =
            paths.get(path).or_else(|| paths.iter().find(|(of, _)| is_one_of(path, of)).map(|(_, path)| path));
        let described = described.and_then(|path| path.get(method.to_lowercase()));
        let described = described.unwrap_or_else(|| panic!("{method} {path} is not described"));
        let parameters = described["parameters"].as_array();
        let named = |name: &str| parameters.is_some_and(|all| all.iter().any(|one| one["name"] == name));
        for name in query.split('&').filter_map(|part| part.split_once('=')).map(|(name, _)| name) {
            assert!(named(name), "{method} {path}: parameter {name} is not described");
        }
        Operation { described, description: self }
    }

    /// Whether a value is as the schema of that name says; what is wrong if not.
    pub(crate) fn check(&self, name: &str, value: &Value) -> Result<(), String> {
        self.held_against(json!({ "$ref": format!("#/components/schemas/{name}") }), value)
    }

    fn held_against(&self, mut schema: Value, value: &Value) -> Result<(), String> {
        seal(&mut schema, true);
        schema["components"] = self.0["components"].clone();
        let validator: Validator = jsonschema::draft202012::new(&schema).expect("a schema");
        let errors: Vec<_> =
            validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        if errors.is_empty() { Ok(()) } else { Err(format!("{value:#}\n{}", errors.join("\n"))) }
    }

    fn resolved<'a>(&'a self, part: &'a Value) -> &'a Value {
        part["$ref"].as_str().map_or(part, |to| self.0.pointer(&to[1..]).expect(to))
    }
}

impl Operation<'_> {
    pub(crate) fn name(self) -> String {
        self.described["operationId"].as_str().expect("a name").to_owned()
    }

    /// Whether an order is as it is described.
    pub(crate) fn check_order(self, content_type: &str, order: Option<&Value>) {
        let content = self.described["requestBody"]["content"].as_object();
        let Some(content) = content else {
            return assert!(order.is_none(), "{}: there is an order, and none is described", self.name());
        };
        let described = content.get(content_type).unwrap_or_else(|| panic!("{}: {content_type}", self.name()));
        if let Some(order) = order {
            let checked = self.description.held_against(described["schema"].clone(), order);
            checked.unwrap_or_else(|wrong| panic!("{}: {wrong}", self.name()));
        }
    }

    /// Whether there may be an answer of this kind, and whether each of these values may be in it.
    pub(crate) fn check_answer(self, status: u16, content_type: &str, values: &[Value]) {
        let name = self.name();
        let answer = &self.described["responses"][status.to_string()];
        assert!(!answer.is_null(), "{name}: an answer with status {status} is not described");
        let content = self.description.resolved(answer)["content"].as_object().expect("content");
        let described = content.get(content_type);
        let described = described.unwrap_or_else(|| panic!("{name}: {content_type} is not described for {status}"));
        for value in values {
            let checked = self.description.held_against(described["schema"].clone(), value);
            checked.unwrap_or_else(|wrong| panic!("{name}, status {status}: {wrong}"));
        }
    }
}

/// Whether a path is one of these, such as `/v1/jobs/{job}`.
fn is_one_of(path: &str, template: &str) -> bool {
    let (parts, wanted): (Vec<_>, Vec<_>) = (path.split('/').collect(), template.split('/').collect());
    parts.len() == wanted.len()
        && parts.iter().zip(wanted).all(|(part, wanted)| *part == wanted || wanted.starts_with('{'))
}

/// Seals the schemas of all contents.
fn seal_contents(part: &mut Value) {
    match part {
        Value::Array(parts) => parts.iter_mut().for_each(seal_contents),
        Value::Object(parts) => {
            for (key, part) in parts {
                if key == "schema" { seal(part, true) } else { seal_contents(part) }
            }
        }
        _ => {}
    }
}

/// Has a schema refuse objects with fields that neither it nor what it consists of describes. What is only a part of
/// another one cannot know them all.
fn seal(schema: &mut Value, is_whole: bool) {
    let Value::Object(schema) = schema else { return };
    let all_in = |key: &str, schema: &mut Map<String, Value>, is_whole| match schema.get_mut(key) {
        Some(Value::Array(parts)) => parts.iter_mut().for_each(|part| seal(part, is_whole)),
        Some(Value::Object(parts)) => parts.values_mut().for_each(|part| seal(part, is_whole)),
        _ => {}
    };
    for key in ["allOf", "oneOf", "anyOf"] {
        all_in(key, schema, false);
    }
    for key in ["properties", "prefixItems"] {
        all_in(key, schema, true);
    }
    for key in ["items", "additionalProperties"] {
        schema.get_mut(key).into_iter().for_each(|part| seal(part, true));
    }
    if is_whole {
        schema.insert("unevaluatedProperties".to_owned(), false.into());
    }
}

#[test]
fn what_is_not_described_is_found() {
    let text = json!({
        "components": {
            "schemas": {
                "Part": { "type": "object", "required": ["a"], "properties": { "a": { "type": "integer" } } },
                "Whole": { "allOf": [
                    { "$ref": "#/components/schemas/Part" },
                    { "properties": { "parts": { "items": { "$ref": "#/components/schemas/Part" } } } }
                ] },
            },
            "responses": {},
        },
        "paths": {},
    });
    let description = Description::new(&text.to_string());
    let check = |value| description.check("Whole", &value);
    assert_eq!(check(json!({ "a": 1, "parts": [{ "a": 2 }] })), Ok(()));
    for wrong in
        [json!({ "a": 1, "b": 2 }), json!({ "a": 1, "parts": [{ "a": 2, "b": 3 }] }), json!({ "a": "1" }), json!({})]
    {
        assert!(check(wrong.clone()).is_err(), "{wrong}");
    }
}

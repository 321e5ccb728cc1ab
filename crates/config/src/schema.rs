//! The JSON Schema of `tls.yaml`, from the fields that the reader asks for.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::desk::Desk;
use crate::section::{Field, Section, Shape};

/// JSON Schema (2020-12) of the file, for editors.
///
/// Made by letting the reader read an empty file and noting what it asks for, so it has every field
/// that the reader knows and no other. Rules between fields are not in it; `check` has those.
pub fn schema() -> Value {
    let mut schema = section(&fields());
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("tls.yaml");
    schema["required"] = json!(["listeners", "sites"]);
    schema
}

/// The reference as text: one line for each field, `path | takes | default | about`.
pub fn reference() -> String {
    let mut out = String::new();
    lines("", &fields(), &mut out);
    out
}

/// Every field of the file.
fn fields() -> Vec<Field> {
    let desk = Desk::new("", Path::new("/"), true);
    let mut top = Section::absent(&desk, String::new());
    crate::top(&mut top);
    top.finish()
}

/// Names of the fields of the section at this dotted path; empty when it is none.
pub fn fields_at(path: &str) -> Vec<&'static str> {
    let mut names = Vec::new();
    walk("", &fields(), &mut |home, field| {
        if home == path {
            names.push(field.name);
        }
    });
    names
}

/// Where a field of this name does exist, as help for one that stands elsewhere.
pub fn homes_of(name: &str, path: &str) -> Option<String> {
    let mut homes = Vec::new();
    walk("", &fields(), &mut |home, field| {
        if field.name == name && home != path {
            homes.push(match home {
                "" => "at the top of the file".to_owned(),
                home => format!("under {}", home.replace('.', ": ") + ":"),
            });
        }
    });
    match homes.as_slice() {
        [] => None,
        homes if homes.len() > 3 => None,
        homes => Some(format!("this field belongs {}", homes.join(", or "))),
    }
}

fn walk(path: &str, fields: &[Field], visit: &mut impl FnMut(&str, &Field)) {
    for field in fields {
        visit(path, field);
        let inner = join(path, field.name);
        if let Some(fields) = section_of(&field.shape) {
            walk(&inner, fields, visit);
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// The fields inside a shape.
fn section_of(shape: &Shape) -> Option<&[Field]> {
    match shape {
        Shape::Section(fields) => Some(fields),
        Shape::List(inner) => section_of(inner),
        Shape::Either(shapes) => shapes.iter().find_map(section_of),
        Shape::Text(_)
        | Shape::Flag
        | Shape::Count(_)
        | Shape::Share
        | Shape::Switch
        | Shape::Threshold(..)
        | Shape::Choice(_) => None,
    }
}

fn lines(path: &str, fields: &[Field], out: &mut String) {
    walk(path, fields, &mut |path, field| {
        let line = format!(
            "| `{}` | {} | {} | {} |\n",
            join(path, field.name),
            takes(&field.shape),
            field.default,
            field.about
        );
        out.push_str(&line);
    });
}

fn takes(shape: &Shape) -> String {
    match shape {
        Shape::Text(kind) => (*kind).to_owned(),
        Shape::Flag => "true or false".into(),
        Shape::Count(range) => format!("{} to {}", range.start(), range.end()),
        Shape::Share => "0 to 1".into(),
        Shape::Switch => "on or off".into(),
        Shape::Threshold(low, high) => format!("{low} to {high}, or off"),
        Shape::Choice(words) => crate::suggest::one_of(words),
        Shape::List(inner) => format!("list of {}", takes(inner)),
        Shape::Section(_) => "fields".into(),
        Shape::Either(shapes) => {
            let shapes: Vec<String> = shapes.iter().map(takes).collect();
            shapes.join(" or ")
        }
    }
}

fn section(fields: &[Field]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut value = shape(&field.shape);
        let default = if field.default.is_empty() {
            String::new()
        } else {
            format!(" Default: {}.", field.default)
        };
        value["description"] = json!(format!("{}.{default}", field.about));
        properties.insert(field.name.to_owned(), value);
    }
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn shape(shape_: &Shape) -> Value {
    match shape_ {
        // A number is text as well to the reader: `mode: 0660`, `min_version: 1.2`.
        Shape::Text(_) => json!({ "type": ["string", "number"] }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Count(range) => {
            json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() })
        }
        Shape::Share => json!({ "type": ["number", "string"], "minimum": 0, "maximum": 1 }),
        // An editor that follows YAML 1.1 takes these words for booleans.
        Shape::Switch => json!({ "enum": ["on", "off", true, false] }),
        Shape::Threshold(low, high) => json!({ "anyOf": [
            { "type": "number", "minimum": low, "maximum": high },
            { "type": "string", "pattern": r"^(off|[0-9][0-9_.]* ?%?)$" },
            { "enum": [false] },
        ] }),
        Shape::Choice(words) => json!({ "enum": words }),
        Shape::List(inner) => json!({ "type": "array", "items": shape(inner) }),
        Shape::Section(fields) => section(fields),
        Shape::Either(shapes) => {
            json!({ "anyOf": shapes.iter().map(shape).collect::<Vec<_>>() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_knows_fields_at_every_depth() {
        let schema = schema();
        for pointer in [
            "/properties/listeners/items/anyOf/1/properties/address",
            "/properties/sites/items/properties/certificates/items/anyOf/1/properties/chain",
            "/properties/sites/items/properties/backends/items/anyOf/1/properties/tls/properties/certificate/properties/key",
            "/properties/sites/items/properties/client_certificates/anyOf/1/properties/crls",
            "/properties/sites/items/properties/health/properties/rise",
            "/properties/resumption/properties/ticket_keys/properties/issue",
            "/properties/console",
        ] {
            assert!(schema.pointer(pointer).is_some(), "{pointer}");
        }
    }

    #[test]
    fn every_field_says_what_it_is_for() {
        walk("", &fields(), &mut |path, field| {
            assert!(field.about.len() > 5, "{path}.{}", field.name);
        });
    }
}

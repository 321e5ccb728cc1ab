//! A line that is a JSON object; objects inside of it by names such as `request.tls.resumed`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::fields::{Field, Fields};

/// Deeper objects hold nothing of interest.
const DEEPEST: usize = 4;

/// Reads a line, or says why not.
pub fn read<'a>(line: &'a str) -> Result<Fields<'a>, String> {
    let mut fields = Fields::default();
    let mut reader = serde_json::Deserializer::from_str(line);
    let value = Value {
        fields: &mut fields,
        name: String::new(),
        depth: 0,
    };
    value
        .deserialize(&mut reader)
        .and_then(|()| reader.end())
        .map_err(|error| format!("no JSON: {error}"))?;
    Ok(fields)
}

/// A value under its name.
struct Value<'f, 'a> {
    fields: &'f mut Fields<'a>,
    name: String,
    depth: usize,
}

impl<'a> Value<'_, 'a> {
    fn set(self, value: Cow<'a, str>) {
        self.fields.set(Field::named(&self.name), value);
    }
}

impl<'a> DeserializeSeed<'a> for Value<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Value<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_borrowed_str<E>(self, value: &'a str) -> Result<(), E> {
        self.set(Cow::Borrowed(value));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.set(Cow::Owned(value.to_owned()));
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.set(Cow::Borrowed(if value { "true" } else { "false" }));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.set(Cow::Owned(value.to_string()));
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.set(Cow::Owned(format!("{value:.3}")));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut sequence: A) -> Result<(), A::Error> {
        while sequence.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'a, str>>()? {
            if self.depth >= DEEPEST {
                map.next_value::<serde::de::IgnoredAny>()?;
                continue;
            }
            let name = match self.name.as_str() {
                "" => key.into_owned(),
                outer => format!("{outer}.{key}"),
            };
            map.next_value_seed(Value {
                fields: self.fields,
                name,
                depth: self.depth + 1,
            })?;
        }
        Ok(())
    }
}

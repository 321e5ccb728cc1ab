//! YAML text as a tree in which every node knows its place.
//!
//! Bounded: at most [`MAX_TEXT_BYTES`] of text, [`MAX_DEPTH`] levels and [`MAX_NODES`] nodes counted
//! after aliases are written out, so that a file of a few lines cannot expand without end.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, Span as Marks, StrInput};

use crate::finding::Finding;
use crate::model::Span;
use crate::syntax;

/// Largest text that is read: 1 MiB.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Deepest nesting that is read.
pub const MAX_DEPTH: usize = 32;
/// Most nodes, counted after aliases are written out.
pub const MAX_NODES: usize = 100_000;

/// One node of the tree.
#[derive(Debug)]
pub struct Node {
    /// Where it stands; for an alias, where the anchored node stands.
    pub span: Span,
    /// What it is.
    pub value: Value,
    /// Nodes in it, itself included, with aliases written out.
    weight: usize,
    /// Levels in it, itself included.
    depth: usize,
}

/// What a node is.
#[derive(Debug)]
pub enum Value {
    /// Nothing follows the colon or the dash, or `null` or `~` does.
    Empty,
    /// A scalar, as written, quotes removed.
    Text(String),
    /// A sequence.
    List(Vec<Rc<Node>>),
    /// A mapping in order of the file; a key may occur twice.
    Map(Vec<Entry>),
}

/// One `key: value` of a mapping.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub node: Rc<Node>,
    /// Whether it came in by `<<:` and so yields to a key of the mapping itself.
    merged: bool,
}

/// Reads one YAML document.
///
/// `Ok(None)` is a document without content. An error is the first place at which the text stops
/// being YAML, or at which it passes a bound.
pub fn parse(text: &str) -> Result<Option<Rc<Node>>, Finding> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(
            Finding::error(None, format!("the file has {} bytes", text.len()))
                .label(format!("at most {MAX_TEXT_BYTES} bytes are read"))
                .help("hand over the configuration file itself, not a bundle or a log"),
        );
    }
    if let Some(span) = syntax::too_many_brackets(text, MAX_DEPTH) {
        return Err(too_deep(span));
    }
    let mut builder = Builder {
        offsets: Offsets::new(text),
        text,
        open: Vec::new(),
        anchors: BTreeMap::new(),
        root: None,
        documents: 0,
    };
    for event in Parser::<StrInput<'_>>::new_from_str(text) {
        match event {
            Ok((event, marks)) => builder.take(event, marks)?,
            Err(error) => {
                let at = builder.offsets.byte(error.marker().index());
                return Err(syntax::explain(text, at, error.info()));
            }
        }
    }
    Ok(builder.root)
}

/// Byte offsets of characters; the parser counts characters.
enum Offsets {
    /// Every character is one byte.
    Ascii(usize),
    /// Offset of each character, and of the end.
    Table(Vec<usize>),
}

impl Offsets {
    fn new(text: &str) -> Self {
        if text.is_ascii() {
            return Self::Ascii(text.len());
        }
        let mut table: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        table.push(text.len());
        Self::Table(table)
    }

    fn byte(&self, character: usize) -> usize {
        match self {
            Self::Ascii(length) => character.min(*length),
            Self::Table(table) => table
                .get(character)
                .or(table.last())
                .copied()
                .unwrap_or_default(),
        }
    }
}

/// A collection whose end was not seen yet.
struct Open {
    start: usize,
    anchor: usize,
    kind: Collection,
}

enum Collection {
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>, Option<(String, Span)>),
}

struct Builder<'t> {
    offsets: Offsets,
    text: &'t str,
    open: Vec<Open>,
    /// Finished anchored nodes; one that is still open is absent.
    anchors: BTreeMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    documents: usize,
}

impl Builder<'_> {
    fn span(&self, marks: Marks) -> Span {
        let start = self.offsets.byte(marks.start.index());
        let end = self.offsets.byte(marks.end.index());
        let inside = self.text.get(start..end).unwrap_or_default();
        Span {
            start,
            end: start + inside.trim_end().len(),
        }
    }

    fn take(&mut self, event: Event<'_>, marks: Marks) -> Result<(), Finding> {
        let span = self.span(marks);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.document(span),
            Event::Scalar(text, style, anchor, _) => self.scalar(text, style, anchor, span),
            Event::SequenceStart(anchor, _) => {
                self.enter(span, anchor, Collection::List(Vec::new()))
            }
            Event::MappingStart(anchor, _) => {
                self.enter(span, anchor, Collection::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(span),
            Event::Alias(anchor) => self.alias(anchor, span),
        }
    }

    fn document(&mut self, span: Span) -> Result<(), Finding> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        Err(
            Finding::error(Some(span), "a second YAML document starts here".into())
                .label("one file is one document".into())
                .help("remove the `---` line and what follows, or move it to a file of its own"),
        )
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        span: Span,
    ) -> Result<(), Finding> {
        let plain = style == ScalarStyle::Plain;
        let value = if plain && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL") {
            Value::Empty
        } else {
            Value::Text(text.into_owned())
        };
        let node = Rc::new(Node {
            span,
            value,
            weight: 1,
            depth: 1,
        });
        self.place(node, anchor, span)
    }

    fn enter(&mut self, span: Span, anchor: usize, kind: Collection) -> Result<(), Finding> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(span));
        }
        self.open.push(Open {
            start: span.start,
            anchor,
            kind,
        });
        Ok(())
    }

    fn leave(&mut self, span: Span) -> Result<(), Finding> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let end = open.start
            + self
                .text
                .get(open.start..span.end.max(open.start))
                .unwrap_or_default()
                .trim_end()
                .len();
        let whole = Span {
            start: open.start,
            end,
        };
        let value = match open.kind {
            Collection::List(items) => Value::List(items),
            Collection::Map(entries, _) => Value::Map(own_keys_first(entries)),
        };
        let (weight, depth) = measure(&value);
        let node = Rc::new(Node {
            span: whole,
            value,
            weight,
            depth,
        });
        self.place(node, open.anchor, whole)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Finding> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(Finding::error(
                Some(span),
                "this alias stands inside its own anchor".into(),
            )
            .label("it would never end".into())
            .help("write the values out, or move the anchor to a part of its own"));
        };
        if self.open.len() + node.depth > MAX_DEPTH {
            return Err(too_deep(span));
        }
        self.place(node, 0, span)
    }

    /// Puts a finished node where it belongs: under a key, in a list, or at the root.
    fn place(&mut self, node: Rc<Node>, anchor: usize, span: Span) -> Result<(), Finding> {
        if node.weight > MAX_NODES {
            return Err(Finding::error(
                Some(span),
                format!("the aliases in here stand for over {MAX_NODES} values"),
            )
            .label("written out, this would fill the memory".into())
            .help("write the values out, or use fewer aliases of aliases"));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node).filter(|node| !matches!(node.value, Value::Empty));
            return Ok(());
        };
        match &mut open.kind {
            Collection::List(items) => items.push(node),
            Collection::Map(entries, waiting) => match waiting.take() {
                None => *waiting = Some(key(&node, span)?),
                Some((key, key_span)) if key == "<<" => merge(entries, &node, key_span)?,
                Some((key, key_span)) => entries.push(Entry {
                    key,
                    key_span,
                    node,
                    merged: false,
                }),
            },
        }
        Ok(())
    }
}

fn measure(value: &Value) -> (usize, usize) {
    let children: Vec<&Rc<Node>> = match value {
        Value::Empty | Value::Text(_) => Vec::new(),
        Value::List(items) => items.iter().collect(),
        Value::Map(entries) => entries.iter().map(|entry| &entry.node).collect(),
    };
    children
        .iter()
        .fold((1, 1), |(weight, depth): (usize, usize), child| {
            (
                weight.saturating_add(child.weight),
                depth.max(child.depth + 1),
            )
        })
}

fn too_deep(span: Span) -> Finding {
    Finding::error(Some(span), format!("nested deeper than {MAX_DEPTH} levels"))
        .label("no part of the configuration is this deep".into())
        .help("look for a bracket or an indentation that was not closed")
}

fn key(node: &Node, span: Span) -> Result<(String, Span), Finding> {
    match &node.value {
        Value::Text(text) => Ok((text.clone(), span)),
        Value::Empty => Err(Finding::error(Some(span), "a field without a name".into())
            .label("a name must stand before the colon".into())
            .help("write `name: value`")),
        Value::List(_) | Value::Map(_) => Err(Finding::error(
            Some(span),
            "a list or mapping stands where a field name belongs".into(),
        )
        .label("a name must stand before the colon".into())
        .help("quote text that starts with [ or {, such as \"[::]:443\"")),
    }
}

/// `<<: *base` and `<<: [*one, *two]`: an earlier one wins, as YAML 1.1 has it.
fn merge(entries: &mut Vec<Entry>, node: &Node, span: Span) -> Result<(), Finding> {
    let maps: Vec<&Node> = match &node.value {
        Value::List(items) => items.iter().map(Rc::as_ref).collect(),
        _ => vec![node],
    };
    for map in maps {
        let Value::Map(from) = &map.value else {
            return Err(Finding::error(
                Some(span),
                "`<<` takes a mapping, or a list of mappings".into(),
            )
            .label("this is neither".into())
            .help("write `<<: *name` where &name marks a mapping"));
        };
        for entry in from {
            if !entries
                .iter()
                .any(|other| other.merged && other.key == entry.key)
            {
                entries.push(Entry {
                    merged: true,
                    ..entry.clone()
                });
            }
        }
        // Bounds the search above: no section has anywhere near this many fields.
        if entries.len() > 1_000 {
            return Err(
                Finding::error(Some(span), "over 1000 fields are merged here".into())
                    .label("no part of the configuration has so many".into())
                    .help("write the fields out"),
            );
        }
    }
    Ok(())
}

/// Drops a merged entry whose key the mapping gives itself.
fn own_keys_first(entries: Vec<Entry>) -> Vec<Entry> {
    if !entries.iter().any(|entry| entry.merged) {
        return entries;
    }
    let own: Vec<String> = entries
        .iter()
        .filter(|entry| !entry.merged)
        .map(|entry| entry.key.clone())
        .collect();
    entries
        .into_iter()
        .filter(|entry| !entry.merged || !own.contains(&entry.key))
        .collect()
}

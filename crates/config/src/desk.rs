//! What one reading of the file shares: its text, its folder, and what was found.

use std::cell::RefCell;
use std::path::Path;

use crate::finding::{Finding, Severity};
use crate::model::Span;

/// Most findings kept; a file with more is not the file that was meant.
const MAX_FINDINGS: usize = 500;

/// What the whole reading shares: text, folder, findings.
pub struct Desk<'t> {
    /// The text that is read.
    text: &'t str,
    /// Folder that relative paths start from.
    pub base: &'t Path,
    findings: RefCell<Vec<Finding>>,
    /// Every list is visited once with an empty entry, to learn its fields.
    pub describing: bool,
}

impl<'t> Desk<'t> {
    /// A desk for one text.
    pub fn new(text: &'t str, base: &'t Path, describing: bool) -> Self {
        Self {
            text,
            base,
            findings: RefCell::default(),
            describing,
        }
    }

    /// Keeps a finding, unless there are too many already.
    pub fn report(&self, finding: Finding) {
        if !self.is_full() {
            self.findings.borrow_mut().push(finding);
        }
    }

    /// Whether further findings are dropped, so that none need be worked out.
    pub fn is_full(&self) -> bool {
        self.describing || self.findings.borrow().len() >= MAX_FINDINGS
    }

    /// All findings in order of the file, those without a place first; the same thing said twice
    /// (through an alias) once.
    pub fn into_findings(self) -> Vec<Finding> {
        let mut findings = self.findings.into_inner();
        findings.sort_by_key(|finding| finding.span.map(|span| (span.start, span.end)));
        findings.dedup();
        findings
    }

    /// Whether an error was reported.
    pub fn has_errors(&self) -> bool {
        self.findings
            .borrow()
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Line number of a place, from 1.
    pub fn line(&self, span: Span) -> usize {
        let before = self.text.get(..span.start).unwrap_or_default();
        1 + before.bytes().filter(|byte| *byte == b'\n').count()
    }

    /// The first line of a node: what is marked when a whole section is meant.
    pub fn headline(&self, span: Span) -> Span {
        let text = self.text.get(span.start..span.end).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        Span {
            start: span.start,
            end: span.start + line.trim_end().len(),
        }
    }
}

//! What a peer that keeps to no rule would do.

use super::{Open, Session, State};

impl Session {
    fn unruly(&mut self) -> &mut Open {
        match &mut self.0 {
            State::Open(open) => open,
            State::Lost(_, failure) => unreachable!("{failure}"),
        }
    }

    /// As if one key could protect so many records.
    pub(crate) fn limit_records(&mut self, limit: u64) {
        self.unruly().limit = limit;
    }

    /// One record of any content.
    pub(crate) fn seal_any(&mut self, kind: u8, plain: &[u8]) -> Vec<u8> {
        let mut record = vec![0; plain.len() + 64];
        let open = self.unruly();
        let sealed = open.writing.seal(open.form, kind, plain, &mut record);
        record.truncate(sealed.unwrap_or(0));
        record
    }

    /// What comes after a key update.
    pub(crate) fn change_writing_key(&mut self) {
        let open = self.unruly();
        if let Ok(next) = open.updates.writing(&open.writing) {
            open.writing = next;
        }
    }
}

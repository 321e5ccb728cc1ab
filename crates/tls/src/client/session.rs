//! A session driven without a stream: for a load generator that keeps its own buffers.

use crate::failure::Failure;
use crate::records::sealed_bytes;
use crate::session::Session;

impl Session {
    /// Encrypts `plain` and appends the records to `output`, behind whatever the session holds back.
    ///
    /// # Errors
    /// When the connection has failed or is closed, or the keys are used up.
    pub fn seal(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), Failure> {
        self.append_held(output);
        let start = output.len();
        output.resize(start + sealed_bytes(plain.len()), 0);
        let sealed = self.seal_into(plain, &mut output[start..]);
        settle(sealed, start, output)
    }

    /// Appends a `close_notify` alert to `output`; nothing can be sealed after it.
    ///
    /// # Errors
    /// As [`Session::seal`].
    pub fn close_notify(&mut self, output: &mut Vec<u8>) -> Result<(), Failure> {
        self.append_held(output);
        let start = output.len();
        output.resize(start + sealed_bytes(0), 0);
        let sealed = self.close_into(&mut output[start..]);
        settle(sealed, start, output)
    }

    fn append_held(&mut self, output: &mut Vec<u8>) {
        if !self.held().is_empty() {
            output.extend_from_slice(self.held());
            self.forget_held();
        }
    }
}

/// Cuts `output` to what was written behind `start`.
fn settle(
    sealed: Result<usize, Failure>,
    start: usize,
    output: &mut Vec<u8>,
) -> Result<(), Failure> {
    output.truncate(start + sealed.as_ref().map_or(0, |written| *written));
    sealed.map(|_| ())
}

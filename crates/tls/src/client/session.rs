//! A session driven without a stream: for a load generator that keeps its own buffers.

use crate::failure::Failure;
use crate::session::Session;

/// Header, tag, nonce and content type of a record are 29 bytes at most, for each 16 KB.
const RECORD_OVERHEAD_BYTES: usize = 32;

impl Session {
    /// Encrypts `plain` and appends the records to `output`, behind whatever the session holds back.
    /// `partial` is what [`Session::receive`] has not consumed; what it now takes of it is removed.
    ///
    /// # Errors
    /// When the peer has broken the protocol, or the keys are used up.
    pub fn seal(
        &mut self,
        partial: &mut Vec<u8>,
        plain: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        self.append_held(output);
        let start = output.len();
        let records = plain.len() / (16 * 1024) + 1;
        output.resize(start + plain.len() + records * RECORD_OVERHEAD_BYTES, 0);
        let sealed = self.seal_into(partial, plain, &mut output[start..]);
        settle(sealed, partial, start, output)
    }

    /// Appends a `close_notify` alert to `output`; nothing can be sealed after it.
    ///
    /// # Errors
    /// As [`Session::seal`].
    pub fn close_notify(
        &mut self,
        partial: &mut Vec<u8>,
        output: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        self.append_held(output);
        let start = output.len();
        output.resize(start + 2 * RECORD_OVERHEAD_BYTES, 0);
        let sealed = self.close_into(partial, &mut output[start..]);
        settle(sealed, partial, start, output)
    }

    fn append_held(&mut self, output: &mut Vec<u8>) {
        if !self.held().is_empty() {
            output.extend_from_slice(self.held());
            self.forget_held();
        }
    }
}

/// Cuts `output` to what was written behind `start`, and `partial` to what is left of it.
fn settle(
    sealed: Result<(usize, usize), Failure>,
    partial: &mut Vec<u8>,
    start: usize,
    output: &mut Vec<u8>,
) -> Result<(), Failure> {
    let (written, taken) = match sealed {
        Ok(both) => both,
        Err(failure) => {
            output.truncate(start);
            return Err(failure);
        }
    };
    output.truncate(start + written);
    partial.drain(..taken);
    Ok(())
}

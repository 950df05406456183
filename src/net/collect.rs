//! Collects the bytes of an upload or an import: in memory up to a size, beyond it in a file.
//!
//! The file has no name, so it disappears with its last handle even if the process crashes.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct BodyBuffer {
    /// All bytes, unless there is a file.
    memory: Vec<u8>,
    /// All bytes, once they were too many for memory.
    file: Option<File>,
    /// How many bytes there are.
    size: usize,
    max_in_memory: usize,
    dir: PathBuf,
}

impl BodyBuffer {
    /// Beyond `max_in_memory` bytes a file in `dir` is used.
    #[must_use]
    pub fn new(max_in_memory: usize, dir: &Path) -> Self {
        Self { memory: Vec::new(), file: None, size: 0, max_in_memory, dir: dir.to_owned() }
    }

    /// Returns how many bytes there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Appends bytes, and moves the contents to a file if they become too many for memory.
    ///
    /// # Errors
    /// The file cannot be made or written. Then the contents are undefined: the buffer must be
    /// dropped.
    pub fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() > self.max_in_memory {
            let mut file = unnamed_file(&self.dir)?;
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes)?,
            None => self.memory.extend_from_slice(bytes),
        }
        self.size += bytes.len();
        Ok(())
    }

    /// Returns all bytes and leaves the buffer empty.
    ///
    /// # Errors
    /// The file cannot be read. The buffer is empty then, too.
    pub fn finish(&mut self) -> io::Result<Vec<u8>> {
        let size = std::mem::take(&mut self.size);
        match self.file.take() {
            None => Ok(std::mem::take(&mut self.memory)),
            Some(mut file) => {
                let mut bytes = Vec::with_capacity(size);
                file.rewind()?;
                file.read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

fn unnamed_file(dir: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = i32::try_from(rustix::fs::OFlags::TMPFILE.bits()).unwrap_or_default();
    File::options().read(true).write(true).mode(0o600).custom_flags(flags).open(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_same_bytes_from_memory_and_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        for max_in_memory in [0, 5, 100] {
            let mut body = BodyBuffer::new(max_in_memory, dir.path());
            for chunk in [&b"one "[..], b"two ", b"", b"three"] {
                body.add(chunk).unwrap();
            }
            assert_eq!((body.size(), body.file.is_some()), (13, max_in_memory < 13));
            assert_eq!(body.finish().unwrap(), b"one two three");
            assert_eq!((body.size(), body.finish().unwrap()), (0, Vec::new()));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(BodyBuffer::new(0, &dir.path().join("none")).add(b"x").is_err());
    }
}

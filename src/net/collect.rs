//! Collects bytes that come in: in memory up to a size, beyond it in a file without a name, which
//! is gone with its last handle, whatever happens to the process.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// Bytes while they come in.
#[derive(Debug)]
pub struct BodyBuffer {
    memory: Vec<u8>,
    file: Option<File>,
    size: usize,
    most_in_memory: usize,
    dir: PathBuf,
}

impl BodyBuffer {
    /// Nothing yet. Beyond `most_in_memory` bytes a file in `dir` is used.
    #[must_use]
    pub fn new(most_in_memory: usize, dir: &Path) -> Self {
        Self { memory: Vec::new(), file: None, size: 0, most_in_memory, dir: dir.to_owned() }
    }

    /// How many bytes there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.memory.clear();
        self.memory.shrink_to(64 << 10);
        self.file = None;
        self.size = 0;
    }

    /// Adds some.
    ///
    /// # Errors
    /// Those of the file.
    pub fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() > self.most_in_memory {
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

    /// Gives all of them, in memory.
    ///
    /// # Errors
    /// Those of the file.
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
    fn in_memory_or_in_a_file_it_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        for most_in_memory in [0, 5, 100] {
            let mut collected = BodyBuffer::new(most_in_memory, dir.path());
            for piece in [&b"one "[..], b"two ", b"", b"three"] {
                collected.add(piece).unwrap();
            }
            assert_eq!((collected.size(), collected.file.is_some()), (13, most_in_memory < 13));
            assert_eq!(collected.finish().unwrap(), b"one two three");
            collected.add(b"again").unwrap();
            collected.clear();
            assert_eq!((collected.size(), collected.finish().unwrap()), (0, Vec::new()));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(BodyBuffer::new(0, &dir.path().join("none")).add(b"x").is_err());
    }
}

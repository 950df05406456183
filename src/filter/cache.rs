//! Compiled scripts, by the hash of their source and what the site allows. The cache is in memory,
//! so that a script is compiled once by each process.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use restante_sieve::{ExtensionSet, LineIndex, Script, Severity, Span};

use super::rules::RuleIndex;
use super::settings::Settings;
use crate::model::BlobHash;

/// The most compiled scripts.
const MAX_SCRIPTS: usize = 4096;
/// The most bytes of their sources.
const MAX_SOURCE_BYTES: usize = 16 << 20;

/// A script that was checked.
#[derive(Debug)]
pub(super) struct CompiledScript {
    /// The first error, if the script has any.
    pub(super) script: Result<Arc<Script>, String>,
    /// Empty if the script has errors.
    pub(super) rules: RuleIndex,
    source: Arc<[u8]>,
}

#[derive(Debug, Default)]
pub struct ScriptCache(Mutex<CachedScripts>);

#[derive(Debug, Default)]
struct CachedScripts {
    scripts: HashMap<CacheKey, CachedScript>,
    bytes: usize,
    /// Counts the look-ups, so that the scripts that were used last can be told.
    clock: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CacheKey {
    hash: BlobHash,
    allowed: ExtensionSet,
    redirects: u16,
    max_bytes: usize,
}

#[derive(Debug)]
struct CachedScript {
    compiled: Arc<CompiledScript>,
    used: u64,
}

impl ScriptCache {
    /// Returns the compiled script with this hash, or compiles the source that `source` returns;
    /// `None` if there is none.
    ///
    /// # Errors
    /// Those of `source`.
    pub(super) fn script<E>(
        &self,
        settings: &Settings,
        hash: BlobHash,
        source: impl FnOnce() -> Result<Option<Arc<[u8]>>, E>,
    ) -> Result<Option<Arc<CompiledScript>>, E> {
        let key = CacheKey {
            hash,
            allowed: settings.extensions(),
            redirects: settings.max_redirects,
            max_bytes: settings.max_script_bytes,
        };
        if let Some(known) = self.0.lock().find(&key) {
            return Ok(Some(known));
        }
        let Some(source) = source()? else { return Ok(None) };
        // Two threads may compile the same script; the results are the same.
        let compiled = Arc::new(CompiledScript::new(settings, source));
        self.0.lock().insert(key, Arc::clone(&compiled));
        Ok(Some(compiled))
    }
}

impl CachedScripts {
    fn find(&mut self, key: &CacheKey) -> Option<Arc<CompiledScript>> {
        self.clock = self.clock.saturating_add(1);
        let entry = self.scripts.get_mut(key)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.compiled))
    }

    fn insert(&mut self, key: CacheKey, compiled: Arc<CompiledScript>) {
        let size = compiled.source.len();
        if self.scripts.len() >= MAX_SCRIPTS || self.bytes.saturating_add(size) > MAX_SOURCE_BYTES {
            self.drop_older_half();
        }
        let entry = CachedScript { compiled, used: self.clock };
        self.bytes = self.bytes.saturating_add(size);
        if let Some(replaced) = self.scripts.insert(key, entry) {
            self.bytes = self.bytes.saturating_sub(replaced.compiled.source.len());
        }
    }

    fn drop_older_half(&mut self) {
        let mut uses: Vec<u64> = self.scripts.values().map(|entry| entry.used).collect();
        uses.sort_unstable();
        let median = uses.get(uses.len() / 2).copied().unwrap_or_default();
        self.scripts.retain(|_, entry| entry.used > median);
        self.bytes = self.scripts.values().map(|entry| entry.compiled.source.len()).sum();
    }
}

impl CompiledScript {
    fn new(settings: &Settings, source: Arc<[u8]>) -> Self {
        let checked = settings.check(&source);
        let script = checked.script.map(Arc::new).ok_or_else(|| {
            let error = checked.diagnostics.iter().find(|one| one.severity == Severity::Error);
            let index = LineIndex::new(&source);
            error.map_or_else(
                || "the script has errors".to_owned(),
                |error| {
                    let line = index.position(error.span.start).line;
                    format!("the script has errors: line {line}: {}", error.message)
                },
            )
        });
        let rules = script.as_ref().map(|script| RuleIndex::new(script)).unwrap_or_default();
        Self { script, rules, source }
    }

    /// Returns the line in which a part of the script begins, from 1.
    pub(super) fn line(&self, span: Span) -> u32 {
        LineIndex::new(&self.source).position(span.start).line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(cache: &ScriptCache, source: &[u8]) -> Arc<CompiledScript> {
        let hash = BlobHash(*blake3::hash(source).as_bytes());
        let read = || Ok::<_, ()>(Some(source.into()));
        cache.script(&Settings::default(), hash, read).unwrap().unwrap()
    }

    #[test]
    fn script_is_compiled_once_and_errors_name_their_line() {
        let cache = ScriptCache::default();
        let first = compile(&cache, b"keep;");
        assert!(Arc::ptr_eq(&first, &compile(&cache, b"keep;")));
        let broken = compile(&cache, b"keep;\nkeeep;\n");
        assert!(broken.script.as_ref().unwrap_err().contains("line 2"), "{broken:?}");
        let other = Settings { max_redirects: 1, ..Settings::default() };
        let hash = BlobHash(*blake3::hash(b"keep;").as_bytes());
        assert!(cache.script(&other, hash, || Ok::<_, ()>(None)).unwrap().is_none());
    }

    #[test]
    fn cache_stays_within_its_bounds() {
        let cache = ScriptCache::default();
        let large = vec![b' '; 1 << 20];
        for n in 0..40 {
            compile(&cache, &[&large[n..], b"keep;"].concat());
            assert!(cache.0.lock().bytes <= MAX_SOURCE_BYTES);
        }
        assert!(cache.0.lock().scripts.len() > 4);
    }
}

//! Compiled scripts, by the hash of their source and what the site allows. The cache is in memory:
//! a script is compiled at its first use, and again if the cache has dropped it or the site allows
//! something else meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use restante_sieve::{ExtensionSet, LineIndex, PatternCache, Script, Severity, Span};

use super::rules::RuleIndex;
use super::settings::{Settings, source_hash};
use crate::model::BlobHash;

/// The most compiled scripts in a cache.
const MAX_SCRIPTS: usize = 4096;
/// The most bytes of the sources of all scripts in a cache. It is small because a compiled script
/// may take many times the memory of its source.
const MAX_SOURCE_BYTES: usize = 4 << 20;
/// The most memory of compiled patterns of `:regex`, in bytes.
const MAX_PATTERN_BYTES: usize = 16 << 20;

/// A script that was checked, or whose source is damaged.
#[derive(Debug)]
pub(super) struct CompiledScript {
    /// `Err`: the text of the first error, with its line, or that the source is damaged.
    pub(super) script: Result<Arc<Script>, String>,
    /// Empty if the script has errors.
    pub(super) rules: RuleIndex,
    pub(super) source: Arc<[u8]>,
    /// The most fuel (`RunLimits::fuel`) that a run of it has used; 0 before the first run.
    pub(super) most_fuel: AtomicU64,
}

#[derive(Debug)]
pub struct ScriptCache {
    scripts: Mutex<CachedScripts>,
    /// The compiled patterns of `:regex` of all scripts.
    pub(super) patterns: PatternCache,
}

impl Default for ScriptCache {
    fn default() -> Self {
        Self { scripts: Mutex::default(), patterns: PatternCache::new(MAX_PATTERN_BYTES) }
    }
}

#[derive(Debug, Default)]
struct CachedScripts {
    scripts: HashMap<CacheKey, CachedScript>,
    /// The bytes of the sources of all these scripts.
    bytes: usize,
    /// The number of look-ups so far. `CachedScript::used` is in this unit.
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
    /// The clock when it was last looked up or inserted.
    used: u64,
}

impl ScriptCache {
    /// Returns the compiled script with this hash. If the cache lacks it, the source that `source`
    /// returns is compiled and kept; `None` if `source` returns `None`. A source with another hash
    /// is damaged: it is neither compiled nor kept, and `CompiledScript::script` says so.
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
        if let Some(known) = self.scripts.lock().find(&key) {
            return Ok(Some(known));
        }
        let Some(source) = source()? else { return Ok(None) };
        if source_hash(&source) != hash {
            let script = Err("its source is damaged: the script must be stored again".to_owned());
            return Ok(Some(Arc::new(CompiledScript {
                script,
                rules: RuleIndex::default(),
                source,
                most_fuel: AtomicU64::new(0),
            })));
        }
        // Two threads may compile the same script; the results are the same.
        let compiled = Arc::new(CompiledScript::new(settings, source));
        self.scripts.lock().insert(key, Arc::clone(&compiled));
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
            self.drop_oldest();
        }
        let entry = CachedScript { compiled, used: self.clock };
        self.bytes = self.bytes.saturating_add(size);
        if let Some(replaced) = self.scripts.insert(key, entry) {
            self.bytes = self.bytes.saturating_sub(replaced.compiled.source.len());
        }
    }

    /// Drops the scripts that were used longest ago, until about half of `MAX_SCRIPTS` and of
    /// `MAX_SOURCE_BYTES` are left. Scripts that were used at the same clock stay or go together.
    fn drop_oldest(&mut self) {
        let size = |entry: &CachedScript| entry.compiled.source.len();
        let mut newest_first: Vec<(u64, usize)> =
            self.scripts.values().map(|entry| (entry.used, size(entry))).collect();
        newest_first.sort_unstable_by(|one, other| other.cmp(one));
        let mut bytes = 0_usize;
        let kept = newest_first.iter().take(MAX_SCRIPTS / 2).take_while(|(_, size)| {
            bytes = bytes.saturating_add(*size);
            bytes <= MAX_SOURCE_BYTES / 2
        });
        let oldest = kept.last().map_or(u64::MAX, |(used, _)| *used);
        self.scripts.retain(|_, entry| entry.used >= oldest);
        self.bytes = self.scripts.values().map(size).sum();
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
        Self { script, rules, source, most_fuel: AtomicU64::new(0) }
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
        let hash = source_hash(source);
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
        // With other settings, the script in the cache is not used: the source is asked for.
        let other = Settings { max_redirects: 1, ..Settings::default() };
        let hash = source_hash(b"keep;");
        assert!(cache.script(&other, hash, || Ok::<_, ()>(None)).unwrap().is_none());
    }

    #[test]
    fn damaged_source_is_not_compiled() {
        let cache = ScriptCache::default();
        let read = || Ok::<_, ()>(Some(b"stop;".as_slice().into()));
        let hash = source_hash(b"keep;");
        let damaged = cache.script(&Settings::default(), hash, read).unwrap().unwrap();
        assert!(damaged.script.as_ref().unwrap_err().contains("damaged"), "{damaged:?}");
        assert!(compile(&cache, b"keep;").script.is_ok());
    }

    #[test]
    fn sources_in_the_cache_stay_within_their_bound() {
        let cache = ScriptCache::default();
        for n in 0..3000 {
            compile(&cache, format!("# {n}\nkeep;").as_bytes());
        }
        let large = vec![b' '; 900 << 10];
        for n in 0..20 {
            compile(&cache, &[&large[n..], b"keep;"].concat());
            let scripts = cache.scripts.lock();
            let bytes: usize = scripts.scripts.values().map(|one| one.compiled.source.len()).sum();
            assert_eq!(bytes, scripts.bytes);
            assert!(bytes <= MAX_SOURCE_BYTES, "{bytes}");
        }
        // 20 sources of 900 KiB are beyond 4 MiB, so some of the 3,020 scripts were dropped.
        let left = cache.scripts.lock().scripts.len();
        assert!((2..3020).contains(&left), "{left}");
    }
}

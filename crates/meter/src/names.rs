//! The names behind the numbers that workers count by.

use std::sync::Arc;

use crate::labels::OTHER;

/// The number of a site or listener that is not known; counted as `other`.
pub const NOWHERE: usize = usize::MAX;

/// Names of sites, listeners and backends; a number is a place in these lists.
///
/// Lists only grow: a connection of the configuration before a reload goes on counting by its old number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterNames {
    /// Sites, by their first name or as the caller likes.
    pub sites: Vec<Arc<str>>,
    /// Listeners, by address.
    pub listeners: Vec<Arc<str>>,
    /// Backends of each site, by address; may be shorter than `sites`.
    pub backends: Vec<Vec<Arc<str>>>,
    /// Number of the worker, from 0.
    pub worker: usize,
}

/// Where the names that were added are: the first number is the place of the first name, and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Numbers of the sites.
    pub sites: Vec<usize>,
    /// Numbers of the listeners.
    pub listeners: Vec<usize>,
    /// Numbers of the backends of each site.
    pub backends: Vec<Vec<usize>>,
}

impl MeterNames {
    /// Adds the names of `newer` that are new, and says which number each of them has here.
    ///
    /// The answer depends on names alone, so that a caller and every worker that add the same lists in the
    /// same order agree on the numbers.
    pub fn add(&mut self, newer: &Self) -> Places {
        let listeners = newer
            .listeners
            .iter()
            .map(|name| place(&mut self.listeners, name))
            .collect();
        let mut places = Places {
            listeners,
            ..Places::default()
        };
        for (index, name) in newer.sites.iter().enumerate() {
            let site = place(&mut self.sites, name);
            if self.backends.len() <= site {
                self.backends.resize(site + 1, Vec::new());
            }
            let backends = newer.backends.get(index).map_or(&[][..], Vec::as_slice);
            places.sites.push(site);
            places.backends.push(
                backends
                    .iter()
                    .map(|name| place(&mut self.backends[site], name))
                    .collect(),
            );
        }
        places
    }

    pub(crate) fn site(&self, index: usize) -> Arc<str> {
        named(&self.sites, index)
    }

    pub(crate) fn listener(&self, index: usize) -> Arc<str> {
        named(&self.listeners, index)
    }

    pub(crate) fn backend(&self, site: usize, backend: usize) -> Arc<str> {
        match self.backends.get(site) {
            Some(backends) => named(backends, backend),
            None => OTHER.into(),
        }
    }
}

fn named(names: &[Arc<str>], index: usize) -> Arc<str> {
    names.get(index).map_or_else(|| OTHER.into(), Arc::clone)
}

fn place(names: &mut Vec<Arc<str>>, name: &Arc<str>) -> usize {
    match names.iter().position(|known| known == name) {
        Some(index) => index,
        None => {
            names.push(Arc::clone(name));
            names.len() - 1
        }
    }
}

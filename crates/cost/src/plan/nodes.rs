//! Whether a plan fits on nodes of one size, with one of them lost and with resumption lost.

use serde::Serialize;

use super::Plan;
use crate::price::{round, shown};

/// Nodes that there are, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// How many; `None` asks how many it takes.
    pub nodes: Option<u32>,
    /// vCPU of each, taken as a core each.
    pub vcpu: u32,
}

/// A plan on nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nodes {
    /// vCPU of a node.
    pub vcpu: u32,
    /// Use of the nodes that there are; empty when it was not said how many.
    pub uses: Vec<Use>,
    /// Nodes it takes, one of them spare.
    pub nodes_needed: u64,
    /// The same when no handshake resumes; `None` when that is not known.
    pub nodes_needed_at_zero_hits: Option<u64>,
    /// How these come about, a line each.
    pub arithmetic: Vec<String>,
    /// Whether the plan fits with one node lost; `None` when it was not said how many there are.
    pub fits: Option<bool>,
}

/// How full the nodes are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Use {
    /// In which case.
    pub when: String,
    /// Share of all vCPU, 0 to 1 when it fits; `None` without a node.
    pub share: Option<f64>,
    /// How it comes about.
    pub arithmetic: String,
}

impl Fleet {
    /// How full these nodes are, and how many it takes.
    pub fn holds(self, plan: &Plan) -> Nodes {
        let zero = plan.at_hits.iter().find(|at| at.hits == 0.0);
        let zero = zero.and_then(|at| at.cores);
        let mut arithmetic = Vec::new();
        let nodes_needed = self.needed("nodes", plan.cores, &mut arithmetic);
        let nodes_needed_at_zero_hits =
            zero.map(|cores| self.needed("nodes at 0 % hits", cores, &mut arithmetic));
        let mut uses = Vec::new();
        if let Some(nodes) = self.nodes {
            let fewer = nodes.saturating_sub(1);
            uses.push(self.in_use("all nodes", plan.cores, nodes));
            uses.push(self.in_use("one node lost", plan.cores, fewer));
            if let Some(zero) = zero {
                uses.push(self.in_use("resumption lost", zero, nodes));
                uses.push(self.in_use("one node and resumption lost", zero, fewer));
            }
        }
        Nodes {
            vcpu: self.vcpu,
            fits: self.nodes.map(|nodes| u64::from(nodes) >= nodes_needed),
            uses,
            nodes_needed,
            nodes_needed_at_zero_hits,
            arithmetic,
        }
    }

    fn needed(self, what: &str, cores: f64, lines: &mut Vec<String>) -> u64 {
        let bare = round((cores / f64::from(self.vcpu.max(1))).ceil(), 0) as u64;
        let needed = bare.saturating_add(1);
        lines.push(format!(
            "{what} = {} cores / {} vCPU, rounded up, + 1 spare = {bare} + 1 = {needed}",
            shown(cores),
            self.vcpu
        ));
        needed
    }

    fn in_use(self, when: &str, cores: f64, nodes: u32) -> Use {
        let there = f64::from(nodes) * f64::from(self.vcpu);
        let share = (there > 0.0).then(|| round(cores / there, 4));
        let said = share.map_or("nothing is left".to_owned(), |share| {
            format!("{} %", shown(round(share * 100.0, 2)))
        });
        Use {
            when: when.into(),
            share,
            arithmetic: format!(
                "{} cores / ({nodes} x {}) = {said}",
                shown(cores),
                self.vcpu
            ),
        }
    }
}

//! "Ticket from A, shown to B": who resumes whose tickets, and what follows from it. Pure.

use serde::Serialize;

/// What became of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// Resumed.
    Resumed,
    /// Resumed in one of two tries: there is more than one node behind this address.
    Sometimes,
    /// A full handshake took place instead.
    Full,
    /// The node that was to give the ticket gave none.
    NoTicket,
    /// One of the two could not be reached, or refused the handshake.
    Failed,
}

impl Shown {
    /// A word for the table.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Resumed => "resumed",
            Self::Sometimes => "sometimes",
            Self::Full => "full",
            Self::NoTicket => "no ticket",
            Self::Failed => "failed",
        }
    }

    /// The chance that a client resumes here.
    fn chance(self) -> f64 {
        match self {
            Self::Resumed => 1.0,
            Self::Sometimes => 0.5,
            Self::Full | Self::NoTicket | Self::Failed => 0.0,
        }
    }
}

/// One row per node that gave the ticket, one column per node that it was shown to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matrix(pub(super) Vec<Vec<Shown>>);

impl Matrix {
    /// Nodes that resume each other's tickets in both directions, each node in one group, in their order.
    pub(super) fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for node in 0..self.0.len() {
            let home = groups
                .iter_mut()
                .find(|group| group.iter().all(|other| self.both_ways(node, *other)));
            match home {
                Some(group) => group.push(node),
                None => groups.push(vec![node]),
            }
        }
        groups
    }

    /// Pairs where `from`'s ticket is taken by `to`, but not the other way about.
    pub(super) fn one_way(&self) -> Vec<(usize, usize)> {
        self.pairs()
            .filter(|(from, to)| self.resumes(*from, *to) && self.0[*to][*from] == Shown::Full)
            .collect()
    }

    /// Nodes that do not resume even their own tickets, although a handshake with them works.
    pub(super) fn forgetful(&self) -> Vec<usize> {
        (0..self.0.len())
            .filter(|node| matches!(self.0[*node][*node], Shown::Full | Shown::NoTicket))
            .collect()
    }

    /// Nodes that resume their own tickets in some tries only.
    pub(super) fn several_behind_one(&self) -> Vec<usize> {
        (0..self.0.len())
            .filter(|node| self.0[*node][*node] == Shown::Sometimes)
            .collect()
    }

    /// Nodes that no handshake worked with.
    pub(super) fn failed(&self) -> Vec<usize> {
        (0..self.0.len())
            .filter(|node| self.0[*node][*node] == Shown::Failed)
            .collect()
    }

    /// Whether every node resumes every node's tickets.
    pub(super) fn is_whole(&self) -> bool {
        self.0
            .iter()
            .flatten()
            .all(|shown| *shown == Shown::Resumed)
    }

    /// The share of returning clients that resume when each visit goes to any node, alike; 0 to 1.
    pub(super) fn chance(&self) -> f64 {
        let cells = self.0.iter().flatten();
        let count = cells.clone().count().max(1);
        cells.map(|shown| shown.chance()).sum::<f64>() / count as f64
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let nodes = self.0.len();
        (0..nodes).flat_map(move |from| (0..nodes).map(move |to| (from, to)))
    }

    fn resumes(&self, from: usize, to: usize) -> bool {
        self.0[from][to] == Shown::Resumed
    }

    fn both_ways(&self, one: usize, other: usize) -> bool {
        self.resumes(one, other) && self.resumes(other, one)
    }
}

#[cfg(test)]
mod tests {
    use super::Shown::{Full, NoTicket, Resumed, Sometimes};
    use super::*;

    #[test]
    fn nodes_with_one_key_are_one_group() {
        let matrix = Matrix(vec![vec![Resumed; 3]; 3]);
        assert!(matrix.is_whole());
        assert_eq!(matrix.groups(), [vec![0, 1, 2]]);
        assert!((matrix.chance() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_node_with_another_key_is_a_group_of_its_own() {
        let matrix = Matrix(vec![
            vec![Resumed, Resumed, Full],
            vec![Resumed, Resumed, Full],
            vec![Full, Full, Resumed],
        ]);
        assert!(!matrix.is_whole());
        assert_eq!(matrix.groups(), [vec![0, 1], vec![2]]);
        assert!((matrix.chance() - 5.0 / 9.0).abs() < 1e-9);
        assert!(matrix.one_way().is_empty());
    }

    #[test]
    fn a_rotation_on_its_way_shows_as_one_way() {
        // The second node has the new key and still accepts the old one.
        let matrix = Matrix(vec![vec![Resumed, Resumed], vec![Full, Resumed]]);
        assert_eq!(matrix.one_way(), [(0, 1)]);
        assert_eq!(matrix.groups(), [vec![0], vec![1]]);
    }

    #[test]
    fn nodes_without_resumption_and_balancers_are_told_apart() {
        let matrix = Matrix(vec![
            vec![Full, Full, Full],
            vec![NoTicket, NoTicket, NoTicket],
            vec![Full, Full, Sometimes],
        ]);
        assert_eq!(matrix.forgetful(), [0, 1]);
        assert_eq!(matrix.several_behind_one(), [2]);
        assert!((matrix.chance() - 0.5 / 9.0).abs() < 1e-9);
    }
}
